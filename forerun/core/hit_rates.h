#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// P(a drafted token is the output | the one before it is), by cell: what a source of drafts knows
/// of a token before the target judges it (its rank, depth, the source's own score). Counts, halved
/// when there are many, so that a change is followed. A cell with few counts borrows from its
/// group, a group from the prior given for it.
class HitRates {
 public:
  struct Cell {
    std::uint16_t cell = 0, group = 0;
  };

  HitRates() = default;
  /// @param cells   number of cells
  /// @param priors  of each group, in (0, 1)
  HitRates(std::size_t cells, std::span<const double> priors);

  bool empty() const noexcept { return cells_.empty(); }
  double probability(Cell of) const noexcept;
  void observe(Cell of, bool hit) noexcept;
  /// Recent observations of the cell.
  double examined(Cell of) const noexcept { return cells_[of.cell].examined; }

 private:
  struct Count {
    double examined = 0.0, hits = 0.0;
    void add(bool hit) noexcept;
  };
  std::vector<Count> cells_, groups_;
  std::vector<double> priors_;
};

}  // namespace forerun
