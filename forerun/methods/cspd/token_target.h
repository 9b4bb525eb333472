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

/// A causal MAR as the target of the loop: one pass of its backbone verifies the drafts of all
/// samples.
class TokenTarget {
 public:
  /// @param couples  the drafts are the target's own (SelfDrafter): every slot's chain is coupled
  /// with its former one, those after a rejected one too, in one sweep over the inner steps
  explicit TokenTarget(MarChains::Setting setting, bool couples = false)
      : model_(std::move(setting)), couples_(couples) {}

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

/// How many of the sample's tokens a model has read rightly that also read the drafts: those before
/// the first draft that was not emitted as it is.
std::size_t read_rightly(const ChainSample& sample, const ChainDraft& draft,
                         const Outcome& outcome);

}  // namespace forerun
