#pragma once

#include <ATen/core/Tensor.h>

namespace forerun {

/// y = x W^T + b over the packed rows of every sequence.
struct Linear {
  at::Tensor weight;  ///< [out, in] in the model's precision
  at::Tensor bias;    ///< [out], or undefined

  /// @param x  [rows, in] of the weight's dtype
  /// @return   [rows, out]
  at::Tensor operator()(const at::Tensor& x) const;
};

}  // namespace forerun
