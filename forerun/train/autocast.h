#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/DeviceType.h>

namespace forerun {

/// During its lifetime, matrix products on a device run in bfloat16 and operations that need range
/// in float32, as in torch.autocast. It keeps the casts of weights until it is destroyed,
/// because the next step changes the weights.
class Autocast {
 public:
  explicit Autocast(bool on, c10::DeviceType device = c10::DeviceType::CPU)
      : device_(device), before_(at::autocast::is_autocast_enabled(device)) {
    at::autocast::set_autocast_dtype(device, at::kBFloat16);
    at::autocast::set_autocast_enabled(device, on);
    at::autocast::increment_nesting();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, before_);
  }

 private:
  c10::DeviceType device_;
  bool before_;
};

}  // namespace forerun
