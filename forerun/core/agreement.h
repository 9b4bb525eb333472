#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace forerun {

/// What several sources say of one drafted token, as one probability. The likeliest source's
/// estimate is corrected by how often such tokens were right: a token that another source names too
/// is right more often, one that nobody else names less often.
class Agreement {
 public:
  /// @param first, second  estimates of P(the token is the output): the largest, and the next one;
  ///                       second 0 = no other source names the token
  double probability(double first, double second) const noexcept {
    const Cell& cell = cells_[index(first)][second_index(second)];
    const double factor = (cell.hits + kPrior) / (cell.expected + kPrior);
    return std::min(kMost, first * factor);
  }
  void observe(double first, double second, bool hit) noexcept {
    Cell& cell = cells_[index(first)][second_index(second)];
    if (cell.expected >= kMemory) {
      cell.expected *= 0.5;
      cell.hits *= 0.5;
    }
    cell.expected += first;
    cell.hits += hit ? 1.0 : 0.0;
  }

 private:
  static constexpr double kPrior = 8.0, kMemory = 512.0, kMost = 0.995;
  static constexpr std::array<double, 5> kBounds = {0.05, 0.15, 0.35, 0.6, 0.85};
  static constexpr std::size_t kBins = kBounds.size() + 1;

  struct Cell {
    double expected = 0.0, hits = 0.0;
  };
  static std::size_t index(double p) noexcept {
    return static_cast<std::size_t>(std::upper_bound(kBounds.begin(), kBounds.end(), p) -
                                    kBounds.begin());
  }
  static std::size_t second_index(double p) noexcept { return p > 0.0 ? 1 + index(p) : 0; }

  std::array<std::array<Cell, kBins + 1>, kBins> cells_{};
};

}  // namespace forerun
