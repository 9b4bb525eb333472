#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forerun {

/// Visible columns [begin, end) of a row of scores; the others have no weight.
struct Visible {
  std::int32_t begin = 0, end = 0;
};

/// One softmax over each row of two matrices of scores side by side, in place: scores become
/// weights, zero for invisible columns. float32 inside, or float64.
/// @param left, right  [heads, rows, columns] of one type, contiguous but for the heads; float64,
///                     float32 or bfloat16
/// @param left_seen    of row r the entry r / group; together with right_seen never empty
/// @param right_seen   of row r the entry r / group % right_seen.size()
/// @param scale        of the scores
void joint_softmax_(const at::Tensor& left, const at::Tensor& right,
                    const std::vector<Visible>& left_seen, const std::vector<Visible>& right_seen,
                    std::int64_t group, double scale);

/// Gradient by the scores, in place of the gradient by the weights.
/// @param left, right    the weights computed by joint_softmax_
/// @param left_, right_  gradients by them, of the same shapes and type
void joint_softmax_backward_(const at::Tensor& left, const at::Tensor& right,
                             const at::Tensor& left_slope, const at::Tensor& right_slope,
                             const std::vector<Visible>& left_seen,
                             const std::vector<Visible>& right_seen, std::int64_t group,
                             double scale);

}  // namespace forerun
