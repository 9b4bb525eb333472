#pragma once

#include <ATen/core/Tensor.h>

/// The operations of a Diffusion Transformer between its matrix products (adaLN-Zero; Peebles and
/// Xie 2022, arXiv:2212.09748, section 3.2), one pass over memory each, forward and backward. On
/// the CPU for float64, float32 and bfloat16 (computed in float32); elsewhere the same from ATen's
/// operations. Results do not depend on the number of threads, nor on the rest of the batch.
namespace forerun {

/// LayerNorm without weights over the last dimension, times 1 + scale, plus shift.
/// @param x             [batch, tokens, dim]
/// @param shift, scale  [batch, dim] float32 (float64 for a float64 x), rows may lie apart
/// @param type          of the result
at::Tensor fused_layer_norm_modulate(const at::Tensor& x, const at::Tensor& shift,
                                     const at::Tensor& scale, double eps, at::ScalarType type);

/// x + gate * y.
/// @param x     [batch, tokens, dim]
/// @param gate  [batch, dim] of x's type, rows may lie apart
/// @param y     [batch, tokens, dim] of x's type or bfloat16
at::Tensor fused_gated_sum(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& y);

}  // namespace forerun
