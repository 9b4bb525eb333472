#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// The rows of one sequence in a pass. A row follows its parent, an earlier row, or the last kept
/// position, and is at the position after it, or further on if it skips some: its depth is that
/// position less the number of kept ones. It sees what is kept, its ancestors, itself and the rows
/// of its group; nobody is at a position that was skipped.
class RowPlan {
 public:
  /// A chain: every row follows the one before it.
  explicit RowPlan(std::int64_t rows = 0) noexcept : rows_(rows), straight_(rows), depths_(rows) {}
  /// @param parents  [rows] or empty, a chain: the row that each row follows, -1 the last kept
  ///                 position
  /// @param groups   [rows] or empty: rows of the same number >= 0 see each other, as those of a
  ///                 mask block do; -1 none
  /// @param skips    [rows] or empty: positions left out between a row and its parent, >= 0
  /// @throws std::invalid_argument  sizes, a parent that is not an earlier row, a negative skip, or
  /// a row that would see two rows at one position
  static RowPlan of(std::int64_t rows, std::span<const std::int32_t> parents,
                    std::span<const std::int32_t> groups, std::span<const std::int32_t> skips = {});

  /// Whether no parents, groups and skips were given: the pass itself keeps such rows.
  bool chain() const noexcept { return depth_.empty(); }
  /// Whether every row sees its ancestors and itself alone, one position after the other.
  bool ordered() const noexcept { return ordered_; }
  std::int64_t rows() const noexcept { return rows_; }
  /// Number of first rows that form a chain: row i has depth i.
  std::int64_t straight() const noexcept { return straight_; }
  /// Number of the rows after those.
  std::int64_t branches() const noexcept { return rows_ - straight_; }
  /// Largest depth, and one more: positions after the kept ones that the rows take.
  std::int64_t depths() const noexcept { return depths_; }

  std::int64_t depth(std::int64_t row) const noexcept {
    return chain() ? row : depth_[static_cast<std::size_t>(row)];
  }
  std::int64_t parent(std::int64_t row) const noexcept {
    return chain() ? row - 1 : parents_[static_cast<std::size_t>(row)];
  }
  /// The rows that `row` sees, by their depths from 0 on; -1 where it sees none. Not of a chain,
  /// whose rows see those from 0 to themselves.
  std::span<const std::int32_t> seen(std::int64_t row) const noexcept {
    const auto r = static_cast<std::size_t>(row);
    return std::span(seen_).subspan(first_[r], first_[r + 1] - first_[r]);
  }

 private:
  std::int64_t rows_, straight_, depths_;
  bool ordered_ = true;
  std::vector<std::int32_t> parents_, depth_, seen_;
  std::vector<std::size_t> first_;  // of each row in `seen_`
};

}  // namespace forerun
