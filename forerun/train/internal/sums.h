#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "forerun/train/objective.h"
#include "forerun/train/options.h"
#include "forerun/train/ranks.h"

namespace forerun::internal {

/// Sums over micro-batches and ranks, without tensors.
struct Sums {
  double loss = 0.0, weight = 0.0, tokens = 0.0, flops = 0.0;
  std::vector<Figure> figures;  ///< in order of first appearance

  void add(double loss_sum, const LossSum& part);
  /// Adds the other ranks' sums; afterwards all ranks hold the same.
  void add_ranks_(Ranks& ranks);
};

/// Calls `each` with at most `size` of the items at a time, until `leave()`, which is asked before
/// every call.
/// @returns false if it left
bool in_micro_batches(std::span<const std::size_t> items, std::size_t size,
                      const std::function<bool()>& leave,
                      const std::function<void(std::span<const std::size_t>)>& each);

}  // namespace forerun::internal
