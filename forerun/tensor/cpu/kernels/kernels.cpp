#include "forerun/tensor/cpu/kernels/kernels.h"

#include <atomic>

#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/tensor/cpu/kernels/variants.h"

namespace forerun {

#if defined(__x86_64__)
namespace avx512 {
extern const Kernels kKernels;
void pair_product_native(const kernel::PairProduct& p);
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
    if (cpu.avx512_bf16) {
      Kernels native = avx512::kKernels;
      native.name = "AVX-512 VNNI and BF16";
      native.pair_product = &avx512::pair_product_native;
      out.insert(cpu.fast_bf16 ? out.begin() : out.end(), native);
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
