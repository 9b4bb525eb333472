#include "forerun/methods/text/source_drafter.h"

#include <stdexcept>

namespace forerun {

std::vector<SequencePlan> SourceDrafter::plan(std::span<TokenSequence* const> sequences,
                                              std::span<const std::size_t> most,
                                              const DraftLength&) {
  std::vector<DraftRequest> texts;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    texts.push_back({.id = sequences[i]->id(), .text = sequences[i]->tokens(), .most = most[i]});
  }
  std::vector<std::vector<Token>> drafts = source_->propose(texts);
  if (drafts.size() != sequences.size()) {
    throw std::runtime_error("a draft source gave " + std::to_string(drafts.size()) +
                             " drafts for " + std::to_string(sequences.size()) +
                             " texts: it must give one for each, empty if it has none");
  }
  std::vector<SequencePlan> plans;
  found_.clear();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    TokenDraft& draft = found_.emplace_back();
    draft.tokens = std::move(drafts[i]);
    if (draft.tokens.size() > most[i]) draft.tokens.resize(most[i]);
    plans.push_back({.id = sequences[i]->id(),
                     .limit = draft.size(),
                     .deterministic = true,
                     .origin = draft.origin});
  }
  return plans;
}

std::vector<TokenDraft> SourceDrafter::propose(std::span<TokenSequence* const> sequences,
                                               std::span<const std::size_t> lengths) const {
  std::vector<TokenDraft> drafts = found_;
  for (std::size_t i = 0; i < sequences.size(); ++i) cut(drafts[i], lengths[i]);
  return drafts;
}

}  // namespace forerun
