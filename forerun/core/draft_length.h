#pragma once

#include <algorithm>
#include <any>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/acceptance.h"
#include "forerun/core/agreement.h"
#include "forerun/core/companion_cost.h"
#include "forerun/core/counterfactual_acceptance.h"
#include "forerun/core/draft_account.h"
#include "forerun/core/draft_cost.h"
#include "forerun/core/ended_texts.h"
#include "forerun/core/growth_limit.h"
#include "forerun/core/hit_rates.h"
#include "forerun/core/noise_odds.h"
#include "forerun/core/pass_cost.h"
#include "forerun/core/reach_curve.h"
#include "forerun/core/sequence_id.h"
#include "forerun/core/token.h"
#include "forerun/core/token_rule.h"

namespace forerun {

struct DraftLengthOptions {
  bool adaptive = true;        ///< false: always the limit, as the loop does without a plan
  double margin = 0.02;        ///< draft only for a gain of at least this share in outputs a second
  double probe_share = 0.01;   ///< largest share of the time spent on drafts that only test whether
                               ///< drafting pays again
  double credit_share = 0.02;  ///< of its outputs a sequence may lose to drafts, beside a credit:
  double gain_share = 0.5;     ///< this share of what drafting saves a text, on average,
  double gain_margin = 0.0625;  ///< beyond this share of its outputs;
  double credit = 1.0;          ///< at least so many outputs,
  double most_credit = 16.0;    ///< at most so many
};

/// One sequence in a call of `plan`. It has no tokens on purpose, see DraftLength.
struct SequencePlan {
  SequenceId id = 0;
  std::size_t limit = 0;  ///< drafts it may have: limited by the drafter, the outputs left, the
                          ///< length of a deterministic draft
  std::size_t confidence_bin = 0;  ///< below kConfidenceBins; the drafter's estimate from the text
                                   ///< so far, such as the length of its match
  bool deterministic = false;  ///< its draft exists already: a point mass without cost, cut to the
                               ///< plan. Else the drafter makes as many drafts as planned
  Origin origin = Origin::kChosen;  ///< of the draft, if deterministic
  std::size_t unread = 0;           ///< tokens that the drafter has to read before it can draft,
  std::size_t remaining = 0;        ///< outputs the sequence may still have
  std::size_t companions = 0;  ///< rows that the pass is expected to have for it beside its drafts
  /// P(draft j is an output), falling, if the drafter knows it: of the nodes of a tree. Empty: by
  /// position and confidence_bin, from what was kept before.
  std::span<const double> reach = {};
};

/// Result of a round for one sequence.
struct SequenceOutcome {
  SequenceId id = 0;
  std::size_t confidence_bin = 0;     ///< as planned
  bool deterministic = false;         ///< as planned
  std::size_t drafted = 0;            ///< drafts the pass verified
  std::size_t made = 0;               ///< tokens that the drafter made for it
  bool tree = false;                  ///< planned by `reach`: `observe` learns no acceptance
  std::size_t companions = 0;         ///< rows that the pass had for it beside its drafts
  std::size_t read = 0;               ///< tokens that the drafter read for it before it could draft
  std::size_t examined = 0;           ///< of these, examined by the rule
  std::size_t accepted = 0;           ///< drafts kept: examined, or one less
  bool done = false;                  ///< the sequence ended: its statistics are dropped
  std::span<const Token> draft = {};  ///< the round's deterministic draft, uncut, used or not,
  std::size_t draft_confidence_bin = 0;  ///< its confidence_bin,
  Origin draft_origin = Origin::kChosen;
  std::span<const Token> outputs = {};  ///< and the outputs of the round
};

/// What a drafter of trees learns of its sources, in their order.
struct TreeKnowledge {
  std::vector<HitRates> rates;
  /// Of sources that name the same token; where a network drafts too, a token that it does not
  /// name is right less often.
  Agreement agreement, agreement_with_network;
  NoiseOdds noise;                 ///< corrects estimates of sources that do not rank by noise
  std::vector<std::any> memories;  ///< what a source keeps between texts
  std::vector<ReachCurve>
      queried;  ///< trees with the drafts of a network, by what was found before
};

/// Cost of one round.
struct PassSeen {
  std::size_t rows = 0;          ///< of the target pass: 1 + drafts, over all sequences
  double target_seconds = 0.0;   ///< of that pass
  std::size_t drafted = 0;       ///< tokens that the drafter made
  double drafter_seconds = 0.0;  ///< their time
  double rest_seconds = 0.0;     ///< couplings, bookkeeping, observers
  std::size_t read = 0;          ///< unread tokens that it read,
  double read_seconds = 0.0;     ///< and their time, not included in drafter_seconds
  std::size_t companions = 0;    ///< of the rows: those beside sequences and drafts
};

/// Chooses the number of drafts of every sequence, so that drafting is not slower than not
/// drafting.
///
/// A round of L sequences with k_i drafts is expected to emit L + sum_i sum_{j<=k_i} s_i(j)
/// outputs, s_i(j) = P(the first j are kept), in T(L + sum k_i) + D(sum of drafts to make) + rest
/// seconds. The k_i with most outputs a second are taken: drafts are sorted by falling s and the
/// best prefix wins (T need not be convex). It must beat no drafts at all by `margin`.
///
/// What pays on average can lose on one text. So each sequence has an account, in outputs of plain
/// decoding (DraftAccount): credited with kept drafts, debited with the time of making and checking
/// drafts, which it must cover, each apart, if none is kept. It has a credit and `credit_share` of
/// every output, so a text of n outputs loses about credit / n + share, what one round overdraws,
/// and probes, which are only debited. Even a text that gains may lose at first, so the credit is
/// the larger the more texts have gained (EndedTexts): `gain_share` of it, so that what is lost on
/// some texts is less than what others gain, and none of a gain below `gain_margin`, with which
/// many texts may lose. A drafter that has to read first, a prompt or what it missed while it did
/// not draft, may spend the share of the outputs ahead for it, as many as texts have had so far.
/// Rows that a pass has beside drafts (companions) are planned with and debited as drafts are, and
/// by what a pass with them costs beyond its rows (CompanionCost).
///
///   T, D   PassCost, DraftCost, from the seconds passed in; the class reads no clock.
///   s      Acceptance over all sequences by confidence_bin and position, the odds biased by
///          sequence (SequenceBias).
/// The cut part of a deterministic draft is judged too, by the outputs that follow
/// (CounterfactualAcceptance). Two kinds of rounds keep the estimates current. While not drafting:
/// a probe of two drafts after 8, then 16, ... 256 rounds, if its cost is below `probe_share` of
/// the time since the last. While drafting: a plain round after 128, or after 8 if the cost of one
/// has drifted by more than 10% or rests on fewer than 3 passes. The first round is plain.
///
/// Exactness. Given the text so far, a round emits the target's law for any number of drafts that
/// does not depend on the drafted values: dropping a *sampled* draft because of its value changes
/// the law of the remaining ones, which the coupling relies on. A plan depends on the past (texts,
/// outcomes, times), limits and confidence_bins, not on tokens of its round. Drafts and outputs
/// affect later rounds only, whose draws have another key. A deterministic draft is a function of
/// the text without a law to bias, so it may be cut after it is known; plan(), observe() and cut()
/// refuse sampled ones. The law is kept, not the text: under `maximal` with sampled drafts a draw
/// depends on its round, so on the number of outputs of earlier rounds, so on the clock. Greedy,
/// under `shared-noise`, and with deterministic drafts under any exact rule the text stays the same
/// too: the random numbers of those outputs do not depend on the round. Another run of the same
/// seed and request draws the same numbers, so nothing learned with sampled drafts may be carried
/// into it. Latents use the noise of a discarded draft again in later rounds: the seconds of a
/// round depend on it and may be observed only when it has been used up (HeldCosts).
class DraftLength {
 public:
  explicit DraftLength(DraftLengthOptions options = {}) : options_(options) {}

  /// Number of drafts of each sequence in the next round, at most its limit, in the given order. A
  /// view, valid until the next call.
  /// @param other_rows  rows of the pass that belong to none of them: other sequences', prompts'
  /// @param made  tokens that the drafter has made for the round already: their time is spent
  /// @throws std::invalid_argument  a confidence_bin out of range, or a sampled draft to be cut to
  /// the plan
  std::span<const std::uint32_t> plan(std::span<const SequencePlan> sequences,
                                      std::size_t other_rows = 0, std::size_t made = 0);

  /// Records a round; its outcomes and its cost may come in separate calls, the other argument
  /// empty. Ignores times that are not finite and positive.
  /// @throws std::invalid_argument  a confidence_bin out of range, impossible counts, or a sampled
  /// draft to be judged by outputs
  void observe(std::span<const SequenceOutcome> sequences, const PassSeen& pass);

  /// The most outputs a second expected of this sequence alone, 0 drafts included: a drafter with
  /// two sources chooses by it. 0 while no pass is known.
  /// @throws std::invalid_argument  a confidence_bin out of range
  double best_throughput(const SequencePlan& sequence) const;

  /// The same of drafts with these probabilities, falling, of which `made` tokens are yet to be
  /// made.
  double best_throughput(std::span<const double> reach, std::size_t made) const;
  bool adaptive() const noexcept { return options_.adaptive; }
  /// How far a tree is worth growing for a sequence that is alone in its pass.
  /// @param most        nodes at most
  /// @param companions  rows that the pass is expected to have for it beside its drafts
  /// @param made        tokens that were made for the tree: their time is part of the round's
  GrowthLimit growth_limit(std::size_t most, std::size_t companions, std::size_t made = 0) const;

  /// Whether a drafter should read what it has not read of the text and make `tokens` after it, at
  /// what both have cost; true where nothing is unread.
  bool worth_reading(const SequencePlan& plan, std::size_t tokens = 1) const;
  /// Whether the sequence's account covers making `tokens` for it, none of which is kept. False
  /// while no pass is known.
  bool affords(const SequencePlan& sequence, std::size_t tokens) const;
  /// Seconds of a round that drafts nothing, and of making `tokens`.
  double plain_round_seconds() const noexcept { return round_seconds(rows_, {}); }
  double making_seconds(std::size_t tokens) const noexcept { return draft_.seconds(tokens); }

  /// What drafters that plan by `reach` have learned.
  TreeKnowledge& trees() noexcept { return trees_; }
  const TreeKnowledge& trees() const noexcept { return trees_; }

  /// Whether the coming plan is to draft nothing, only to measure what plain rounds cost; it then
  /// does. A drafter that asks before it makes drafts need not make any. If it does not ask, the
  /// plan decides.
  bool measure_next() noexcept;
  /// Whether the last plan drafts nothing only to measure what plain rounds cost: such a pass is to
  /// have no companion rows either.
  bool measuring() const noexcept { return measuring_; }
  /// What `rows` more rows of the planned pass have to be worth, in outputs: their time at the
  /// outputs a second of the plan. 0 for a fixed length.
  double price(std::size_t rows) const noexcept;
  /// What checking `drafts` of the planned ones costs, in the same outputs. 0 for a fixed length.
  double checking_price(std::size_t drafts) const noexcept;
  /// Whether the sequence's account covers them.
  bool covers(SequenceId id, std::size_t rows) const;
  /// Adds companion rows to the planned pass.
  void add_rows(std::size_t rows) noexcept {
    planned_rows_ += rows;
    planned_companions_ += rows;
  }

  /// Outputs whose time a text may lose to drafts before it has gained any.
  double credit() const noexcept;

  /// Drops the statistics of a sequence that ends without being done.
  void forget(SequenceId id) { sequences_.erase(id); }

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
    DraftAccount account;
    std::size_t remaining = 0;  // as planned last
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
  std::size_t best_prefix();
  bool plain_check_due() const;
  bool probe_due();
  bool may_probe(const SequencePlan& plan) const;
  void probe(std::span<const SequencePlan> sequences);
  void learn(const SequenceOutcome& seen);
  void settle(std::span<const SequenceOutcome> sequences, const PassSeen& pass);
  double over_expected(double expected, const PassSeen& pass) const noexcept;
  template <class Each>
  void survivals(const SequencePlan& sequence, const SequenceBias& bias, Each&& each) const;
  double plain_seconds(double outputs) const noexcept;
  const DraftAccount& account(SequenceId id) const;
  DraftAccount::Terms terms() const noexcept { return {credit(), options_.credit_share}; }
  double ahead(const DraftAccount& account, std::size_t remaining) const noexcept;
  double for_drafts(const SequencePlan& sequence) const;
  double reading_seconds(const SequencePlan& plan) const noexcept;
  double worth(double seconds) const noexcept;
  double round_seconds(Drafts drafts) const noexcept {
    return round_seconds(rows_ + companions_, drafts) + companion_.seconds(companions_);
  }
  double believed_seconds(Drafts drafts) const noexcept {
    return believed_seconds(rows_ + companions_, drafts) + companion_.seconds(companions_);
  }
  void observe_pass(const PassSeen& pass) noexcept;
  void observe_drafting(const PassSeen& pass) noexcept;
  double more_rows_seconds(std::size_t companions) const noexcept;
  double best_rate() const noexcept {
    return std::max({planned_rate_, plain_rate_, undrafted_rate_});
  }
  std::size_t planned_drafts() const noexcept;
  double round_seconds(std::size_t rows, Drafts drafts) const noexcept {
    return pass_.seconds(rows + drafts.all()) + beside_pass_seconds(drafts);
  }
  // What a plan counts with.
  double believed_seconds(std::size_t rows, Drafts drafts) const noexcept {
    return pass_.believed_seconds(rows + drafts.all()) + beside_pass_seconds(drafts);
  }
  double beside_pass_seconds(Drafts drafts) const noexcept;

  DraftLengthOptions options_;
  PassCost pass_;
  CompanionCost companion_;
  DraftCost draft_;
  SteadySeconds no_draft_;  // of the drafter, for any plan
  SteadySeconds rest_;
  SteadySeconds read_;  // a token of a drafter's prompt
  EndedTexts ended_;
  Acceptance acceptance_;
  TreeKnowledge trees_;
  std::unordered_map<SequenceId, SequenceState> sequences_;

  std::size_t texts_ = 1;  // sequences of the last plan
  std::size_t rows_ = 0;   // of the planned pass without these drafts
  std::size_t made_ = 0;   // tokens made before the plan
  std::size_t companions_ = 0, planned_rows_ = 0, planned_companions_ = 0;
  bool measuring_ = false, measure_next_ = false, drafted_ = false;
  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> lengths_;
  std::vector<std::uint64_t> chosen_;
  double planned_rate_ = 0.0, plain_rate_ = 0.0;
  double undrafted_rate_ = 0.0;            // without companions as well
  std::size_t since_plain_ = kPlainCheck;  // rounds that drafted; so the first is plain
  std::size_t since_drafts_ = 0;           // rounds that could have, but did not
  std::size_t undrafted_ = 0;              // rounds in which the drafter made nothing
  double unprobed_seconds_ = 0.0;          // their time
  std::size_t probe_after_ = kFirstProbe;  // rounds
  bool probing_ = false;
  std::uint64_t probes_ = 0, plain_checks_ = 0;
};

/// Cuts a draft to its planned length.
/// @throws std::invalid_argument  the draft is sampled: plan its length before it is drawn
void cut(TokenDraft& draft, std::size_t length);

}  // namespace forerun
