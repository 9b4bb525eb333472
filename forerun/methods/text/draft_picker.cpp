#include "forerun/methods/text/draft_picker.h"

#include <algorithm>
#include <limits>

#include "forerun/core/apply_sampling.h"
#include "forerun/core/rng_key.h"
#include "forerun/methods/draft_mode.h"

namespace forerun {

// As the target's law changes after these drafts.
void DraftPicker::change_(const TokenSequence& sequence, const TokenDraft& draft,
                          std::span<float> logits) const {
  if (sequence.changed().none()) return;
  ChangedLogits changed = sequence.changed();
  for (const Token token : draft.tokens) changed.push(token);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = changed.of(tokens_[i], logits[i]);
  const AllowedTokens possible = changed.allowed();
  if (possible.unknown()) return;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  bool some = false;
  for (std::size_t i = 0; i < logits.size() && !some; ++i) {
    some = logits[i] > kNever && possible(tokens_[i]);
  }
  // Where the grammar allows none of what the network may draft, any will be rejected. Ending the
  // draft there would be a choice by drafted values, which an exact rule does not allow.
  if (!some) return;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!possible(tokens_[i])) logits[i] = kNever;
  }
}

Categorical DraftPicker::law(const TokenSequence& sequence, std::span<float> logits) {
  if (used_ == rows_.size()) rows_.emplace_back();
  std::vector<float>& row = rows_[used_++];
  row.assign(vocab_, -std::numeric_limits<float>::infinity());
  // The short row is transformed first: tokens forbidden there stay forbidden.
  static_cast<void>(apply_sampling_(logits, sequence.sampling()));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    row[static_cast<std::size_t>(tokens_[i])] = logits[i];
  }
  return Categorical(row);
}

Token DraftPicker::pick(const TokenSequence& sequence, std::span<float> logits, const RngKey& key,
                        TokenDraft& draft) {
  Token token;
  change_(sequence, draft, logits);
  if (needs_laws(sequence)) {
    const Categorical& q = draft.laws.emplace_back(law(sequence, logits));
    token = drafted_token(q, sequence, key);
  } else {
    token = tokens_[static_cast<std::size_t>(argmax(logits))];
  }
  draft.tokens.push_back(token);
  return token;
}

bool DraftPicker::append(const TokenSequence& sequence, Token token, std::span<float> logits,
                         TokenDraft& draft) {
  if (needs_laws(sequence)) {
    change_(sequence, draft, logits);
    const Categorical q = law(sequence, logits);
    if (!(q.prob(token) > 0.0)) return false;
    draft.laws.push_back(q);
  }
  draft.tokens.push_back(token);
  return true;
}

void DraftPicker::end(TokenDraft& draft) {
  const std::size_t laws = std::min(draft.tokens.size(), draft.laws.size());
  draft.laws.erase(draft.laws.begin() + static_cast<std::ptrdiff_t>(laws), draft.laws.end());
}

}  // namespace forerun
