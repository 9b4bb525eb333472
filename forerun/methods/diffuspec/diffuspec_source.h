#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forerun/methods/diffuspec/diffuspec_texts.h"
#include "forerun/methods/tree/slot_source.h"

namespace forerun {

/// The places that a diffusion language model predicts in one pass, for trees. The n-gram proxy
/// weighs what may follow a node, given the two tokens before; the best paths that the search finds
/// through all places are the first choices, and how many of them agree is their confidence. After
/// a token that ends a text nothing is drafted.
/// Source: DiffuSpec, arXiv:2510.02358, section 3.
class DiffuSpecSource final : public SlotSource {
 public:
  explicit DiffuSpecSource(std::shared_ptr<const DiffuSpec> method) : texts_(std::move(method)) {}

  std::size_t made() const override { return texts_.method().most(); }
  State state(const TokenSequence& sequence) const override {
    return {.ready = texts_.places(sequence) > 0, .unread = texts_.unread(sequence)};
  }
  void query(std::span<const TokenSequence* const> sequences) override {
    texts_.predict(sequences);
  }
  Prefilled prefilled() const override { return texts_.prefilled(); }
  void observe(const VerifiedDraft& verified) override {
    texts_.observe(verified.sequence.id(), verified.outcome.accepted);
  }
  void forget(SequenceId id) override { texts_.forget(id); }

  // It reads tokens, not hidden states.
  std::span<const std::int64_t> features() const override { return {}; }
  std::int64_t state_width() const override { return 0; }
  void read(const TokenSequence&, const HiddenStates&) override {}
  void observe_states(const TokenSequence&, const HiddenStates&) override {}
  bool share(SequenceId from, SequenceId to, std::int64_t positions) override {
    return texts_.share(from, to, positions);
  }

 private:
  std::size_t slots_of(const TokenSequence& sequence) override;
  SlotCandidates likeliest(std::size_t slot) const override {
    const std::span<const float> row = texts_.logits(id_, slot);
    return slot_candidates(row, temperature(), bounds_of(row));
  }
  Token token(std::int32_t column) const override { return texts_.method().network.token(column); }
  const OnlineNgram& trigrams() override { return texts_.trigrams(sequence()); }
  void weigh(const Node& node, std::vector<Ranked>& candidates) override;
  std::optional<Token> preferred(const Node& node) const override;
  double confidence(const Node& node, Token first) const override;
  void search();

  DiffuSpecTexts texts_;
  SequenceId id_ = 0;             // whose tree grows
  std::vector<DraftPath> paths_;  // found for it
};

}  // namespace forerun
