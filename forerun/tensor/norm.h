#pragma once

#include <ATen/core/Tensor.h>

namespace forerun {

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in float32 and returned in
/// x's dtype.
struct RmsNorm {
  at::Tensor weight;  ///< [dim] float32
  double eps = 1e-6;

  bool defined() const { return weight.defined(); }
  const float* values() const { return weight.const_data_ptr<float>(); }
  at::Tensor operator()(const at::Tensor& x) const;
};

}  // namespace forerun
