#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forerun {

/// What the rows of a matrix of logits are to say, and how much each counts.
struct MixedTargets {
  std::vector<std::int64_t> label;   ///< [rows]: a column each
  at::Tensor laws;                   ///< [laws, columns] float32 (float64 for float64 logits)
  std::vector<std::int64_t> law_of;  ///< [rows]: the row of `laws` a row is to equal
  std::vector<float> weight;         ///< [rows]
  double share = 0.5;                ///< of the law in a row's loss; the rest is the label's
  /// [laws] float32: how much of a wider law lies in these columns, of which `laws` has the
  /// proportions; counts in the overlap alone. Undefined: all of it.
  at::Tensor covered;
};

struct MixedCrossEntropy {
  at::Tensor loss;     ///< []: sum of weight * loss; has a gradient by logits and addend
  at::Tensor overlap;  ///< [rows]: sum over columns of min(covered * law, softmax), no gradient
  at::Tensor best;     ///< [rows] int64: the first largest column
};

/// Cross-entropy of each row's softmax with a label and with a whole law (distillation), in one
/// pass over memory that leaves the gradient behind: nothing of the logits' size is kept in
/// float32. float32 inside, or float64. The result does not depend on the number of threads.
/// @param logits  [rows, columns] float64, float32 or bfloat16
/// @param addend  the same, added to them; or undefined
/// @throws std::invalid_argument if the targets are not of as many rows and columns
MixedCrossEntropy mixed_cross_entropy(const at::Tensor& logits, const at::Tensor& addend,
                                      const MixedTargets& targets);

}  // namespace forerun
