#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace forerun {

/// P(a token is the output | its noise g at the position), from P(it is the output) before its
/// noise is known. Under shared noise the output is argmax log p + g, so a token with much noise
/// comes out more often: if `before` were the target's own p, with exp(-(1 - p) / p * exp(-g)). An
/// estimate of p may stand for 0 or 1 as often, where noise says little; so the odds are corrected
/// by how often such tokens were right, by bins of both.
/// Source: Gumbel-max, Maddison et al. 2014, arXiv:1411.0030, section 2.
class NoiseOdds {
 public:
  NoiseOdds() {
    for (std::size_t p = 0; p < kMiddles.size(); ++p) {
      for (std::size_t g = 0; g < kNoises.size(); ++g) {
        cells_[p][g] = {.observed = {kPrior * halfway(kMiddles[p], kNoises[g]), kPrior},
                        .expected = {kPrior * kMiddles[p], kPrior}};
      }
    }
  }

  /// @param before  in (0, 1)
  /// @param noise   shared_noise of the token there
  double probability(double before, double noise) const noexcept {
    const Cell& cell = cells_[index(kBounds, before)][index(kNoiseBounds, noise)];
    const double odds = cell.observed.odds() / cell.expected.odds() * before / (1.0 - before);
    return std::clamp(odds / (1.0 + odds), kLeast, 1.0 - kLeast);
  }
  void observe(double before, double noise, bool hit) noexcept {
    Cell& cell = cells_[index(kBounds, before)][index(kNoiseBounds, noise)];
    if (cell.expected.all >= kMemory) {
      for (Count* c : {&cell.observed, &cell.expected}) *c = {0.5 * c->hits, 0.5 * c->all};
    }
    cell.observed.add(hit ? 1.0 : 0.0);
    cell.expected.add(before);
  }

 private:
  static constexpr double kPrior = 8.0, kMemory = 512.0, kLeast = 0.001;
  static constexpr std::array kBounds = {0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95};
  static constexpr std::array kMiddles = {0.01, 0.03, 0.07, 0.15, 0.27, 0.42, 0.6, 0.78, 0.9, 0.97};
  static constexpr std::array kNoiseBounds = {-1.0, -0.5, 0.0, 0.5, 1.0, 1.75, 2.5, 3.5};
  static constexpr std::array kNoises = {-1.2, -0.7, -0.2, 0.2, 0.75, 1.3, 2.1, 3.0, 4.5};

  struct Count {
    double hits = 0.0, all = 0.0;
    double odds() const noexcept { return (hits + 0.01) / (all - hits + 0.01); }
    void add(double hit) noexcept {
      hits += hit;
      all += 1.0;
    }
  };
  struct Cell {
    Count observed, expected;
  };
  template <std::size_t n>
  static std::size_t index(const std::array<double, n>& bounds, double x) noexcept {
    return static_cast<std::size_t>(std::upper_bound(bounds.begin(), bounds.end(), x) -
                                    bounds.begin());
  }
  // Between an estimate that the noise changes as it would the target's, and one that it does not.
  static double halfway(double p, double noise) noexcept {
    return 0.5 * (p + std::exp(-(1.0 - p) / p * std::exp(-noise)));
  }

  std::array<std::array<Cell, kNoises.size()>, kMiddles.size()> cells_;
};

}  // namespace forerun
