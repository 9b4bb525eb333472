#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/methods/tidar/tidar_rows.h"
#include "forerun/methods/tree/companion_worth.h"
#include "forerun/methods/tree/slot_candidates.h"
#include "forerun/methods/tree/tree_source.h"
#include "forerun/models/markov_head.h"

namespace forerun {

/// Another law for the outputs: that of beta times the target's logits and 1 - beta times those of
/// slot 0, which predicts the same output (the paper's trust in AR or in diffusion). It needs a
/// replica for every number of kept drafts, so the form is kFused and a draft a chain.
struct TidarMix {
  double beta = 1.0;  ///< 1: the target's own law
  /// Of the decoder, in positions: outputs whose block does not fit in have the target's own law.
  std::int64_t context = 0;
};

/// The blocks of drafts of texts whose mask rows run in the target's own passes: which replicas a
/// pass gets, and of those that ran the one that fits the outcome.
///
/// A replica runs if the chance that it is the one, times what a block brought in so far, is worth
/// its rows. So the forms of the method follow from what rows cost: all replicas where they are
/// nearly free, the likely ones, one after the text in passes without drafts, or none.
/// Source: TiDAR, arXiv:2511.08923, section 3.2; gated LoRA, arXiv:2507.11851.
class TidarBlocks {
 public:
  /// What of a block is kept for the next round: all logits, or the likeliest tokens.
  enum class Kept : std::uint8_t { kRows, kLikeliest };
  /// @param lora  in the target's precision, by `in_precision`
  /// @throws std::invalid_argument  a mix with another form, without a slot 0, or with a Markov
  /// head
  TidarBlocks(std::shared_ptr<const GatedLora> lora, TidarForm form, Kept kept,
              const TidarMix& mix = {});

  const GatedLora& lora() const noexcept { return *lora_; }
  /// Outputs do not follow the target's own law.
  bool mixes() const noexcept { return mix_.beta < 1.0; }
  const MarkovHead& markov() const noexcept { return *lora_->markov; }
  /// What it learns lives in `memory`, which outlives it; empty the first time.
  void remember(std::any& memory);

  /// Drafts that the text's block has: 0, there is none, or B - 1.
  std::size_t drafts(SequenceId id) const;
  /// [vocab] float32 logits of the block's draft `i`, without the Markov head, of kept rows.
  std::span<const float> logits(SequenceId id, std::size_t i) const;
  /// The likeliest tokens by them, else; a shortlist if there is a Markov head.
  const SlotCandidates& likeliest(SequenceId id, std::size_t i) const;

  /// As TreeSource::companions, earned, spent, observe, forget.
  void companions(const TokenSequence& sequence, const TokenDraft& draft, const RowOffer& offer,
                  CompanionRows& rows);
  void earned(SequenceId id) { worth().earned(texts_[id].worth); }
  void spent(SequenceId id, double outputs) { worth().spent(texts_[id].worth, outputs); }
  void observe(const VerifiedDraft& verified);
  void forget(SequenceId id) { texts_.erase(id); }

 private:
  struct Text {
    std::vector<std::int32_t> replicas;  // in the coming pass: after which drafted token
    // After the text; empty if there is no block.
    std::vector<float> rows;                // [drafts, vocab] logits
    std::vector<SlotCandidates> likeliest;  // [drafts]
    CompanionWorth::Text worth;
  };
  CompanionWorth& worth();
  void keep(std::span<const float> logits, const TokenSequence& sequence, Text& text) const;
  bool fits(const TokenSequence& sequence, std::int32_t after) const noexcept;
  void mix(const TokenDraft& draft, const Text& text, CompanionRows& rows) const;
  std::int64_t first_wanted() const noexcept { return mixes() ? 0 : 1; }
  bool wants(const Text& text, double chance, bool drafted, double price);

  std::shared_ptr<const GatedLora> lora_;
  TidarForm form_;
  Kept kept_;
  TidarMix mix_;
  std::any own_;
  CompanionWorth* worth_ = nullptr;
  std::unordered_map<SequenceId, Text> texts_;
};

}  // namespace forerun
