#include "forerun/tensor/cpu/kernels/kernels.h"

#include <atomic>

#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/tensor/cpu/kernels/variants.h"

namespace forerun {

#if defined(__x86_64__)
namespace avx512 {
extern const Kernels kKernels;
void pair_product_native(const kernel::PairProduct& p);
void int8_panel_soon(const kernel::Int8Panels& w, std::int64_t panel, const kernel::Int8Rows& x,
                     std::int64_t rows, float* out, std::int64_t stride, std::int64_t width,
                     bool add, const std::uint8_t* next);
void int8_panel_near(const kernel::Int8Panels& w, std::int64_t panel, const kernel::Int8Rows& x,
                     std::int64_t rows, float* out, std::int64_t stride, std::int64_t width,
                     bool add, const std::uint8_t* next);
void int4_panel_soon(const kernel::Int4Panels& w, std::int64_t panel, const kernel::Int8Rows& x,
                     std::int64_t rows, float* out, std::int64_t stride, std::int64_t width,
                     bool add, const std::uint8_t* next);
void int4_panel_near(const kernel::Int4Panels& w, std::int64_t panel, const kernel::Int8Rows& x,
                     std::int64_t rows, float* out, std::int64_t stride, std::int64_t width,
                     bool add, const std::uint8_t* next);
namespace amx {
void int8_panel(const kernel::Int8Panels& w, std::int64_t panel, const kernel::Int8Rows& x,
                std::int64_t rows, float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next);
void int4_panel(const kernel::Int4Panels& w, std::int64_t panel, const kernel::Int8Rows& x,
                std::int64_t rows, float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next);
void key_product(const kernel::KeyProduct& p);
void value_product(const kernel::ValueProduct& p);
void begin_job();
void end_job();
}  // namespace amx
}  // namespace avx512
namespace avx2 {
extern const Kernels kKernels;
}
#endif

std::vector<Kernels> runnable_kernels() {
  std::vector<Kernels> out;
#if defined(__x86_64__)
  const CpuFeatures& cpu = cpu_features();
  if (cpu.avx512_vnni) {
    out.push_back(avx512::kKernels);
    // Up to there products leave time to wait for memory (docs/performance.md).
    if (cpu.drops_prefetches) {
      out.back().prefetched_rows = 6;
      out.back().prefetched_rows4 = 2;
    }
    Kernels near = out.back(), soon = out.back();
    near.name = "AVX-512 VNNI, fetching near";
    near.int8_panel = &avx512::int8_panel_near;
    near.int4_panel = &avx512::int4_panel_near;
    near.prefetched_rows = near.prefetched_rows4 = 1;
    out.insert(cpu.fetches_near ? out.begin() : out.end(), near);
    soon.name = "AVX-512 VNNI, fetching soon";
    soon.int8_panel = &avx512::int8_panel_soon;
    soon.int4_panel = &avx512::int4_panel_soon;
    out.insert(cpu.fetches_soon ? out.begin() : out.end(), soon);
    if (cpu.avx512_bf16) {
      Kernels native = out.front();
      native.name = "AVX-512 VNNI and BF16";
      native.pair_product = &avx512::pair_product_native;
      out.insert(cpu.fast_bf16 ? out.begin() : out.end(), native);
    }
    if (cpu.amx_int8) {
      Kernels tiles = out.front();
      tiles.name = cpu.fast_bf16 ? "AVX-512 VNNI, BF16 and AMX" : "AVX-512 VNNI and AMX";
      tiles.int8_panel = &avx512::amx::int8_panel;
      tiles.int4_panel = &avx512::amx::int4_panel;
      tiles.key_product = &avx512::amx::key_product;
      tiles.value_product = &avx512::amx::value_product;
      tiles.begin_job = &avx512::amx::begin_job;
      tiles.end_job = &avx512::amx::end_job;
      out.insert(out.begin(), tiles);
    }
  }
  if (cpu.avx2) out.push_back(avx2::kKernels);
#endif
  return out;
}

namespace {

std::atomic<const Kernels*>& active() noexcept {
  static const std::vector<Kernels> all = runnable_kernels();
  static const Kernels none{};
  static std::atomic<const Kernels*> chosen{all.empty() ? &none : all.data()};
  return chosen;
}

}  // namespace

const Kernels& kernels() noexcept { return *active().load(std::memory_order_relaxed); }

ForcedKernels::ForcedKernels(const Kernels& use) noexcept : before_(active().exchange(&use)) {}
ForcedKernels::~ForcedKernels() { active() = before_; }

}  // namespace forerun
