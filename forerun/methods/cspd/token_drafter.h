#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/chain_sample.h"
#include "forerun/methods/adaptive_drafter.h"
#include "forerun/methods/cspd/token_target.h"

namespace forerun {

/// What proposes tokens with a diffusion head.
class TokenDrafter {
 public:
  virtual ~TokenDrafter() = default;
  /// Exactly so many tokens of each sample.
  virtual std::vector<ChainDraft> propose(std::span<ChainSample* const> samples,
                                          std::span<const std::size_t> lengths) = 0;
  virtual void observe(std::span<ChainSample* const> samples, std::span<const ChainDraft> drafts,
                       const VerifiedChains& verified, std::span<const Outcome> outcomes) = 0;
  virtual void forget(SequenceId id) = 0;
};

/// One of them, as AdaptiveDrafter holds it.
class AnyTokenDrafter {
 public:
  /// @param prefill  tokens that the target makes alone before any are drafted
  AnyTokenDrafter(std::unique_ptr<TokenDrafter> drafter, std::size_t prefill)
      : drafter_(std::move(drafter)), prefill_(prefill) {}

  /// The possible drafts. The confidence_bin is the place in the image: what is drafted well, such
  /// as a background, lies in the same places of most images.
  std::vector<SequencePlan> plan(std::span<ChainSample* const> samples,
                                 std::span<const std::size_t> most, const DraftLength&) const {
    std::vector<SequencePlan> out;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const ChainSample& s = *samples[i];
      out.push_back({.id = s.id(),
                     .limit = s.step() < prefill_ ? 0 : most[i],
                     .confidence_bin = s.step() * kConfidenceBins / s.steps()});
    }
    return out;
  }
  std::vector<ChainDraft> propose(std::span<ChainSample* const> samples,
                                  std::span<const std::size_t> lengths) {
    return drafter_->propose(samples, lengths);
  }
  void observe(std::span<ChainSample* const> samples, std::span<const ChainDraft> drafts,
               const VerifiedChains& verified, std::span<const Outcome> outcomes) {
    drafter_->observe(samples, drafts, verified, outcomes);
  }
  void forget(SequenceId id) { drafter_->forget(id); }

 private:
  std::unique_ptr<TokenDrafter> drafter_;
  std::size_t prefill_;
};

using AdaptiveTokenDrafter = AdaptiveDrafter<AnyTokenDrafter, ChainSample, ChainDraft>;

/// Drafts with a smaller model of the same tokens: its own backbone and head, from the same start
/// and with the same noise as the target ("trajectory alignment").
/// Source: CSpD, Wang et al. 2024, arXiv:2411.11925.
class ModelTokenDrafter final : public TokenDrafter {
 public:
  /// @param noiseless_end  a drafted token is the mean of its last inner step, as the published
  /// sampler ends: for the published rules, and one reason why they are inexact
  explicit ModelTokenDrafter(MarChains::Setting setting, bool noiseless_end = false)
      : model_(std::move(setting)), noiseless_end_(noiseless_end) {}
  std::vector<ChainDraft> propose(std::span<ChainSample* const> samples,
                                  std::span<const std::size_t> lengths) override;
  void observe(std::span<ChainSample* const> samples, std::span<const ChainDraft> drafts,
               const VerifiedChains& verified, std::span<const Outcome> outcomes) override;
  void forget(SequenceId id) override { model_.forget(id); }

 private:
  MarChains model_;
  bool noiseless_end_;
};

/// Drafts with the target itself, by coupled Jacobi iteration: a window of tokens ahead, each
/// redrawn in every round under the condition that the tokens before it now give, coupled with its
/// former chain. A token that does not change lets the next one count. TokenTarget couples them in
/// its pass; this keeps the window.
///
/// The law of the image is the target's: given the randomness of all earlier places, a slot's chain
/// always has the law of its newest condition (the coupling turns the former one into it with fresh
/// numbers), and the round that emits it depends on earlier places only.
class SelfTokenDrafter final : public TokenDrafter {
 public:
  /// @param model  the target's, kept by reference
  explicit SelfTokenDrafter(const MarChains& model) : model_(&model) {}
  /// The slots of the window: chains of former rounds, and guesses where there is none yet.
  std::vector<ChainDraft> propose(std::span<ChainSample* const> samples,
                                  std::span<const std::size_t> lengths) override;
  void observe(std::span<ChainSample* const> samples, std::span<const ChainDraft> drafts,
               const VerifiedChains& verified, std::span<const Outcome> outcomes) override;
  void forget(SequenceId id) override { windows_.erase(id); }

 private:
  struct Slot {
    ChainPath path;
    ChainDraft::Condition condition;
  };
  const MarChains* model_;
  std::map<SequenceId, std::vector<Slot>> windows_;  // from the next token on
};

}  // namespace forerun
