#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forerun {

constexpr std::size_t kConfidenceBins =
    8;  ///< a draft's confidence_bin, its drafter's estimate before any token, is 0 to 7

/// Per-sequence bias: how much better or worse one sequence's drafts do than all drafts, as a
/// factor on the odds that a draft is kept. It compares the drafts kept and rejected in the
/// sequence (over about 16 rounds) with the expectation for the same confidence_bins and positions.
class SequenceBias {
 public:
  /// `probability` over all sequences, biased for this one.
  double apply(double probability) const noexcept;
  /// @param expected  the estimate of `Acceptance` for this draft
  void observe(double expected, bool kept) noexcept;
  /// Forgets a little: 1/16 in a round in which drafts were examined, else 1/128.
  void next_round() noexcept;

 private:
  double kept_ = 0.0, kept_expected_ = 0.0, dropped_ = 0.0, dropped_expected_ = 0.0;
  bool touched_ = false;
};

/// The probability that a draft is kept, given that it is examined, by confidence_bin and position,
/// over all sequences. Counts forget 1/64 in a round that adds to them. With few counts, a position
/// borrows from the previous one (with a weight of 4 counts), the first from its confidence_bin, a
/// confidence_bin from all confidence_bins, and those from 1/2.
class Acceptance {
 public:
  static constexpr std::size_t kPositions = 64;  ///< later ones count as the last

  struct Cell {
    double examined = 0.0;
    double kept = 0.0;
  };

  /// P(kept | examined) at each position of a confidence_bin in order.
  class Along {
   public:
    double next() noexcept;

   private:
    friend class Acceptance;
    Along(const std::array<Cell, kPositions>& cells, double before) noexcept
        : cells_(&cells), before_(before) {}
    const std::array<Cell, kPositions>* cells_;
    double before_;
    std::size_t position_ = 0;
  };

  /// @param confidence_bin  below kConfidenceBins
  Along along(std::size_t confidence_bin) const noexcept;
  double probability(std::size_t confidence_bin, std::size_t position) const noexcept;
  const Cell& cell(std::size_t confidence_bin, std::size_t position) const noexcept;
  void observe(std::size_t confidence_bin, std::size_t position, bool kept) noexcept;
  void next_round() noexcept;

 private:
  struct Bin {
    std::array<Cell, kPositions> cells{};
    Cell total;
    bool touched = false;
  };
  std::array<Bin, kConfidenceBins> confidence_bins_{};
  Cell total_;
};

}  // namespace forerun
