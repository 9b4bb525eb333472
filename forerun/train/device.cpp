#include "forerun/train/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace forerun {
namespace {

// libtorch's part for GPUs and NVIDIA's libraries take longer to load, and more memory, than all
// else: they are loaded only where a driver is. At start, since libtorch asks once, and early,
// whether that part is there.
const bool kGpuPart = [] {
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) return false;
  // Compared here: as the last call of a function it would be a jump, and the loader goes by who
  // calls, whose run path leads to libtorch.
  return dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_GLOBAL) != nullptr;
}();

}  // namespace

at::Device device_of(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  constexpr std::string_view kCuda = "cuda";
  const std::string_view rest = std::string_view(name).substr(std::min(kCuda.size(), name.size()));
  int number = 0;
  bool valid = name.starts_with(kCuda);
  if (valid && !rest.empty()) {
    const char* const end = rest.data() + rest.size();
    const auto [stop, error] = std::from_chars(rest.data() + 1, end, number);
    valid = rest.starts_with(':') && error == std::errc() && stop == end && number >= 0;
  }
  if (!valid) {
    throw std::invalid_argument(
        fmt::format("train: device '{}': cpu, cuda and cuda:N are supported", name));
  }
  if (!kGpuPart || !at::hasCUDA()) {
    throw std::invalid_argument(
        fmt::format("train: device {}: there is no GPU, or the libtorch of this program was built "
                    "without CUDA; leave it out to train on the CPU",
                    name));
  }
  const int count = at::detail::getCUDAHooks().deviceCount();
  if (number >= count) {
    throw std::invalid_argument(
        fmt::format("train: device {}: this machine has {} of them, cuda:0 to cuda:{}", name, count,
                    count - 1));
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(number)};
}

}  // namespace forerun
