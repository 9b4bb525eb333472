#include "forerun/methods/draft_model/draft_model.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "forerun/methods/draft_mode.h"
#include "forerun/methods/text/verified_tokens.h"

namespace forerun {

std::vector<SequencePlan> DraftModelDrafter::plan(std::span<TokenSequence* const> sequences,
                                                  std::span<const std::size_t> most,
                                                  const DraftLength&) const {
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const TokenSequence& sequence = *sequences[i];
    plans.push_back({.id = sequence.id(),
                     .limit = std::min(most[i], texts_.room(sequence)),
                     .unread = texts_.unread(sequence)});
  }
  return plans;
}

std::vector<TokenDraft> DraftModelDrafter::propose(std::span<TokenSequence* const> sequences,
                                                   std::span<const std::size_t> lengths) {
  std::vector<TokenDraft> drafts(sequences.size());
  std::vector<std::size_t> budgets(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    texts_.settle(*sequences[i]);  // drafts of a round that came to nothing
    drafts[i].origin = draft_origin(*sequences[i]);
    budgets[i] = std::min(lengths[i], texts_.room(*sequences[i]));
  }
  std::size_t longest = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (budgets[i] > 0 && !texts_.catch_up(*sequences[i])) budgets[i] = 0;
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
  std::vector<DraftModelTexts::Wanted> wanted;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (k >= budgets[i]) continue;
    who.push_back(i);
    wanted.push_back({sequences[i], drafts[i].tokens});
  }
  const at::Tensor logits = logits_.emplace_back(texts_.next(wanted));
  for (std::size_t j = 0; j < who.size(); ++j) {
    TokenDraft& draft = drafts[who[j]];
    const DraftedToken next =
        take_token_(row_of(logits, static_cast<std::int64_t>(j)), *sequences[who[j]], draft.tokens);
    draft.tokens.push_back(next.token);
    if (const auto* law = std::get_if<Categorical>(&next.law)) draft.laws.push_back(*law);
  }
}

}  // namespace forerun
