#include "forerun/train/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace forerun {

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
  if (!at::hasCUDA()) {
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
