#pragma once

#include <ATen/autocast_mode.h>

namespace forerun {

/// During its lifetime, matrix products on the CPU run in bfloat16 and operations that need range
/// in float32, as in torch.autocast("cpu"). It keeps the casts of weights until it is destroyed,
/// because the next step changes the weights.
class Autocast {
 public:
  explicit Autocast(bool on) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::increment_nesting();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }

 private:
  bool before_;
};

}  // namespace forerun
