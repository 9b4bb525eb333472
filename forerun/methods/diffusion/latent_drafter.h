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

namespace forerun {

/// What a predictor remembers of a sample: what the target said of a state that was passed.
struct LatentMemory {
  at::Tensor feature;  ///< [halves, tokens, hidden]; a predictor may put its own in place
  Latent frozen;       ///< what stays as it was, by the method
  Latent mean;         ///< of the Gaussian that the state which comes next was drawn from
};

/// Guesses the means of transitions that the target has not scored.
class StepPredictor {
 public:
  virtual ~StepPredictor() = default;

  /// Told what the target said of a state: the last one from which an output was made, always.
  /// @param noise    [channels, input, input]
  /// @param feature  [halves, tokens, hidden]
  virtual void anchor(LatentMemory& memory, std::size_t step, const Latent& state,
                      const at::Tensor& noise, const at::Tensor& feature) const = 0;

  /// The mean of each row's transition. Rows are of different samples; each has a memory, which was
  /// anchored, and is used for the following step next.
  virtual std::vector<Latent> means(const LatentRows& rows,
                                    std::span<LatentMemory* const> memories) const = 0;
};

/// How a round calls the target.
enum class TargetCalls : std::uint8_t {
  kOne,  ///< the verifying pass also says what the next drafts begin with
  /// A pass of its own before drafting, whose transition is a draft that is always kept: the
  /// papers' form.
  kTwo,
};

/// Drafts with a predictor: each guess is drawn from its Gaussian, and the next made from there.
///
/// What a pass said of states that were then discarded is not lost. Behind a rejected draft the
/// same noise leads to nearly the same states again, where the predictor errs as it did there: its
/// guess is corrected by the error that it was seen to make. The law is kept: a corrected mean
/// depends on the noise of earlier transitions only, never on that of its own, and whatever mean a
/// draft was drawn with, the coupling makes it exact.
class LatentDrafter {
 public:
  /// @param target  referred to
  /// @param reuses  guesses are corrected
  LatentDrafter(std::shared_ptr<const StepPredictor> predictor, TargetCalls calls,
                DitTarget& target, bool reuses)
      : predictor_(std::move(predictor)), calls_(calls), target_(&target), reuses_(reuses) {}

  /// What can be drafted. The confidence_bin is how far sampling is: acceptance depends on that
  /// more than on anything else.
  std::vector<SequencePlan> plan(std::span<LatentSample* const> samples,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const;
  /// @param lengths  states to draft; kTwo: the first of them is drawn from the target
  std::vector<LatentDraft> propose(std::span<LatentSample* const> samples,
                                   std::span<const std::size_t> lengths);
  void observe(std::span<LatentSample* const> samples, std::span<const LatentDraft> drafts,
               const DitTarget::Verified& verified, std::span<const Outcome> outcomes);

 private:
  // A guess, and what it was made with.
  struct Guess {
    LatentMemory memory;
    Latent mean;
  };
  // What a pass said of a state that was discarded.
  struct Reused {
    Guess guess;
    Latent mean;  // the target's
  };
  struct Known {
    LatentMemory memory;
    std::vector<Reused> reused;  // of the sample's next transitions, in order
    LatentMemory behind;         // anchored at the last of them
  };
  // The rows of a sample in a verifying pass: the state it had, then those of its drafts.
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
    LatentMemory memory;  // a copy: what is drafted may be discarded
    std::size_t most;
    const Known* known;           // or null
    std::vector<Guess>* guesses;  // one a draft, if they are reused
    // What is reused of the transition that is drafted next, or null.
    const Reused* reused() const {
      const std::size_t i = draft->size();
      return known != nullptr && i < known->reused.size() ? &known->reused[i] : nullptr;
    }
    const Latent& state() const {
      return draft->size() > 0 ? draft->values.back() : sample->state();
    }
  };
  void add(Drafting& d, Latent mean) const;
  void guess(std::vector<Drafting*>& drafting) const;
  void anchor(LatentMemory& memory, const Passed& passed, std::size_t row) const;
  bool reuse(const Passed& passed, std::size_t newest, Known& known) const;
  void begin_with_a_pass(std::vector<Drafting>& drafting) const;

  std::shared_ptr<const StepPredictor> predictor_;
  TargetCalls calls_;
  DitTarget* target_;
  bool reuses_;
  std::map<std::uint32_t, Known> samples_;   // by request
  std::vector<Latent> before_;               // each sample's state as the round began
  std::vector<std::vector<Guess>> guesses_;  // of each sample in this round
};

/// The same with somebody who says how many states each sample drafts.
using AdaptiveLatentDrafter = AdaptiveDrafter<LatentDrafter, LatentSample, LatentDraft>;

/// @param slots     states that a verifying pass scores for a sample, 1 or more (kTwo: besides the
/// state it begins with): the paper's L
/// @param adaptive  fewer where that is faster; none, if need be
AdaptiveLatentDrafter adaptive(LatentDrafter drafter, TargetCalls calls, std::size_t slots,
                               bool adaptive);

}  // namespace forerun
