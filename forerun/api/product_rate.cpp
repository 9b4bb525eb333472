#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "forerun/api/model_impl.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/train.h"
#include "forerun/train/device.h"

namespace forerun {

namespace {

at::Device usable(const std::string& device) {
  try {
    return device_of(device);
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

}  // namespace

double product_rate(bool bf16, int threads, const std::string& device) {
  const at::Device where = usable(device);
  const std::int64_t side = where.is_cpu() ? 2048 : 8192;
  constexpr int kRepeats = 5;
  set_threads(threads);
  const c10::InferenceMode no_autograd;
  const auto type = bf16 ? at::kBFloat16 : at::kFloat;
  const auto options = at::TensorOptions(type).device(where);
  const at::Tensor a = at::ones({side, side}, options), b = at::ones({side, side}, options);
  at::Tensor out = at::mm(a, b);  // the first call chooses and compiles its code
  const auto wait = [&] {         // until a device has computed it
    if (!where.is_cpu()) out[0][0].item<float>();
  };
  wait();
  double best = 0.0;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    at::mm_out(out, a, b);
    wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * static_cast<double>(side * side * side) / took.count());
  }
  return best;
}

bool trains_in_bf16(const std::string& device) noexcept {
  if (device != "cpu") return true;
  const CpuFeatures& cpu = cpu_features();
  return cpu.avx512_vnni || cpu.avx512_bf16;
}

}  // namespace forerun
