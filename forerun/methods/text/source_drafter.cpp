#include "forerun/methods/text/source_drafter.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace forerun {

namespace {

// How many of the tokens the text's grammar allows.
std::size_t possible(const TokenSequence& sequence, std::span<const Token> tokens) {
  if (!sequence.changed().constrained()) return tokens.size();
  ChangedLogits changed = sequence.changed();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!changed.allowed()(tokens[i])) return i;
    changed.push(tokens[i]);
  }
  return tokens.size();
}

}  // namespace

std::vector<SequencePlan> SourceDrafter::plan(std::span<TokenSequence* const> sequences,
                                              std::span<const std::size_t> most,
                                              const DraftLength&) {
  std::vector<DraftRequest> texts;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    texts.push_back({.id = sequences[i]->id(), .text = sequences[i]->tokens(), .most = most[i]});
  }
  std::vector<std::vector<Token>> proposed = source_->propose(texts);
  if (proposed.size() != sequences.size()) {
    throw std::runtime_error("a draft source gave " + std::to_string(proposed.size()) +
                             " drafts for " + std::to_string(sequences.size()) +
                             " texts: it must give one for each, empty if it has none");
  }
  std::vector<TokenDraft> drafts(sequences.size());
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    drafts[i].tokens = std::move(proposed[i]);
    cut(drafts[i], std::min(most[i], possible(*sequences[i], drafts[i].tokens)));
  }
  return found_.plan(sequences, std::move(drafts));
}

}  // namespace forerun
