#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forerun {

/// Loss of a softmax Q against a law P.
enum class LawLoss : std::uint8_t {
  kCrossEntropy,  ///< -sum P log Q
  kL1,            ///< sum |P - Q|, of the whole law: 2 - 2 * overlap. Source: DSpark
                  ///< (arXiv:2607.05147)
};

/// Targets of the rows of a matrix of logits, and their weights.
struct MixedTargets {
  std::vector<std::int64_t> label;   ///< [rows]: a column each
  at::Tensor laws;                   ///< [laws, columns] float32 (float64 for float64 logits)
  std::vector<std::int64_t> law_of;  ///< [rows]: the row of `laws` that is a row's target
  std::vector<float> weight;         ///< [rows]
  double share = 0.5;                ///< of the law in a row's loss; the label has the rest
  /// [laws] float32: the share of a wider law in these columns; `laws` is normalised over them.
  /// Affects the overlap, and the L1 distance. Undefined: all of it.
  at::Tensor covered;
  LawLoss law_loss = LawLoss::kCrossEntropy;
};

struct MixedCrossEntropy {
  at::Tensor loss;     ///< []: sum of weight * loss; has a gradient by logits and addend
  at::Tensor overlap;  ///< [rows]: sum over columns of min(covered * law, softmax), no gradient
  at::Tensor best;     ///< [rows] int64: the first largest column
};

/// Cross-entropy of each row's softmax with a label, and its loss against a whole law
/// (distillation), in one pass over memory that also computes the gradient: nothing of the logits'
/// size is kept in float32. float32 inside, or float64. The result does not depend on the number of
/// threads.
/// @param logits  [rows, columns] float64, float32 or bfloat16
/// @param addend  the same, added to them; or undefined
/// @throws std::invalid_argument  targets with other numbers of rows or columns
MixedCrossEntropy mixed_cross_entropy(const at::Tensor& logits, const at::Tensor& addend,
                                      const MixedTargets& targets);

}  // namespace forerun
