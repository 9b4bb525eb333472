#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/hit_rates.h"
#include "forerun/methods/text/companion_rows.h"
#include "forerun/methods/text/draft_picker.h"
#include "forerun/methods/text/verified_tokens.h"
#include "forerun/methods/tidar/tidar_blocks.h"

namespace forerun {

/// Chains of drafts from blocks of mask rows, token by token from the slots' laws: what rules with
/// a ratio need. Each token is drawn given the one before it if the adapters have a Markov head.
/// Source: TiDAR, arXiv:2511.08923, section 3.2; the ratio test of maximal instead of its matching.
class TidarDrafter {
 public:
  /// @param form, mix  as TidarBlocks
  explicit TidarDrafter(std::shared_ptr<const GatedLora> lora,
                        TidarForm form = TidarForm::kMeasured, const TidarMix& mix = {});

  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most, const DraftLength& control);
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths);
  /// The replicas of the pass, at the prices of the controller that planned the drafts.
  void add_companions(std::span<TokenSequence* const> sequences, std::span<const TokenDraft> drafts,
                      DraftLength& control);
  std::span<const CompanionRows> companions() const { return companions_; }
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft> drafts,
               const VerifiedTokens& verified, std::span<const Outcome> outcomes);
  void forget(SequenceId id) {
    blocks_.forget(id);
    expected_.erase(id);
  }

 private:
  void fill(const TokenSequence& sequence, std::size_t length, TokenDraft& draft);
  static HitRates::Cell cell(std::size_t position) noexcept;

  static constexpr std::size_t kPositions = 32;  // later drafts count as the last
  static constexpr double kPriorKept = 0.5;

  TidarBlocks blocks_;
  HitRates kept_{kPositions, std::span(&kPriorKept, 1)};  // P(kept | examined) of each position
  std::vector<CompanionRows> companions_;
  std::unordered_map<SequenceId, std::size_t> expected_;  // companion rows, as in the round before
  DraftPicker picker_;
  std::vector<float> row_;
};

}  // namespace forerun
