#include "forerun/methods/draft_model/draft_model_texts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "forerun/core/apply_sampling.h"
#include "forerun/core/rng_key.h"
#include "forerun/methods/draft_mode.h"

namespace forerun {
namespace {

constexpr std::size_t kPending = 8;  // unread tokens that join the first pass of a draft
// More unread tokens are read over several rounds, which draft nothing: no round takes long.
constexpr std::size_t kPiece = 128;

std::span<const Token> unread_of(const TokenSequence& sequence, std::int64_t read) {
  return sequence.tokens().subspan(
      std::min(sequence.tokens().size(), static_cast<std::size_t>(read)));
}

}  // namespace

KvCache& DraftModelTexts::cache_of(const TokenSequence& sequence) {
  const auto found = caches_.find(sequence.id());
  if (found != caches_.end()) return found->second;
  return caches_.emplace(sequence.id(), model_.make_cache(pool_)).first->second;
}

std::int64_t DraftModelTexts::length(const TokenSequence& sequence) const {
  const auto cache = caches_.find(sequence.id());
  return cache == caches_.end() ? 0 : cache->second.length();
}

std::size_t DraftModelTexts::unread(const TokenSequence& sequence) const {
  const std::size_t missing = unread_of(sequence, length(sequence)).size();
  return missing > kPending ? missing - 1 : 0;
}

std::size_t DraftModelTexts::room(const TokenSequence& sequence) const {
  const auto size = static_cast<std::int64_t>(sequence.tokens().size());
  return static_cast<std::size_t>(std::max<std::int64_t>(0, model_.config.context - size));
}

bool DraftModelTexts::catch_up(const TokenSequence& sequence) {
  KvCache& cache = cache_of(sequence);
  const auto missing = unread_of(sequence, cache.length());
  if (missing.size() <= kPending) return true;
  const auto start = std::chrono::steady_clock::now();
  const std::size_t piece = std::min(kPiece, missing.size() - 1);
  prefill(model_, cache, missing.first(piece));
  prefilled_.tokens += piece;
  prefilled_.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return piece == missing.size() - 1;
}

at::Tensor DraftModelTexts::next(std::span<const Wanted> wanted) {
  std::vector<std::vector<Token>> inputs;
  std::vector<SequenceSpan> spans;
  for (const Wanted& w : wanted) {
    const auto missing = unread_of(*w.sequence, length(*w.sequence));
    inputs.emplace_back(missing.begin(), missing.end());
    if (missing.empty()) inputs.back().push_back(w.drafted.back());
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    KvCache& cache = cache_of(*wanted[i].sequence);
    cache.hold(static_cast<std::int64_t>(wanted[i].sequence->tokens().size()) - 1);
    spans.push_back({.cache = &cache, .tokens = inputs[i], .scored = 1});
  }
  return forward(model_, spans);
}

void DraftModelTexts::settle(const TokenSequence& sequence) {
  if (sequence.done()) {
    forget(sequence.id());
    return;
  }
  const auto found = caches_.find(sequence.id());
  if (found == caches_.end()) return;
  found->second.truncate(static_cast<std::int64_t>(sequence.tokens().size()) - 1);
}

DraftedToken take_token_(std::span<float> row, const TokenSequence& sequence,
                         std::span<const Token> drafted) {
  ChangedLogits changed = sequence.changed();
  for (const Token token : drafted) changed.push(token);
  changed.apply_(row);
  const TokenLaw law = apply_sampling_(row, sequence.sampling());
  if (const auto* decided = std::get_if<PointMass>(&law)) return {decided->token, law};
  const RngKey key = sequence.key_at(sequence.tokens().size() + drafted.size());
  return {drafted_token(std::get<Categorical>(law), sequence, key), law};
}

}  // namespace forerun
