#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace forerun {

/// Constants of the paper.
struct DraftWindowOptions {
  double memory = 0.5;     ///< rho: weight of the newest round
  double step = 10.0;      ///< delta
  std::size_t least = 20;  ///< k_min
  std::size_t most = 30;   ///< k_max, and the first length
};

/// The adaptive draft length of DiffuSpec as the paper prints it: the next draft is as long as
/// drafts have been before they ended, and longer if all of them was kept. With the paper's
/// constants it is 30 once, then 20, unless nearly every draft is kept whole.
/// Source: arXiv:2510.02358, section 3 (adaptive draft length).
class DraftWindow {
 public:
  explicit DraftWindow(const DraftWindowOptions& options = {})
      : options_(options), length_(options.most) {}

  std::size_t length() const noexcept { return length_; }
  /// @param generated  tokens of the round's draft before its first end of text
  /// @param accepted   of the draft
  void observe(std::size_t generated, std::size_t accepted) {
    const double rho = options_.memory;
    generated_ = (1.0 - rho) * generated_ + rho * static_cast<double>(generated);
    accepted_ = (1.0 - rho) * accepted_ + rho * static_cast<double>(accepted);
    const double wanted = std::ceil(generated_ + (accepted_ >= generated_ ? options_.step : 0.0));
    length_ = std::clamp(static_cast<std::size_t>(wanted), options_.least, options_.most);
  }

 private:
  DraftWindowOptions options_;
  double generated_ = 0.0, accepted_ = 0.0;
  std::size_t length_;
};

}  // namespace forerun
