#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/chain_sample.h"
#include "forerun/methods/cspd/mar_chains.h"

namespace forerun {

/// The target's conditionals of the drafted tokens, and of the one after them.
struct VerifiedChains {
  std::vector<std::vector<ChainLaw>> laws;                     ///< by sample and step
  std::vector<std::vector<Coupled<ChainToken>>> coupled = {};  ///< in self-drafting: see below

  ChainConditional at(std::size_t sample, std::size_t step) const {
    return {.law = laws[sample].at(step),
            .coupled = coupled.empty() ? nullptr : &coupled[sample].at(step)};
  }
};

/// A MAR as the target of the loop: one pass of the causal form's backbone verifies the drafts of
/// all samples; one of the masked form's gives all tokens of a step.
class TokenTarget {
 public:
  /// @param couples  the drafts are the target's own (SelfDrafter): every slot's chain is coupled
  /// with its former one, those after a rejected one too, in one sweep over the inner steps
  explicit TokenTarget(MarChains::Setting setting, bool couples = false)
      : model_(std::move(setting)), couples_(couples || model_.setting().masked != nullptr) {}

  VerifiedChains verify(std::span<ChainSample* const> samples,
                        const std::vector<ChainDraft>& drafts);
  void keep(std::span<ChainSample* const> samples, const std::vector<ChainDraft>& drafts,
            std::span<const Outcome> outcomes);
  void forget(SequenceId id) { model_.forget(id); }

  MarChains& model() noexcept { return model_; }
  const MarChains& model() const noexcept { return model_; }

 private:
  MarChains model_;
  bool couples_;
};

/// The places of a masked step as the loop's draft: guesses, of which nothing depends and which the
/// pass replaces by the tokens that it draws, all chains of the step side by side.
class MaskedSteps {
 public:
  /// @param model  of the masked form, kept by reference
  explicit MaskedSteps(const MarChains& model) : model_(&model) {}
  std::vector<ChainDraft> propose(std::span<ChainSample* const> samples) const;
  template <class... Seen>
  void observe(const Seen&...) const {}

 private:
  const MarChains* model_;
};

/// How many of the sample's tokens a model has read rightly that also read the drafts: those before
/// the first draft that was not emitted as it is.
std::size_t read_rightly(const ChainSample& sample, const ChainDraft& draft,
                         const Outcome& outcome);

}  // namespace forerun
