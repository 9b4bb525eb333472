#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>

#include "forerun/api/model_impl.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/train.h"

namespace forerun {

double product_rate(bool bf16, int threads) {
  constexpr std::int64_t kSide = 2048;
  constexpr int kRepeats = 5;
  set_threads(threads);
  const c10::InferenceMode no_autograd;
  const auto type = bf16 ? at::kBFloat16 : at::kFloat;
  const at::Tensor a = at::ones({kSide, kSide}, type), b = at::ones({kSide, kSide}, type);
  at::Tensor out = at::mm(a, b);  // the first call chooses and compiles its code
  double best = 0.0;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    at::mm_out(out, a, b);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * static_cast<double>(kSide * kSide * kSide) / took.count());
  }
  return best;
}

bool trains_in_bf16() noexcept {
  const CpuFeatures& cpu = cpu_features();
  return cpu.avx512_vnni || cpu.avx512_bf16;
}

}  // namespace forerun
