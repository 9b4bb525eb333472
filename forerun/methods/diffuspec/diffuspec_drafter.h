#pragma once

#include <memory>
#include <span>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/diffuspec/diffuspec_texts.h"
#include "forerun/methods/text/draft_picker.h"

namespace forerun {

/// Drafts chains with a diffusion language model. Where the rule tests laws, tokens are sampled
/// place by place: the laws of one pass are independent given the text, so the test is exact with
/// them. Else a draft is the best path of the search.
/// Source: DiffuSpec, arXiv:2510.02358. The published test of p / q on such a path is the rule
/// ratio-on-search, which is not exact.
class DiffuSpecDrafter {
 public:
  explicit DiffuSpecDrafter(std::shared_ptr<const DiffuSpec> method);

  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const;
  /// @param lengths  drafts a sequence; fewer of a path that ends the text, none while the network
  /// still reads a long text
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths);
  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft>,
               const Verified&, std::span<const Outcome> outcomes) {
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      texts_.observe(sequences[i]->id(), outcomes[i].accepted);
    }
  }
  Prefilled prefilled() const noexcept { return texts_.prefilled(); }
  bool share(SequenceId from, SequenceId to, std::int64_t positions) {
    return texts_.share(from, to, positions);
  }
  void forget(SequenceId id) { texts_.forget(id); }

 private:
  void fill(const TokenSequence& sequence, std::size_t length, TokenDraft& draft);
  std::vector<Token> best_path(const TokenSequence& sequence);

  DiffuSpecTexts texts_;
  DraftPicker picker_;
};

}  // namespace forerun
