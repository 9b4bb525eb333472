#pragma once

#include <cstddef>
#include <utility>

namespace forerun {

/// What companion rows are worth: the outputs that earlier ones brought in, a run, less what
/// checking their drafts cost. Where that is below their price they run in trials now and then, for
/// a hundredth of the rounds' outputs, so that a change is noticed.
///
/// A text begins with the mean of many texts and follows what it sees itself. In the mean of many a
/// run counts less the more its text had, and a text no more than some nine runs: one text does not
/// decide for the next.
class CompanionWorth {
 public:
  /// What a text has seen.
  struct Text {
    double earned = 0.0, runs = 0.0;  ///< outputs of its recent runs, less what they cost
    double all_runs = 0.0;
    double share = 0.0;    ///< what its last run counts in the mean of many
    bool charged = false;  ///< since its last run
  };

  /// @param prior  outputs of a run before any is known
  /// @param trial  rounds of a trial
  CompanionWorth(double prior, std::size_t trial) : prior_(prior), trial_(trial) {}

  /// Expected outputs of a run; negative if checking its drafts costs more.
  double mean(const Text& text) const noexcept {
    const double many = (earned_ + prior_ * kPriorRuns) / (runs_ + kPriorRuns);
    return (text.earned + many * kRunsOfMany) / (text.runs + kRunsOfMany);
  }
  /// An output that the rows of the last run alone brought in.
  void earned(Text& text) noexcept {
    text.earned += 1.0;
    earned_ += text.share;
  }
  /// Drafts of runs alone are checked, which costs the time of so many outputs. Those of a run may
  /// be checked in many rounds: then each forgets as a run does, or the debt had no bound.
  void spent(Text& text, double outputs) noexcept {
    if (std::exchange(text.charged, true)) forget(text);
    text.earned -= outputs;
    earned_ -= outputs * text.share;
  }
  /// A run that may bring in some.
  void ran(Text& text) noexcept {
    const double fresh = kFresh / (kFresh + text.all_runs);
    text.share = fresh * fresh;
    text.all_runs += 1.0;
    text.charged = false;
    forget(text);
    text.runs += 1.0 - text.runs / kTextMemory;
    runs_ += text.share * (1.0 - runs_ / kMemory);
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
  static constexpr double kPriorRuns = 8.0, kMemory = 256.0;  // of the mean of many, in runs
  // Of a text's: what the mean of many is worth; its memory; after how many a run counts a quarter.
  static constexpr double kRunsOfMany = 8.0, kTextMemory = 64.0, kFresh = 8.0;
  static constexpr double kTrialShare = 0.01;  // of the outputs: one a round

  void forget(Text& text) noexcept {
    text.earned *= 1.0 - 1.0 / kTextMemory;
    earned_ *= 1.0 - text.share / kMemory;
  }

  double prior_;
  std::size_t trial_, left_ = 0;  // rounds
  double earned_ = 0.0, runs_ = 0.0;
  double spare_ = 0.0;  // outputs that may be spent on a trial
};

}  // namespace forerun
