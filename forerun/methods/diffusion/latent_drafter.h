#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "forerun/core/latent.h"
#include "forerun/methods/adaptive_drafter.h"
#include "forerun/methods/diffusion/dit_target.h"
#include "forerun/methods/diffusion/step_predictor.h"

namespace forerun {

/// Number of target passes in a round.
enum class TargetCalls : std::uint8_t {
  kOne,  ///< the verifying pass also gives what the next drafts start from
  /// A separate pass before drafting, whose transition is a draft that is always kept: the papers'
  /// form.
  kTwo,
};

/// Drafts with a predictor: each state is drawn from the predicted Gaussian, and the next
/// prediction starts from it.
///
/// Reuses rejected passes. After a rejected draft the same noise leads to nearly the same states,
/// and the predictor makes nearly the same error: its mean is corrected by the error seen there.
/// The law is kept: a corrected mean depends on the noise of earlier transitions only, never on its
/// own, and the coupling makes any mean exact.
class LatentDrafter {
 public:
  /// @param target  kept by reference
  /// @param reuses  predictions are corrected
  LatentDrafter(std::shared_ptr<const StepPredictor> predictor, TargetCalls calls,
                DitTarget& target, bool reuses)
      : predictor_(std::move(predictor)), calls_(calls), target_(&target), reuses_(reuses) {}

  /// The possible drafts. The confidence_bin is the progress of sampling, on which acceptance
  /// depends most.
  std::vector<SequencePlan> plan(std::span<LatentSample* const> samples,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const;
  /// @param lengths  states to draft; kTwo: the first of them is drawn from the target
  std::vector<LatentDraft> propose(std::span<LatentSample* const> samples,
                                   std::span<const std::size_t> lengths);
  void observe(std::span<LatentSample* const> samples, std::span<const LatentDraft> drafts,
               const DitTarget::Verified& verified, std::span<const Outcome> outcomes);
  void forget(SequenceId id) { samples_.erase(id); }

 private:
  // A predicted mean, and the memory it was made with.
  struct Prediction {
    LatentMemory memory;
    Latent mean;
  };
  // The output of a pass for a discarded state.
  struct Reused {
    Prediction prediction;
    Latent mean;  // the target's
  };
  struct SampleMemory {
    LatentMemory memory;
    std::vector<Reused> reused;  // of the sample's next transitions, in order
    LatentMemory after_last;     // anchored at the last of them
  };
  // The rows of a sample in a verifying pass: its state, then those of its drafts.
  struct Passed {
    const DitTarget::Verified& verified;
    std::size_t sample;
    const LatentDraft& draft;
    const Latent& before;
    std::size_t first;  // transition of the first row
    const Latent& state(std::size_t row) const { return row == 0 ? before : draft.values[row - 1]; }
  };
  // A sample that drafts in this round.
  struct Drafting {
    const LatentSample* sample;
    LatentDraft* draft;
    LatentMemory memory;  // a copy: drafts may be discarded
    std::size_t most;
    const SampleMemory* own;               // or null
    std::vector<Prediction>* predictions;  // one a draft, if they are reused
    // The reused prediction of the transition that is drafted next, or null.
    const Reused* reused() const {
      const std::size_t i = draft->size();
      return own != nullptr && i < own->reused.size() ? &own->reused[i] : nullptr;
    }
    const Latent& state() const {
      return draft->size() > 0 ? draft->values.back() : sample->state();
    }
  };
  void add(Drafting& d, Latent mean) const;
  void predict(std::vector<Drafting*>& drafting) const;
  void anchor(LatentMemory& memory, const Passed& passed, std::size_t row) const;
  bool reuse(const Passed& passed, std::size_t newest, SampleMemory& own) const;
  void begin_with_a_pass(std::vector<Drafting>& drafting) const;

  std::shared_ptr<const StepPredictor> predictor_;
  TargetCalls calls_;
  DitTarget* target_;
  bool reuses_;
  std::map<SequenceId, SampleMemory> samples_;
  std::vector<Latent> before_;                        // each sample's state as the round began
  std::vector<std::vector<Prediction>> predictions_;  // of each sample in this round
};

/// The same with an adaptive number of states.
using AdaptiveLatentDrafter = AdaptiveDrafter<LatentDrafter, LatentSample, LatentDraft>;

/// @param slots     states that a verifying pass scores for a sample, at least 1 (kTwo: not
/// counting the first state): the paper's L
/// @param adaptive  fewer if that is faster, or none
AdaptiveLatentDrafter adaptive(LatentDrafter drafter, TargetCalls calls, std::size_t slots,
                               bool adaptive);

}  // namespace forerun
