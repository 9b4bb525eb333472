#pragma once

#include <ATen/core/Tensor.h>

namespace forerun {

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in float32.
struct RmsNorm {
  at::Tensor weight;  ///< [dim] float32; float64 in a float64 network
  double eps = 1e-6;

  bool defined() const { return weight.defined(); }
  const float* values() const { return weight.const_data_ptr<float>(); }
  /// In x's dtype.
  at::Tensor operator()(const at::Tensor& x) const;
  /// In one pass over memory, differentiable, in the dtype of the next product (product_type); the
  /// rounding differs.
  at::Tensor fused(const at::Tensor& x) const;
};

}  // namespace forerun
