#pragma once

#include <algorithm>

namespace forerun {

/// What a text may still lose to its drafter, in outputs of plain decoding.
///
/// It has `credit` before it has gained anything, and `share` of every output. Drafts may cost what
/// it has now. What a drafter reads before it drafts may also cost the share of the outputs still
/// ahead, which drafts cannot spend again: a text that gets the outputs that were expected, n in
/// all, loses at most credit + share n.
class DraftAccount {
 public:
  struct Terms {
    double credit = 0.0, share = 0.0;
  };

  /// A round.
  /// @param kept  drafts that became outputs, beside the target's own
  /// @param lost  worth of making and checking drafts
  /// @param read  worth of reading
  void settle(double kept, double lost, double read) noexcept {
    saved_ += kept - lost;
    read_ += read;
    outputs_ += 1.0 + kept;
  }

  double outputs() const noexcept { return outputs_; }
  /// Outputs of plain decoding that drafting saved so far; negative: lost.
  double gained() const noexcept { return saved_ - read_; }
  /// What the drafts of a round may cost if none is kept; at least 0.
  /// @param ahead  outputs that the text is expected to have yet
  /// @param reading  worth of what has to be read for them first
  double for_drafts(const Terms& terms, double ahead, double reading = 0.0) const noexcept {
    return std::max(0.0, now(terms) - std::max(0.0, read_ + reading - terms.share * ahead));
  }
  /// What reading may cost.
  double for_reading(const Terms& terms, double ahead) const noexcept {
    return now(terms) + terms.share * ahead - read_;
  }

 private:
  double now(const Terms& terms) const noexcept {
    return terms.credit + saved_ + terms.share * outputs_;
  }

  double saved_ = 0.0, read_ = 0.0, outputs_ = 0.0;
};

}  // namespace forerun
