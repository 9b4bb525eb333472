#pragma once

#include <any>
#include <memory>
#include <span>
#include <utility>

#include "forerun/methods/tidar/tidar_blocks.h"
#include "forerun/methods/tree/slot_source.h"

namespace forerun {

/// Target and drafter in one pass: mask rows beside the rows that are verified predict the tokens
/// after whatever is kept, with adapters that those rows alone meet, so the target stays as it is.
/// Their blocks as branches of a tree.
class TidarSource final : public SlotSource {
 public:
  /// @param lora  in the target's precision
  explicit TidarSource(std::shared_ptr<const GatedLora> lora, TidarForm form = TidarForm::kMeasured)
      : blocks_(std::move(lora), form, TidarBlocks::Kept::kLikeliest) {}

  void remember(std::any& memory) override { blocks_.remember(memory); }
  /// The target's own pass makes them.
  std::size_t made() const override { return 0; }
  void companions(const TokenSequence& sequence, const TokenDraft& draft, const RowOffer& offer,
                  CompanionRows& rows) override {
    blocks_.companions(sequence, draft, offer, rows);
  }
  void earned(SequenceId id) override { blocks_.earned(id); }
  void spent(SequenceId id, double outputs) override { blocks_.spent(id, outputs); }
  void observe(const VerifiedDraft& verified) override { blocks_.observe(verified); }
  void forget(SequenceId id) override {
    SlotSource::forget(id);
    blocks_.forget(id);
  }

 private:
  std::size_t slots_of(const TokenSequence& sequence) override {
    growing_ = sequence.id();
    return blocks_.drafts(growing_);
  }
  SlotCandidates likeliest(std::size_t slot) const override {
    return blocks_.likeliest(growing_, slot);
  }
  bool abreast() const override { return false; }
  bool conditioned() const override { return blocks_.markov().defined(); }
  void condition(std::size_t /*slot*/, Token previous, std::span<const std::int32_t> columns,
                 std::span<float> logits) const override {
    blocks_.markov().add(previous, columns, logits);
  }

  TidarBlocks blocks_;
  SequenceId growing_ = 0;  // whose tree grows
};

}  // namespace forerun
