#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// Which examples a step trains on: a fresh permutation every epoch, cut into batches of almost
/// equal size. A pure function of (seed, step), so a resumed run needs no state to go on.
class DataOrder {
 public:
  /// @param size   examples, at least 1
  /// @param batch  examples a step at most, at least 1
  DataOrder(std::size_t size, std::size_t batch, std::uint64_t seed);

  /// The epochs' batches differ in size by one at most and hold every example once.
  std::int64_t steps_per_epoch() const noexcept { return steps_per_epoch_; }

  struct Batch {
    std::uint64_t seed = 0;                 ///< of the epoch, for what is random about an example
    std::span<const std::size_t> examples;  ///< valid until the next call
  };
  /// @param step  1, 2, ...
  Batch of_step(std::int64_t step);

 private:
  std::size_t size_;
  std::int64_t steps_per_epoch_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;  // that order_ is of
  std::vector<std::size_t> order_;
};

/// The part of `items` that falls to one of `ranks`: contiguous, sizes differ by one at most, the
/// first ranks have the larger ones.
std::span<const std::size_t> part_of(std::span<const std::size_t> items, int rank, int ranks);

}  // namespace forerun
