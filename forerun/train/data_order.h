#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// The examples of a step: a new permutation every epoch, cut into batches of almost equal size. A
/// pure function of (seed, step), so a resumed run needs no state.
class DataOrder {
 public:
  /// @param size   examples, at least 1
  /// @param batch  examples a step at most, at least 1
  DataOrder(std::size_t size, std::size_t batch, std::uint64_t seed);

  /// The batches of an epoch differ in size by at most one and hold every example once.
  std::int64_t steps_per_epoch() const noexcept { return steps_per_epoch_; }

  struct Batch {
    std::uint64_t seed = 0;                 ///< of the epoch, for the randomness of examples
    std::span<const std::size_t> examples;  ///< valid until the next call
  };
  /// @param step  1, 2, ...
  Batch of_step(std::int64_t step);

 private:
  std::size_t size_;
  std::int64_t steps_per_epoch_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;  // the epoch of order_
  std::vector<std::size_t> order_;
};

/// The part of `items` of one of `ranks`: contiguous, sizes differ by at most one, the first ranks
/// have the larger ones.
std::span<const std::size_t> part_of(std::span<const std::size_t> items, int rank, int ranks);

}  // namespace forerun
