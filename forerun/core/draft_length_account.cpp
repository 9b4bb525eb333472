// What a sequence may spend on its drafter, and what it has spent.
#include <algorithm>
#include <cmath>

#include "forerun/core/draft_length.h"

namespace forerun {

// Outputs of plain decoding that take as long: none before a pass has said what one costs.
double DraftLength::worth(double seconds) const noexcept {
  const double output = pass_.known() ? plain_seconds(1.0) : 0.0;
  return output > 0.0 && seconds > 0.0 ? seconds / output : 0.0;
}

// What its drafter would spend on reading.
double DraftLength::reading_seconds(const SequencePlan& plan) const noexcept {
  return plan.deterministic ? 0.0 : read_.mean() * static_cast<double>(plan.unread);
}

bool DraftLength::worth_reading(const SequencePlan& plan, std::size_t tokens) const {
  if (plan.deterministic || plan.unread == 0) return true;
  const DraftAccount& of = account(plan.id);
  return reading_seconds(plan) + draft_.seconds(tokens) <=
         plain_seconds(of.for_reading(terms(), ahead(of, plan.remaining)));
}

bool DraftLength::affords(const SequencePlan& sequence, std::size_t tokens) const {
  return pass_.known() && draft_.seconds(tokens) <= plain_seconds(for_drafts(sequence));
}

const DraftAccount& DraftLength::account(SequenceId id) const {
  static const DraftAccount fresh;
  const auto state = sequences_.find(id);
  return state == sequences_.end() ? fresh : state->second.account;
}

double DraftLength::credit() const noexcept {
  const double gained = ended_.gained() - options_.gain_margin * ended_.length();
  return std::clamp(options_.gain_share * gained, options_.credit,
                    std::max(options_.credit, options_.most_credit));
}

// Outputs that a sequence is expected to have yet: no more than texts have had.
double DraftLength::ahead(const DraftAccount& account, std::size_t remaining) const noexcept {
  return std::clamp(ended_.length() - account.outputs(), 0.0, static_cast<double>(remaining));
}

// What its drafts of a round may cost, in outputs, after what has to be read for them.
double DraftLength::for_drafts(const SequencePlan& sequence) const {
  const DraftAccount& of = account(sequence.id);
  return of.for_drafts(terms(), ahead(of, sequence.remaining), worth(reading_seconds(sequence)));
}

bool DraftLength::covers(SequenceId id, std::size_t rows) const {
  if (!options_.adaptive) return true;
  const auto state = sequences_.find(id);
  const std::size_t remaining = state == sequences_.end() ? 0 : state->second.remaining;
  return more_rows_seconds(rows) <= plain_seconds(for_drafts({.id = id, .remaining = remaining}));
}

// What the drafts of a round cost, over what was expected of them: 0 to 2, as other processes delay
// a pass. 1 if the pass is not known.
double DraftLength::over_expected(double expected, const PassSeen& pass) const noexcept {
  const double undrafted = pass_.seconds(rows_) + no_draft_.mean();
  const double seconds = pass.target_seconds + pass.drafter_seconds;
  if (expected <= 0.0 || !(pass.target_seconds > 0.0) || !std::isfinite(seconds)) return 1.0;
  return std::clamp((seconds - undrafted) / expected, 0.0, 2.0);
}

// Credits the kept drafts and debits the cost of drafting, each sequence its share.
void DraftLength::settle(std::span<const SequenceOutcome> sequences, const PassSeen& pass) {
  if (sequences.empty()) return;
  texts_ = std::max(texts_, sequences.size());
  rows_ = std::max(rows_, sequences.size());
  std::size_t rows = 0, companions = 0, made = 0, read = 0;
  for (const SequenceOutcome& seen : sequences) {
    rows += seen.drafted + seen.companions;
    companions += seen.companions;
    made += seen.made;
    read += seen.read;
  }
  const auto each = [](double seconds, std::size_t n) {
    return n > 0 ? std::max(0.0, seconds) / static_cast<double>(n) : 0.0;
  };
  const double checking =
      each(round_seconds(rows_, {.deterministic = rows}) - round_seconds(rows_, {}), rows);
  const double making = each(draft_.seconds(made) - no_draft_.mean(), made);
  const double beside_rows = each(companion_.seconds(companions), companions);
  const double reading = each(pass.read_seconds, std::max(read, pass.read));
  const auto cost = [&](std::size_t checked, std::size_t beside, std::size_t drafted) {
    return static_cast<double>(checked) * checking + static_cast<double>(beside) * beside_rows +
           static_cast<double>(drafted) * making;
  };
  const double over = over_expected(cost(rows, companions, made), pass);
  for (const SequenceOutcome& seen : sequences) {
    DraftAccount& account = sequences_[seen.id].account;
    const double spent = cost(seen.drafted + seen.companions, seen.companions, seen.made);
    account.settle(static_cast<double>(seen.accepted), worth(over * spent),
                   worth(static_cast<double>(seen.read) * reading));
    if (!seen.done) continue;
    ended_.observe(account);
    sequences_.erase(seen.id);
  }
}

}  // namespace forerun
