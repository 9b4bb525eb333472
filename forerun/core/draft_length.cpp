#include "forerun/core/draft_length.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace forerun {
namespace {

constexpr double kLeastSurvival =
    0.005;                         // drafts with a lower survival probability are not considered
constexpr std::size_t kProbe = 2;  // drafts
constexpr double kFewPasses = 3.0;
constexpr std::size_t kPause = 4;  // rounds
constexpr double kDrift = 0.1;     // |log| of seconds

void check_confidence_bin(SequenceId id, std::size_t confidence_bin) {
  if (confidence_bin < kConfidenceBins) return;
  throw std::invalid_argument("draft length: sequence " + std::to_string(id) +
                              " has confidence_bin " + std::to_string(confidence_bin) +
                              "; confidence_bins are 0 to 7");
}

}  // namespace

std::span<const std::uint32_t> DraftLength::plan(std::span<const SequencePlan> sequences,
                                                 std::size_t other_rows, std::size_t made) {
  texts_ = std::max<std::size_t>(1, sequences.size());
  rows_ = sequences.size() + other_rows;
  made_ = made;
  companions_ = planned_companions_ = 0;
  measuring_ = false;
  for (const SequencePlan& sequence : sequences) {
    companions_ += sequence.companions;
    check_confidence_bin(sequence.id, sequence.confidence_bin);
    if (sequence.deterministic && sequence.origin == Origin::kSampled) {
      throw std::invalid_argument("draft length: sequence " + std::to_string(sequence.id) +
                                  " has a sampled draft, to be cut by a plan made after it; plan "
                                  "before drafting");
    }
  }
  for (const SequencePlan& s : sequences) sequences_[s.id].remaining = s.remaining;
  lengths_.assign(sequences.size(), 0);
  if (options_.adaptive) {
    adapt(sequences);
  } else {
    take_limits(sequences);
  }
  for (const std::uint32_t k : lengths_) {
    if (chosen_.size() <= k) chosen_.resize(k + 1, 0);
    ++chosen_[k];
  }
  planned_rows_ = rows_ + planned_drafts();
  return lengths_;
}

void DraftLength::take_limits(std::span<const SequencePlan> sequences) {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    lengths_[i] = static_cast<std::uint32_t>(sequences[i].limit);
  }
}

void DraftLength::adapt(std::span<const SequencePlan> sequences) {
  planned_rate_ = plain_rate_ = undrafted_rate_ = 0.0;
  probing_ = false;
  if (sequences.empty()) return;
  const bool measure = std::exchange(measure_next_, false);
  if (!pass_.known()) {  // no reference
    measuring_ = true;
    since_plain_ = 0;
    return;
  }
  undrafted_rate_ = static_cast<double>(rows_) / round_seconds(rows_, {});
  collect(sequences);
  std::size_t take = best_prefix();
  if (measure || (take > 0 && plain_check_due())) {
    ++plain_checks_;
    take = 0;
    measuring_ = true;
    since_plain_ = 0;
    planned_rate_ = plain_rate_;
  } else if (take > 0) {
    ++since_plain_;
    since_drafts_ = 0;
    unprobed_seconds_ = 0.0;
    probe_after_ = std::max(kFirstProbe, probe_after_ / 2);
  } else {
    since_plain_ = 0;
    const bool possible = std::any_of(sequences.begin(), sequences.end(),
                                      [&](const SequencePlan& l) { return may_probe(l); });
    if (possible && probe_due()) return probe(sequences);
  }
  for (std::size_t c = 0; c < take; ++c) ++lengths_[candidates_[c].sequence];
}

// Every possible draft of every sequence, by falling survival probability. Drafts of one sequence
// are in order, since each survives at most as often as the previous one.
void DraftLength::collect(std::span<const SequencePlan> sequences) {
  candidates_.clear();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceState& sequence = sequences_[sequences[i].id];
    const bool deterministic = sequences[i].deterministic;
    if (!worth_reading(sequences[i])) continue;
    // Seconds that the round may spend on this sequence if none of its drafts is kept.
    const double most = round_seconds({}) + plain_seconds(for_drafts(sequences[i]));
    Drafts drafts;
    survivals(sequences[i], sequence.bias, [&](double survival) {
      drafts.add(deterministic);
      if (round_seconds(drafts) > most) return false;
      candidates_.push_back({survival, static_cast<std::uint32_t>(i),
                             static_cast<std::uint32_t>(drafts.all() - 1), deterministic});
      return true;
    });
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    if (a.survival != b.survival) return a.survival > b.survival;
    return a.position != b.position ? a.position < b.position : a.sequence < b.sequence;
  });
}

// Calls `each` with the survival of a sequence's drafts, in order, until it returns false.
template <class Each>
void DraftLength::survivals(const SequencePlan& sequence, const SequenceBias& bias,
                            Each&& each) const {
  if (!sequence.reach.empty()) {
    for (std::size_t j = 0; j < std::min(sequence.limit, sequence.reach.size()); ++j) {
      if (sequence.reach[j] < kLeastSurvival || !each(sequence.reach[j])) return;
    }
    return;
  }
  Acceptance::Along rates = acceptance_.along(sequence.confidence_bin);
  double survival = 1.0;
  for (std::size_t j = 0; j < sequence.limit; ++j) {
    survival *= bias.apply(rates.next());
    if (survival < kLeastSurvival || !each(survival)) return;
  }
}

double DraftLength::best_throughput(const SequencePlan& sequence) const {
  check_confidence_bin(sequence.id, sequence.confidence_bin);
  if (!pass_.known()) return 0.0;
  const auto state = sequences_.find(sequence.id);
  double outputs = 1.0, best = 1.0 / believed_seconds(1, {});
  Drafts drafts;
  survivals(sequence, state == sequences_.end() ? SequenceBias() : state->second.bias,
            [&](double survival) {
              drafts.add(sequence.deterministic);
              outputs += survival;
              best = std::max(best, outputs / believed_seconds(1, drafts));
              return true;
            });
  return best;
}

double DraftLength::best_throughput(std::span<const double> reach, std::size_t made) const {
  if (!pass_.known()) return 0.0;
  // As queried: made whether they are taken or not.
  const double making = std::max(0.0, draft_.seconds(made) - no_draft_.mean());
  double outputs = 1.0, best = 1.0 / (believed_seconds(1, {}) + making);
  for (std::size_t n = 1; n <= reach.size(); ++n) {
    outputs += reach[n - 1];
    best = std::max(best, outputs / (believed_seconds(1, {.deterministic = n}) + making));
  }
  return best;
}

GrowthLimit DraftLength::growth_limit(std::size_t most, std::size_t companions,
                                      std::size_t made) const {
  if (!options_.adaptive || !pass_.known()) return {};
  std::vector<double> seconds;
  for (std::size_t n = 0; n <= most; ++n) {
    seconds.push_back(believed_seconds(1 + companions, {.deterministic = n}) +
                      companion_.seconds(companions) + making_seconds(made));
  }
  return GrowthLimit(std::move(seconds));
}

// Time of this many outputs without drafts: a round makes one for each text. Prompts that are read
// beside them in the planned pass are none of a text's cost.
double DraftLength::plain_seconds(double outputs) const noexcept {
  return round_seconds(texts_, {}) * outputs / static_cast<double>(texts_);
}

// How many of the candidates to take: the number with the most outputs a second, or 0 if that does
// not beat no drafts by the margin.
std::size_t DraftLength::best_prefix() {
  double outputs = static_cast<double>(rows_);
  plain_rate_ = planned_rate_ = outputs / round_seconds({});
  Drafts drafts;
  double needed = plain_rate_ * (1.0 + options_.margin);
  std::size_t best = 0;
  for (std::size_t n = 1; n <= candidates_.size(); ++n) {
    if (rows_ + companions_ + n > pass_.explored()) break;
    outputs += candidates_[n - 1].survival;
    drafts.add(candidates_[n - 1].deterministic);
    const double rate = outputs / believed_seconds(drafts);
    if (rate <= needed) continue;
    needed = planned_rate_ = rate;
    best = n;
  }
  return best;
}

bool DraftLength::measure_next() noexcept {
  measure_next_ = options_.adaptive && (!pass_.known() || plain_check_due());
  return measure_next_;
}

bool DraftLength::plain_check_due() const {
  return since_plain_ >= kPlainCheck ||
         (since_plain_ >= kEarlyCheck &&
          (pass_.drift(rows_) > kDrift || pass_.seen(rows_) < kFewPasses));
}

bool DraftLength::probe_due() {
  const double plain = round_seconds({});
  ++since_drafts_;
  unprobed_seconds_ += plain;
  return since_drafts_ >= probe_after_ &&
         options_.probe_share * unprobed_seconds_ >= round_seconds({.queried = kProbe}) - plain;
}

bool DraftLength::may_probe(const SequencePlan& plan) const {
  return plan.limit > 0 && worth_reading(plan);
}

// Sequences get the probe in turn.
void DraftLength::probe(std::span<const SequencePlan> sequences) {
  std::size_t sequence = probes_ % sequences.size();
  while (!may_probe(sequences[sequence])) sequence = (sequence + 1) % sequences.size();
  lengths_[sequence] = static_cast<std::uint32_t>(std::min(kProbe, sequences[sequence].limit));
  ++probes_;
  probing_ = true;
  since_drafts_ = 0;
  unprobed_seconds_ = 0.0;
  probe_after_ = std::min(2 * probe_after_, kLastProbe);
}

double DraftLength::beside_pass_seconds(Drafts drafts) const noexcept {
  return rest_.mean() + std::max(draft_.seconds(drafts.queried + made_), no_draft_.mean());
}

std::size_t DraftLength::planned_drafts() const noexcept {
  return std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0});
}

double DraftLength::price(std::size_t rows) const noexcept {
  if (!options_.adaptive) return 0.0;
  return best_rate() * more_rows_seconds(rows);
}

double DraftLength::checking_price(std::size_t drafts) const noexcept {
  if (!options_.adaptive) return 0.0;
  const std::size_t others = planned_rows_ - std::min(planned_rows_, drafts);
  return best_rate() * std::max(0.0, pass_.seconds(planned_rows_) - pass_.seconds(others));
}

// Of companions more in the planned pass.
double DraftLength::more_rows_seconds(std::size_t companions) const noexcept {
  return pass_.seconds(planned_rows_ + companions) - pass_.seconds(planned_rows_) +
         (planned_companions_ > 0 ? 0.0 : companion_.seconds(companions));
}

// Rows of companions do not teach what rows cost, unless nothing else has; and before it is known
// what companions cost, they teach no more than is expected of rows.
void DraftLength::observe_pass(const PassSeen& pass) noexcept {
  if (pass.companions == 0) {
    companion_.pass_without();
    pass_.observe(pass.rows, pass.target_seconds);
    return;
  }
  const double expected = pass_.seconds(pass.rows);
  if (pass_.seen(pass.rows) < kFewPasses) {
    const double seconds = pass.target_seconds - companion_.seconds(pass.companions);
    pass_.observe(pass.rows,
                  companion_.known() || !pass_.known() ? seconds : std::min(seconds, expected));
  }
  // What the drafter does with the rows is their price too, unless it made drafts beside.
  const double work = std::max(0.0, pass.drafter_seconds - no_draft_.mean());
  const bool known = pass.drafted == 0 && no_draft_.mean() > 0.0 && std::isfinite(work);
  if (pass.target_seconds > 0.0) {  // else it read a prompt too
    companion_.observe(pass.target_seconds + (known ? work : 0.0), pass_.seconds(pass.rows));
  }
}

// The first drafts, and those after a pause, read what was not read yet and what the caches have
// lost: they do not tell what drafting costs that goes on, unless they take less.
void DraftLength::observe_drafting(const PassSeen& pass) noexcept {
  const bool first = !std::exchange(drafted_, true);
  const double expected = draft_.seconds(pass.drafted);
  if (first) return;
  const bool paused = undrafted_ > kPause && expected > 0.0;
  draft_.observe(pass.drafted,
                 paused ? std::min(pass.drafter_seconds, expected) : pass.drafter_seconds);
}

void DraftLength::observe(std::span<const SequenceOutcome> sequences, const PassSeen& pass) {
  for (const SequenceOutcome& seen : sequences) {
    check_confidence_bin(seen.id, seen.confidence_bin);
    if (seen.accepted > seen.examined || seen.examined > seen.accepted + 1) {
      throw std::invalid_argument("draft length: " + std::to_string(seen.examined) +
                                  " drafts examined, " + std::to_string(seen.accepted) +
                                  " kept; all but at most the last examined are kept");
    }
    check_confidence_bin(seen.id, seen.draft_confidence_bin);
    if (!seen.draft.empty() && seen.draft_origin == Origin::kSampled) {
      throw std::invalid_argument(
          "draft length: a sampled draft to be judged by later outputs, which tell only whether a "
          "point mass would have been kept; leave it empty");
    }
  }
  made_ = 0;
  const double before = pass_.seen(1) < kFewPasses ? 0.0 : pass_.seconds(1);
  observe_pass(pass);
  // While nothing is drafted, what drafts cost follows what passes cost, if that was known: a
  // machine that was slow for a moment would else keep a drafter from running long after.
  if (pass.drafted == 0 && before > 0.0) draft_.scale(pass_.seconds(1) / before);
  rest_.observe(pass.rest_seconds);
  if (pass.read > 0) read_.observe(pass.read_seconds / static_cast<double>(pass.read));
  if (pass.drafted > 0) {
    observe_drafting(pass);
  } else if (pass.companions == 0) {
    no_draft_.observe(pass.drafter_seconds);
  }
  if (pass.rows > 0) undrafted_ = pass.drafted > 0 ? 0 : undrafted_ + 1;
  for (const SequenceOutcome& seen : sequences) {
    if (probing_ && seen.accepted > 0) probe_after_ = kFirstProbe;  // it may pay again
    learn(seen);
  }
  settle(sequences, pass);
  acceptance_.next_round();
}

void DraftLength::learn(const SequenceOutcome& seen) {
  if (seen.tree) return;
  SequenceState& sequence = sequences_[seen.id];
  const auto score = [&](std::size_t confidence_bin, std::size_t position, bool kept) {
    sequence.bias.observe(acceptance_.probability(confidence_bin, position), kept);
    acceptance_.observe(confidence_bin, position, kept);
  };
  sequence.counterfactual.advance(seen.outputs, score);
  for (std::size_t j = 0; j < seen.examined; ++j) score(seen.confidence_bin, j, j < seen.accepted);
  if (!seen.deterministic) {  // it might have been used
    sequence.counterfactual.add(seen.draft_confidence_bin, seen.draft, 0, seen.outputs, score);
  } else if (seen.examined == seen.accepted && seen.accepted <= seen.outputs.size()) {
    // It continues after its planned part, all of which was kept.
    sequence.counterfactual.add(seen.draft_confidence_bin, seen.draft, seen.accepted,
                                seen.outputs.subspan(seen.accepted), score);
  }
  sequence.bias.next_round();
}

DraftLengthReport DraftLength::report() const {
  DraftLengthReport r{.pass = pass_.curve(),
                      .draft_fixed_seconds = draft_.fixed(),
                      .draft_token_seconds = draft_.per_token(),
                      .rest_seconds = rest_.mean(),
                      .lengths = lengths_,
                      .planned_per_second = planned_rate_,
                      .plain_per_second = plain_rate_,
                      .credit = credit(),
                      .chosen = chosen_,
                      .probes = probes_,
                      .plain_checks = plain_checks_};
  if (draft_.seconds(1) == 0.0) r.draft_fixed_seconds = no_draft_.mean();  // no drafts yet
  for (std::size_t g = 0; g < kConfidenceBins; ++g) {
    for (std::size_t j = 0; j < Acceptance::kPositions; ++j) {
      const double examined = acceptance_.cell(g, j).examined;
      if (examined < 0.5) continue;
      r.acceptance.push_back({g, j, acceptance_.probability(g, j), examined});
    }
  }
  return r;
}

void cut(TokenDraft& draft, std::size_t length) {
  if (length >= draft.size()) return;
  if (draft.origin == Origin::kSampled) {
    throw std::invalid_argument(
        "cut: a sampled draft; plan its length before it is drawn, or the kept tokens no longer "
        "have the drafter's law");
  }
  draft.tokens.resize(length);
  if (draft.laws.size() > length) {
    draft.laws.erase(draft.laws.begin() + static_cast<std::ptrdiff_t>(length), draft.laws.end());
  }
}

}  // namespace forerun
