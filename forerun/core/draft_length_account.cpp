// What a sequence may spend on its drafter, and what it has spent.
#include <algorithm>

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

// Outputs that a sequence is expected to have yet: no more than texts have had.
double DraftLength::ahead(const DraftAccount& account, std::size_t remaining) const noexcept {
  return std::clamp(text_length_ - account.outputs(), 0.0, static_cast<double>(remaining));
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

// Credits the kept drafts and debits the cost of drafting, each sequence its share.
void DraftLength::settle(std::span<const SequenceOutcome> sequences, const PassSeen& pass) {
  if (sequences.empty()) return;
  texts_ = std::max(texts_, sequences.size());
  rows_ = std::max(rows_, sequences.size());
  std::size_t rows = 0, made = 0, read = 0;
  for (const SequenceOutcome& seen : sequences) {
    rows += seen.drafted + seen.companions;
    made += seen.made;
    read += seen.read;
  }
  const auto each = [](double seconds, std::size_t n) {
    return n > 0 ? std::max(0.0, seconds) / static_cast<double>(n) : 0.0;
  };
  const double checking =
      each(round_seconds(rows_, {.deterministic = rows}) - round_seconds(rows_, {}), rows);
  const double making = each(draft_.seconds(made) - no_draft_.mean(), made);
  const double reading = each(pass.read_seconds, std::max(read, pass.read));
  for (const SequenceOutcome& seen : sequences) {
    DraftAccount& account = sequences_[seen.id].account;
    const double spent = static_cast<double>(seen.drafted + seen.companions) * checking +
                         companion_.seconds(seen.companions) +
                         static_cast<double>(seen.made) * making;
    account.settle(static_cast<double>(seen.accepted), worth(spent),
                   worth(static_cast<double>(seen.read) * reading));
    if (!seen.done) continue;
    text_length_ += (account.outputs() - text_length_) / kTextMemory;
    sequences_.erase(seen.id);
  }
}

}  // namespace forerun
