#pragma once

#include <ATen/ATen.h>

namespace forerun {

/// The largest difference of two tensors, computed in float64; 1e9 if their shapes differ.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return 1e9;
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace forerun
