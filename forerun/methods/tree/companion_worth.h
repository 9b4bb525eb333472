#pragma once

#include <cstddef>

namespace forerun {

/// What companion rows are worth: the outputs that earlier ones brought in, a run. Where that is
/// below their price they run in trials now and then, for a hundredth of the rounds' outputs, so
/// that a change is noticed.
class CompanionWorth {
 public:
  /// @param prior  outputs of a run before any is known
  /// @param trial  rounds of a trial
  CompanionWorth(double prior, std::size_t trial) : prior_(prior), trial_(trial) {}

  /// Expected outputs of a run.
  double mean() const noexcept { return (earned_ + prior_ * kPriorRuns) / (runs_ + kPriorRuns); }
  /// An output that these rows alone brought in.
  void earned() noexcept { earned_ += 1.0; }
  /// A run that may bring in some.
  void ran() noexcept {
    earned_ *= 1.0 - 1.0 / kMemory;
    runs_ += 1.0 - runs_ / kMemory;
  }
  /// Whether this round, of rows that do not pay, belongs to a trial. Ask once a round.
  bool tries(double price) noexcept {
    if (left_ > 0) {
      --left_;
      return true;
    }
    spare_ += kTrialShare;
    if (!(spare_ >= static_cast<double>(trial_) * price)) return false;
    spare_ = 0.0;
    left_ = trial_ - 1;
    return true;
  }

 private:
  static constexpr double kMemory = 64.0, kPriorRuns = 8.0;  // runs
  static constexpr double kTrialShare = 0.01;                // of the outputs: one a round
  double prior_;
  std::size_t trial_, left_ = 0;  // rounds
  double earned_ = 0.0, runs_ = 0.0;
  double spare_ = 0.0;  // outputs that may be spent on a trial
};

}  // namespace forerun
