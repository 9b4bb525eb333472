#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "forerun/tensor/stored_matrix.h"

namespace forerun {

/// Weights rounded to groups of 32 of 4 bits, as Q4_1 stores them: levels between the smallest and
/// the largest of a group. 5 bits a weight.
/// @param weight  [n, k], k a multiple of 32
/// @return  a matrix that holds its own memory. A group with a value that is not finite is NaN.
std::shared_ptr<const StoredMatrix> four_bit_weights(const at::Tensor& weight);

/// Weights as four_bit_weights gives them back, for training. Gradients pass through the rounding
/// unchanged (the straight-through estimator: Bengio, Leonard and Courville 2013, arXiv:1308.3432).
/// @param weight  [n, k] float32, k a multiple of 32
at::Tensor straight_through_four_bits(const at::Tensor& weight);

}  // namespace forerun
