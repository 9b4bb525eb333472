#pragma once

#include <cstddef>

#include "forerun/core/outlier_clip.h"

namespace forerun {

/// A running mean of seconds. OutlierClip keeps it insensitive to brief load; it follows a lasting
/// change.
class SteadySeconds {
 public:
  /// 0 without measurements.
  double mean() const noexcept { return mean_; }
  /// Ignores seconds that are not finite and positive.
  void observe(double seconds) noexcept;

 private:
  OutlierClip outlier_clip_;
  double mean_ = 0.0;
  double seen_ = 0.0;
};

/// What drafting costs: fixed + per token, a regression that forgets (32 rounds). Until different
/// numbers were drafted it counts all cost as per token: correct for a drafter that makes tokens
/// one by one, too low for short drafts of one that makes a block at once; the next rounds correct
/// that.
class DraftCost {
 public:
  double fixed() const noexcept { return fixed_; }          ///< seconds a round that drafts
  double per_token() const noexcept { return per_token_; }  ///< seconds
  /// Expected seconds to draft `tokens` in all sequences together; 0 for none, or without
  /// measurements.
  double seconds(std::size_t tokens) const noexcept {
    return tokens == 0 ? 0.0 : fixed_ + per_token_ * static_cast<double>(tokens);
  }
  /// Ignores no tokens, or seconds that are not finite and positive.
  void observe(std::size_t tokens, double seconds) noexcept;
  /// All of it costs `factor` as much, as something else does that is measured when this is not.
  void scale(double factor) noexcept;

 private:
  OutlierClip outlier_clip_;
  double weight_ = 0.0;
  double tokens_ = 0.0, seconds_ = 0.0;   // weighted means
  double variance_ = 0.0, shared_ = 0.0;  // weighted: of the tokens; with the seconds
  double fixed_ = 0.0, per_token_ = 0.0;
};

}  // namespace forerun
