#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace forerun {

/// What trees of a drafter are like before one is made: the mean probability of reaching the best
/// node, the second best, and so on, of trees of many texts. A prior counts as much as a few texts,
/// and the mean changes slowly: what differs in one text is in the caller's scale of that text, and
/// the next text begins with the mean of many.
class ReachCurve {
 public:
  static constexpr std::size_t kNodes = 32;

  /// @param prior  of the best node, in (0, 1); each further one is so much less likely
  explicit ReachCurve(double prior) noexcept {
    double reach = 1.0;
    for (double& mean : mean_) mean = reach *= prior;
  }
  /// @param reach   of a tree's nodes, falling
  /// @param before  trees of the same text before it: the more, the less it counts
  void observe(std::span<const double> reach, std::size_t before) noexcept {
    const double weight = kOfText / (kOfText + static_cast<double>(before));
    seen_ = std::min(seen_ + weight, kMost);
    for (std::size_t i = 0; i < kNodes; ++i) {
      mean_[i] += weight * ((i < reach.size() ? reach[i] : 0.0) - mean_[i]) / seen_;
    }
  }
  /// Falling; each mean times `scale`, at most 1.
  std::vector<double> scaled(double scale) const {
    std::vector<double> out;
    for (const double reach : mean_) out.push_back(std::min(1.0, scale * reach));
    return out;
  }
  double sum() const noexcept {
    double all = 0.0;
    for (const double reach : mean_) all += reach;
    return all;
  }

 private:
  static constexpr double kPrior = 32.0, kMost = 512.0;  // trees
  static constexpr double kOfText = 8.0;                 // trees, of which the next counts half
  std::array<double, kNodes> mean_{};
  double seen_ = kPrior;
};

}  // namespace forerun
