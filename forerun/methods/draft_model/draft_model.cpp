#include "forerun/methods/draft_model/draft_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "forerun/core/apply_sampling.h"
#include "forerun/core/rng_key.h"
#include "forerun/methods/text/verified_tokens.h"

namespace forerun {
namespace {

constexpr std::size_t kPending = 8;  // unread tokens that join the first pass of a draft
// More unread tokens are read over several rounds, which draft nothing: no round takes long.
constexpr std::size_t kPiece = 128;

std::span<const Token> unread(const TokenSequence& sequence, std::int64_t read) {
  return sequence.tokens().subspan(
      std::min(sequence.tokens().size(), static_cast<std::size_t>(read)));
}

}  // namespace

KvCache& DraftModelDrafter::cache_of(const TokenSequence& sequence) {
  const auto found = caches_.find(sequence.id());
  if (found != caches_.end()) return found->second;
  return caches_.emplace(sequence.id(), model_.make_cache(pool_)).first->second;
}

// Reads a piece of the tokens that the cache lacks, if there are many; false: some are left.
bool DraftModelDrafter::catch_up(const TokenSequence& sequence) {
  KvCache& cache = cache_of(sequence);
  const auto missing = unread(sequence, cache.length());
  if (missing.size() <= kPending) return true;
  const auto start = std::chrono::steady_clock::now();
  const std::size_t piece = std::min(kPiece, missing.size() - 1);
  prefill(model_, cache, missing.first(piece));
  prefilled_.tokens += piece;
  prefilled_.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return piece == missing.size() - 1;
}

// The tokens that the cache lacks of the sequence's text and of the draft so far.
std::vector<Token> DraftModelDrafter::unseen(const TokenSequence& sequence, const TokenDraft& draft,
                                             const KvCache& cache) {
  const auto missing = unread(sequence, cache.length());
  std::vector<Token> tokens(missing.begin(), missing.end());
  if (tokens.empty()) tokens.push_back(draft.tokens.back());
  return tokens;
}

// A drafter with a shorter context than the target stops drafting there; the target continues.
std::size_t DraftModelDrafter::room_of(const TokenSequence& sequence) const {
  const auto size = static_cast<std::int64_t>(sequence.tokens().size());
  return static_cast<std::size_t>(std::max<std::int64_t>(0, model_.config.context - size));
}

std::vector<SequencePlan> DraftModelDrafter::plan(std::span<TokenSequence* const> sequences,
                                                  std::span<const std::size_t> most,
                                                  const DraftLength&) const {
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const TokenSequence& sequence = *sequences[i];
    const auto cache = caches_.find(sequence.id());
    const std::size_t missing =
        unread(sequence, cache == caches_.end() ? 0 : cache->second.length()).size();
    plans.push_back({.id = sequence.id(),
                     .limit = std::min(most[i], room_of(sequence)),
                     .unread = missing > kPending ? missing - 1 : 0,
                     .remaining = sequence.remaining()});
  }
  return plans;
}

std::vector<TokenDraft> DraftModelDrafter::propose(std::span<TokenSequence* const> sequences,
                                                   std::span<const std::size_t> lengths) {
  std::vector<TokenDraft> drafts(sequences.size());
  std::vector<std::size_t> budgets(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    forget_rejected(*sequences[i]);  // drafts of a round that came to nothing
    drafts[i].origin = draft_origin(*sequences[i]);
    budgets[i] = std::min(lengths[i], room_of(*sequences[i]));
  }
  std::size_t longest = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (budgets[i] > 0 && !catch_up(*sequences[i])) budgets[i] = 0;
    longest = std::max(longest, budgets[i]);
  }
  logits_.clear();
  for (std::size_t k = 0; k < longest; ++k) step(sequences, drafts, budgets, k);
  return drafts;
}

// Drafts the k-th token of every sequence that needs one, in one pass.
void DraftModelDrafter::step(std::span<TokenSequence* const> sequences,
                             std::vector<TokenDraft>& drafts, std::span<const std::size_t> budgets,
                             std::size_t k) {
  std::vector<std::size_t> who;
  std::vector<std::vector<Token>> inputs;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (k >= budgets[i]) continue;
    who.push_back(i);
    inputs.push_back(unseen(*sequences[i], drafts[i], cache_of(*sequences[i])));
  }
  std::vector<SequenceSpan> spans;
  for (std::size_t j = 0; j < who.size(); ++j) {
    spans.push_back({.cache = &cache_of(*sequences[who[j]]), .tokens = inputs[j], .scored = 1});
  }
  const at::Tensor logits = logits_.emplace_back(forward(model_, spans));
  for (std::size_t j = 0; j < who.size(); ++j) {
    const TokenSequence& sequence = *sequences[who[j]];
    TokenDraft& draft = drafts[who[j]];
    const std::span<float> row = row_of(logits, static_cast<std::int64_t>(j));
    ChangedLogits changed = sequence.changed();  // as the target's law changes after these drafts
    for (const Token token : draft.tokens) changed.push(token);
    changed.apply_(row);
    const TokenLaw law = apply_sampling_(row, sequence.sampling());
    if (const auto* decided = std::get_if<PointMass>(&law)) {
      draft.tokens.push_back(decided->token);
      continue;
    }
    const Categorical& q = std::get<Categorical>(law);
    draft.tokens.push_back(
        drafted_token(q, sequence, sequence.key_at(sequence.tokens().size() + k)));
    draft.laws.push_back(q);
  }
}

void DraftModelDrafter::forget_rejected(const TokenSequence& sequence) {
  if (sequence.done()) {
    forget(sequence.id());
    return;
  }
  const auto found = caches_.find(sequence.id());
  if (found == caches_.end()) return;
  found->second.truncate(static_cast<std::int64_t>(sequence.tokens().size()) - 1);
}

}  // namespace forerun
