#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace forerun {

/// How far a tree is worth growing, one node after another by falling probability of being reached:
/// until no larger tree can give more outputs a second than the best of those so far, however many
/// nodes follow that are as likely as the next. So the best number of nodes is what it is for the
/// whole tree. The first kLeast nodes are always grown: drafts that test whether drafting pays need
/// some.
class GrowthLimit {
 public:
  static constexpr std::size_t kLeast = 2;

  /// Never ends a tree.
  GrowthLimit() = default;
  /// @param seconds  of a round with 0, 1, 2, ... nodes drafted; positive
  explicit GrowthLimit(std::vector<double> seconds) : seconds_(std::move(seconds)) {
    if (!seconds_.empty()) best_ = outputs_ / seconds_[0];
  }

  /// Whether the next node is worth growing. It is then taken to be grown.
  /// @param reach  its probability of being reached, no more than that of the one before
  bool grow(double reach) noexcept {
    if (nodes_ >= kLeast && !may_pay(reach)) return false;
    ++nodes_;
    outputs_ += reach;
    if (nodes_ < seconds_.size()) best_ = std::max(best_, outputs_ / seconds_[nodes_]);
    return true;
  }

 private:
  bool may_pay(double reach) const noexcept {
    double outputs = outputs_;
    for (std::size_t n = nodes_ + 1; n < seconds_.size(); ++n) {
      outputs += reach;
      if (outputs > best_ * seconds_[n]) return true;
    }
    return seconds_.empty();
  }

  std::vector<double> seconds_;
  std::size_t nodes_ = 0;
  double outputs_ = 1.0, best_ = 0.0;
};

}  // namespace forerun
