#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/methods/draft_model/draft_model_texts.h"
#include "forerun/methods/tree/slot_source.h"

namespace forerun {

/// A smaller model's next tokens, for trees: it drafts a chain token by token, and every place of
/// the chain gives its other likely tokens as leaves. Sources beside it continue any of them.
class DraftModelSource final : public SlotSource {
 public:
  /// @param steps  tokens of the chain
  DraftModelSource(const DecoderLm& model, std::size_t steps) : texts_(model), steps_(steps) {}

  std::size_t made() const override { return steps_; }
  State state(const TokenSequence& sequence) const override {
    return {.ready = texts_.room(sequence) > 0, .unread = texts_.unread(sequence)};
  }
  void query(std::span<const TokenSequence* const> sequences) override;
  Prefilled prefilled() const override { return texts_.prefilled(); }
  void observe(const VerifiedDraft& verified) override;
  void forget(SequenceId id) override {
    texts_.forget(id);
    runs_.erase(id);
  }

 private:
  // The chain of a sequence in this round.
  struct Run {
    std::vector<Token> tokens;
    std::vector<SlotCandidates> slots;
  };
  std::size_t slots_of(const TokenSequence& sequence) override;
  SlotCandidates likeliest(std::size_t slot) const override { return growing_->slots[slot]; }
  bool abreast() const override { return false; }
  bool knows(const Node& node) const override;
  // A model of its own has read the text.
  void weigh(const Node&, std::vector<Ranked>&) override {}
  std::optional<Token> preferred(const Node& node) const override {
    return growing_->tokens[node.depth];
  }

  DraftModelTexts texts_;
  std::size_t steps_;
  std::unordered_map<SequenceId, Run> runs_;
  const Run* growing_ = nullptr;  // of the sequence whose tree grows
};

}  // namespace forerun
