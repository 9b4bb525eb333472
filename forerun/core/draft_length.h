#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/acceptance.h"
#include "forerun/core/counterfactual_acceptance.h"
#include "forerun/core/draft_cost.h"
#include "forerun/core/pass_cost.h"
#include "forerun/core/token.h"
#include "forerun/core/token_rule.h"

namespace forerun {

struct DraftLengthOptions {
  bool adaptive = true;  ///< false: always the limit, which is what the loop does without a plan
  double margin = 0.02;  ///< draft only if that many more outputs a second are expected, a share
  double probe_share = 0.01;  ///< of the time, at most, goes into drafts that only ask whether
                              ///< drafting pays by now
  double credit = 0.3;  ///< outputs: the time of so many a sequence may lose to drafts before they
                        ///< have won any,
  double credit_share = 0.02;  ///< and of so many more with every output
};

/// One sequence, as `plan` is asked about it. There is no room for tokens on purpose, see
/// DraftLength.
struct SequencePlan {
  std::uint32_t request = 0;
  std::size_t limit = 0;  ///< drafts it may have: the drafter's most, what is left to emit, the
                          ///< size of the draft found
  std::size_t confidence_bin = 0;  ///< below kConfidenceBins; what the text so far says of the
                                   ///< draft, such as the length of the match it was found by
  bool deterministic =
      false;  ///< its draft is there already: a point mass that cost nothing and is cut
              ///< to the plan. Else the drafter is asked for just what is planned
  Origin origin = Origin::kChosen;  ///< of the draft, if found
  std::size_t unread = 0;     ///< tokens that the drafter has to take in before it can be asked,
  std::size_t remaining = 0;  ///< outputs the sequence may still have; asked for only with `unread`
};

/// What one sequence got out of a round.
struct SequenceOutcome {
  std::uint32_t request = 0;
  std::size_t confidence_bin = 0;        ///< as planned
  bool deterministic = false;            ///< as planned
  std::size_t drafted = 0;               ///< drafts the pass verified
  std::size_t examined = 0;              ///< of these, looked at by the rule
  std::size_t accepted = 0;              ///< drafts kept: examined, or one less
  bool done = false;                     ///< the sequence ended: what is known of it is dropped
  std::span<const Token> draft = {};     ///< what was found in the round, uncut, planned or not,
  std::size_t draft_confidence_bin = 0;  ///< its confidence_bin,
  Origin draft_origin = Origin::kChosen;
  std::span<const Token> outputs = {};  ///< and what the round emitted
};

/// What one round cost.
struct PassSeen {
  std::size_t rows = 0;          ///< of the target pass: 1 + drafts, over all sequences
  double target_seconds = 0.0;   ///< of that pass
  std::size_t drafted = 0;       ///< tokens the drafter was asked for
  double drafter_seconds = 0.0;  ///< it took
  double rest_seconds = 0.0;     ///< couplings, bookkeeping, observers
  std::size_t read = 0;          ///< unread tokens that it took in,
  double read_seconds = 0.0;     ///< and how long that took, not in drafter_seconds
};

/// Decides how many drafts every sequence gets, so that drafting is not slower than not drafting.
///
/// A round of L sequences with k_i drafts is expected to emit L + sum_i sum_{j<=k_i} s_i(j)
/// outputs, s_i(j) = P(the first j are kept), in T(L + sum k_i) + D(sum of those asked for) + rest
/// seconds. The k_i with most outputs a second are taken: drafts enter by falling s, the best of
/// all prefixes of that order wins (T need not be convex), and it must beat no drafts at all by
/// `margin`.
///
/// What pays on average can lose on one text. So each sequence has an account, in outputs of plain
/// decoding: drafts kept are paid in, the time that checking and making drafts took is drawn. A
/// sequence gets no more drafts than it could pay for if none were kept, with `credit` to begin
/// with and `credit_share` for every output: a text of n outputs loses at most about credit / n +
/// share. A drafter that has to take in a prompt first is asked only if that costs no more than
/// another `credit_share` of what the text may still become.
///
///   T, D   PassCost, DraftCost, from the seconds handed in; the class reads no clock.
///   s      Acceptance over all sequences by confidence_bin and position, the odds biased by
///   sequence (SequenceBias).
/// Of a draft found, what was cut is judged too, by the outputs that follow
/// (CounterfactualAcceptance). To keep its figures fresh it spends a little: while not drafting, a
/// probe of two drafts after 8, then 16, ... 256 rounds, and only when its price is below
/// `probe_share` of the time since the last; while drafting, a plain round after 128, or after 8 if
/// the cost of one is by then more than 10% drift or rests on fewer than 3 passes. The first round
/// is plain.
///
/// Exactness. Given the text so far, a round emits the target's law for any number of drafts, as
/// long as that number is no function of the drafted value it decides on: dropping a *sampled*
/// draft because of what it is changes the law of those that stay, which the coupling relies on. A
/// plan is a function of the past (texts, outcomes, times), limits and confidence_bins; it is shown
/// no tokens of its round, and what it learns from drafts and outputs reaches later rounds only,
/// whose draws are keyed by another round. A draft found is a function of the text and has no law
/// to bias, so it may be cut after it is known; plan(), observe() and cut() refuse sampled ones.
/// The law is kept, not the text: under `maximal` with sampled drafts a draw depends on the round
/// it falls in, so on how many outputs earlier rounds gave, so on the clock. Greedy, under
/// `shared-noise`, and with found drafts under any exact rule the text stays the same too: what
/// decides those outputs leaves the round out. "Later rounds" ends with the run: another run of the
/// same seed and request draws the same numbers, so nothing learned with sampled drafts may be
/// carried into it. Latents use the noise of a discarded draft again, in later rounds: what depends
/// on it, the seconds of its round, may be observed only when it has been used up (HeldCosts).
class DraftLength {
 public:
  /// @param measured  seconds of target passes, e.g. taken at load; none is fine
  explicit DraftLength(DraftLengthOptions options = {},
                       std::span<const PassCost::Point> measured = {})
      : options_(options), pass_(measured) {}

  /// How many drafts each sequence gets in the next round, at most its limit, in the order given. A
  /// view, good until the next call.
  /// @throws std::invalid_argument  a confidence_bin out of range, or a sampled draft that is to be
  /// cut to the plan
  std::span<const std::uint32_t> plan(std::span<const SequencePlan> sequences);

  /// Takes in a round; what it gave and what it cost may come apart, the other left empty. Times
  /// that are not finite and positive are ignored.
  /// @throws std::invalid_argument  a confidence_bin out of range, counts that no round can have,
  /// or a sampled draft to be judged by outputs
  void observe(std::span<const SequenceOutcome> sequences, const PassSeen& pass);

  /// The most outputs a second expected of this sequence alone, 0 drafts included: what a drafter
  /// with two sources chooses by. 0 while no pass is known.
  /// @throws std::invalid_argument  a confidence_bin out of range
  double promise(const SequencePlan& sequence) const;

  /// Drops what is known of a sequence that goes away without being done.
  void forget(std::uint32_t request) { sequences_.erase(request); }

  DraftLengthReport report() const;

 private:
  static constexpr std::size_t kPlainCheck = 128, kEarlyCheck = 8;  // rounds that drafted
  static constexpr std::size_t kFirstProbe = 8, kLastProbe = 256;   // rounds that did not

  struct Candidate {
    double survival;
    std::uint32_t sequence, position;
    bool deterministic;
  };
  struct SequenceState {
    SequenceBias bias;
    CounterfactualAcceptance counterfactual;
    double saved = 0.0;  // by drafts, in outputs, and what every output added to the credit
  };
  struct Drafts {  // of a round
    std::size_t deterministic = 0, queried = 0;
    std::size_t all() const noexcept { return deterministic + queried; }
    void add(bool is_deterministic, std::size_t n = 1) noexcept {
      (is_deterministic ? deterministic : queried) += n;
    }
  };

  void take_limits(std::span<const SequencePlan> sequences);
  void adapt(std::span<const SequencePlan> sequences);
  void collect(std::span<const SequencePlan> sequences);
  std::size_t best_prefix(std::size_t sequences);
  bool plain_check_due(std::size_t sequences) const;
  bool probe_due(std::size_t sequences);
  bool may_probe(const SequencePlan& plan, std::size_t sequences);
  void probe(std::span<const SequencePlan> sequences);
  void learn(const SequenceOutcome& seen);
  void settle(std::span<const SequenceOutcome> sequences);
  template <class Each>
  void survivals(const SequencePlan& sequence, const SequenceBias& bias, Each&& each) const;
  double plain_seconds(double outputs, std::size_t sequences) const noexcept;
  bool worth_reading(const SequencePlan& plan, const SequenceState& sequence,
                     std::size_t sequences) const noexcept;
  double round_seconds(std::size_t sequences, Drafts drafts) const noexcept;

  DraftLengthOptions options_;
  PassCost pass_;
  DraftCost draft_;
  SteadySeconds no_draft_;  // of the drafter, whatever is planned
  SteadySeconds rest_;
  SteadySeconds read_;  // a token of a drafter's prompt
  Acceptance acceptance_;
  std::unordered_map<std::uint32_t, SequenceState> sequences_;  // by request

  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> lengths_;
  std::vector<std::uint64_t> chosen_;
  double planned_rate_ = 0.0, plain_rate_ = 0.0;
  std::size_t since_plain_ = kPlainCheck;  // rounds that drafted; so the first is plain
  std::size_t since_drafts_ = 0;           // rounds that could have, but did not
  double unprobed_seconds_ = 0.0;          // they took
  std::size_t probe_after_ = kFirstProbe;  // rounds
  bool probing_ = false;
  std::uint64_t probes_ = 0, plain_checks_ = 0;
};

/// Shortens a draft to what was planned for it.
/// @throws std::invalid_argument  the draft is sampled: plan its length before it is drawn
void cut(TokenDraft& draft, std::size_t length);

}  // namespace forerun
