#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/methods/tidar/tidar_rows.h"
#include "forerun/methods/tree/companion_worth.h"
#include "forerun/methods/tree/slot_source.h"
#include "forerun/models/markov_head.h"

namespace forerun {

/// Target and drafter in one pass: mask rows beside the rows that are verified predict the tokens
/// after whatever is kept, with adapters that those rows alone meet, so the target stays as it is.
/// Of the replicas that ran the one that fits the outcome is the next block of drafts.
///
/// A replica runs if the chance that it is the one, times what a block brought in so far, is worth
/// its rows. So the forms of the method follow from what rows cost: all replicas where they are
/// nearly free, the likely ones, one after the text in passes without drafts, or none.
/// Source: TiDAR, arXiv:2511.08923, section 3.2; gated LoRA, arXiv:2507.11851.
class TidarSource final : public SlotSource {
 public:
  /// @param lora  in the target's precision
  explicit TidarSource(std::shared_ptr<const GatedLora> lora,
                       TidarForm form = TidarForm::kMeasured);

  void remember(std::any& memory) override;
  /// The target's own pass makes them.
  std::size_t made() const override { return 0; }
  void companions(const TokenSequence& sequence, const TokenDraft& draft, const RowOffer& offer,
                  CompanionRows& rows) override;
  void earned(SequenceId id) override;
  void observe(const VerifiedDraft& verified) override;
  void forget(SequenceId id) override { texts_.erase(id); }

 private:
  struct Text {
    std::vector<std::int32_t> replicas;  // in the coming pass: after which drafted token
    std::vector<float> block;            // [slots, vocab] logits after the text; or empty
  };
  std::size_t slots_of(const TokenSequence& sequence) override;
  std::span<const float> logits(std::size_t slot) const override;
  bool conditioned() const override { return markov_.w1.defined(); }
  void condition(Token previous, std::span<float> row) const override {
    markov_.add(previous, row);
  }
  void condition(Token previous, std::span<const std::int32_t> columns,
                 std::span<float> logits) const override {
    markov_.add(previous, columns, logits);
  }
  CompanionWorth& worth();
  bool wants(double chance, bool drafted, double price);

  std::shared_ptr<const GatedLora> lora_;
  MarkovHead markov_;
  TidarForm form_;
  std::any own_;
  CompanionWorth* worth_ = nullptr;
  std::unordered_map<SequenceId, Text> texts_;
  const Text* growing_ = nullptr;  // whose tree grows
};

}  // namespace forerun
