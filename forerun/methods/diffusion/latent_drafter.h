#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "forerun/core/latent.h"
#include "forerun/methods/diffusion/dit_target.h"
#include "forerun/methods/paced.h"

namespace forerun {

/// What a predictor remembers of a lane: what the target said of a state that was passed.
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

  /// The mean of each row's transition. Rows are of different lanes; each has a memory, which was
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
class LatentDrafter {
 public:
  static constexpr Planned kPlanned = Planned::kBeforeDrafting;

  /// @param target  referred to
  LatentDrafter(std::shared_ptr<const StepPredictor> predictor, TargetCalls calls,
                DitTarget& target)
      : predictor_(std::move(predictor)), calls_(calls), target_(&target) {}

  /// Lowers `lengths` to what can be drafted; returns the grade of each lane's drafts: their
  /// acceptance depends on how far sampling is more than on anything else.
  std::vector<std::size_t> foresee(std::span<LatentLane* const> lanes,
                                   std::span<std::size_t> lengths) const;
  /// @param lengths  states to draft; kTwo: the first of them is drawn from the target
  std::vector<LatentDraft> propose(std::span<LatentLane* const> lanes,
                                   std::span<const std::size_t> lengths);
  void observe(std::span<LatentLane* const> lanes, std::span<const LatentDraft> drafts,
               const DitTarget::Verified& verified, std::span<const Outcome> outcomes);

 private:
  // A lane that drafts in this round.
  struct Drafting {
    const LatentLane* lane;
    LatentDraft* draft;
    LatentMemory memory;  // a copy: what is drafted may be discarded
    std::size_t most;
    const Latent& state() const { return draft->size() > 0 ? draft->values.back() : lane->state(); }
  };
  void add(Drafting& d, Latent mean) const;
  void begin_with_a_pass(std::vector<Drafting>& drafting) const;

  std::shared_ptr<const StepPredictor> predictor_;
  TargetCalls calls_;
  DitTarget* target_;
  std::map<std::uint32_t, LatentMemory> memories_;  // by request
  std::vector<Latent> before_;                      // each lane's state as the round began
};

/// The same with somebody who says how many states each lane drafts.
using PacedLatentDrafter = Paced<LatentDrafter, LatentLane, LatentDraft>;

/// @param slots     states that a verifying pass scores for a lane, 1 or more (kTwo: besides the
/// state it begins with): the paper's L
/// @param adaptive  fewer where that is faster; none, if need be
PacedLatentDrafter paced(LatentDrafter drafter, TargetCalls calls, std::size_t slots,
                         bool adaptive);

}  // namespace forerun
