#pragma once

#include <ATen/core/Tensor.h>

/// The operations of a transformer in training between its matrix products, one pass over memory
/// each, forward and backward. On the CPU for float64, float32 and bfloat16 (computed in float32);
/// elsewhere, and for other types, the same from ATen's operations. Sums over rows have a fixed
/// order: gradients do not depend on the number of threads.
namespace forerun {

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension.
/// @param x       [..., dim]
/// @param weight  [dim] float32, float64 for a float64 x
/// @param type    of the result
at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                          at::ScalarType type);

/// The same over each head, then the rotary embedding, dimension j paired with j + dim / 2.
/// @param x         [rows, heads * dim]
/// @param weight    [dim] float32, float64 for a float64 x
/// @param cos, sin  [rows, 1, dim / 2], of the weight's type
/// @return          [rows, heads, dim] of x's type
at::Tensor fused_norm_rotate(const at::Tensor& x, const at::Tensor& weight, double eps,
                             const at::Tensor& cos, const at::Tensor& sin);

/// silu(gate) * up, elementwise; both of one shape and type.
at::Tensor fused_swiglu(const at::Tensor& gate, const at::Tensor& up);

/// GELU by its tanh form (Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2), elementwise.
at::Tensor fused_gelu(const at::Tensor& x);

}  // namespace forerun
