#include "forerun/methods/dflash/dflash_drafter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "forerun/core/apply_sampling.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

// More pending rows than a few rounds leave are read by passes of their own, over several rounds
// that draft nothing if they are many: no round takes long.
constexpr std::int64_t kPendingRows = 32, kMostRows = 128;
constexpr float kForbidden = -std::numeric_limits<float>::infinity();

}  // namespace

// Keeps the states of the tokens that stay: the whole text except the newest token, which the
// target has not read yet.
void DFlashDrafter::take(const TokenSequence& sequence, const HiddenStates& states) {
  append(sequence, states, static_cast<std::int64_t>(sequence.tokens().size()) - 1);
}

void DFlashDrafter::append(const TokenSequence& sequence, const HiddenStates& states,
                           std::int64_t end) {
  SequenceState& state = sequences_[sequence.id()];
  if (!state.context) state.context = network_->make_context();
  const std::int64_t known = state.context->length() + pending_rows(state);
  if (end <= known) return;
  if (known < states.first || end > states.first + states.count) {
    throw std::logic_error("DFlash: a sequence's hidden states have a gap");
  }
  const float* from = states.rows + (known - states.first) * width();
  state.pending.insert(state.pending.end(), from, from + (end - known) * width());
}

bool DFlashDrafter::share(SequenceId from, SequenceId to, std::int64_t positions) {
  const auto found = sequences_.find(from);
  if (found == sequences_.end()) return false;
  const SequenceState& source = found->second;
  const std::int64_t read = std::min(positions, source.context->length());
  const std::int64_t pending = positions - read;
  if (pending > pending_rows(source)) return false;
  SequenceState state{.context = source.context->share(read), .pending = {}};
  state.pending.assign(source.pending.begin(), source.pending.begin() + pending * width());
  sequences_[to] = std::move(state);
  return true;
}

std::vector<SequencePlan> DFlashDrafter::plan(std::span<TokenSequence* const> sequences,
                                              std::span<const std::size_t> most,
                                              const DraftLength&) const {
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto found = sequences_.find(sequences[i]->id());
    const bool ready = found != sequences_.end();
    const std::int64_t rows = ready ? pending_rows(found->second) : 0;
    plans.push_back({.id = sequences[i]->id(),
                     .limit = ready ? std::min(most[i], block()) : 0,
                     .unread = rows > kPendingRows ? static_cast<std::size_t>(rows) : 0,
                     .remaining = sequences[i]->remaining()});
  }
  return plans;
}

// Reads some of the pending rows; false: many are left.
bool DFlashDrafter::catch_up(SequenceState& sequence) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t rows = std::min(kMostRows, pending_rows(sequence));
  const BlockSpan span{
      .context = sequence.context.get(), .features = sequence.pending.data(), .fresh = rows};
  network_->forward({&span, 1});
  sequence.pending.erase(sequence.pending.begin(), sequence.pending.begin() + rows * width());
  prefilled_.tokens += static_cast<std::size_t>(rows);
  prefilled_.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return pending_rows(sequence) <= kPendingRows;
}

std::vector<TokenDraft> DFlashDrafter::propose(std::span<TokenSequence* const> sequences,
                                               std::span<const std::size_t> lengths) {
  std::vector<TokenDraft> drafts(sequences.size());
  std::vector<BlockSpan> spans;
  std::vector<std::size_t> who;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const bool searched =
        draft_mode(sequences[i]->rule()) == DraftMode::kGreedy || sequences[i]->sampling().greedy();
    drafts[i].origin = searched ? Origin::kSearched : Origin::kSampled;
    const auto found = sequences_.find(sequences[i]->id());
    if (lengths[i] == 0 || found == sequences_.end()) continue;
    SequenceState& sequence = found->second;
    if (pending_rows(sequence) > kPendingRows && !catch_up(sequence)) continue;
    spans.push_back({.context = sequence.context.get(),
                     .features = sequence.pending.data(),
                     .fresh = pending_rows(sequence),
                     .anchor = sequences[i]->tokens().back(),
                     .drafts = static_cast<std::int64_t>(std::min(lengths[i], block()))});
    who.push_back(i);
  }
  rows_used_ = 0;
  if (spans.empty()) return drafts;
  const DFlashPasses::Blocks blocks = network_->forward(spans);
  std::int64_t row = 0;
  for (std::size_t j = 0; j < who.size(); ++j) {
    sequences_.at(sequences[who[j]]->id()).pending.clear();
    TokenDraft& draft = drafts[who[j]];
    try {
      fill(*sequences[who[j]], draft, blocks.logits, row, spans[j].drafts);
    } catch (const std::exception&) {  // scores that are not numbers: the target judges the text
      draft.tokens.clear();
      draft.laws.clear();
    }
    row += spans[j].drafts;
  }
  return drafts;
}

void DFlashDrafter::fill(const TokenSequence& sequence, TokenDraft& draft, const at::Tensor& logits,
                         std::int64_t row, std::int64_t count) {
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  Token previous = sequence.tokens().back();
  for (std::int64_t k = 0; k < count; ++k) {
    const std::span<float> own(logits.data_ptr<float>() + static_cast<std::size_t>(row + k) * vocab,
                               vocab);
    if (network_->has_markov()) network_->add_markov(previous, own);
    const auto position = sequence.tokens().size() + static_cast<std::size_t>(k);
    previous = pick(sequence, own, sequence.key_at(position), draft);
    draft.tokens.push_back(previous);
  }
}

Token DFlashDrafter::pick(const TokenSequence& sequence, std::span<float> logits, const RngKey& key,
                          TokenDraft& draft) {
  // Only ratio-on-search needs the laws of greedy drafts.
  const bool scored = sequence.rule() == Rule::kRatioOnSearch && !sequence.sampling().greedy();
  if (draft.origin != Origin::kSearched || scored) return pick_scored(sequence, logits, key, draft);
  return network_->token(argmax(logits));
}

// The law over the target's vocabulary: zero outside the draft vocabulary.
Token DFlashDrafter::pick_scored(const TokenSequence& sequence, std::span<float> logits,
                                 const RngKey& key, TokenDraft& draft) {
  if (rows_used_ == rows_.size()) rows_.emplace_back();
  std::vector<float>& row = rows_[rows_used_++];
  row.assign(static_cast<std::size_t>(network_->config().vocab), kForbidden);
  // The short row is transformed first: tokens forbidden there stay forbidden.
  static_cast<void>(apply_sampling_(logits, sequence.sampling()));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    row[static_cast<std::size_t>(network_->token(static_cast<std::int64_t>(i)))] = logits[i];
  }
  const Categorical q(row);
  draft.laws.push_back(q);
  if (draft.origin == Origin::kSearched) return q.argmax();
  if (draft_mode(sequence.rule()) == DraftMode::kSharedNoise)
    return sample_shared_noise(q, key).token;
  return q.sample(key.uniform(Purpose::kDraft));
}

}  // namespace forerun
