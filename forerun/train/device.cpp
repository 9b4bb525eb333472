#include "forerun/train/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <string_view>

#include "forerun/train/objective.h"

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
        fmt::format("train: device {}: there is no GPU, or this libtorch was built without CUDA; "
                    "leave out --device to train on the CPU",
                    name));
  }
  const int count = at::detail::getCUDAHooks().deviceCount();
  if (number >= count) {
    throw std::invalid_argument(
        fmt::format("train: device {}: this machine has {}, numbered from 0", name, count));
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(number)};
}

void Objective::move_to(const at::Device& device) {
  if (device.is_cpu()) return;
  throw std::invalid_argument(
      "train: this kind of network is trained on the CPU alone; leave out --device");
}

}  // namespace forerun
