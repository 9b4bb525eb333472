#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/latent.h"
#include "forerun/core/speculate.h"
#include "forerun/models/ddpm_schedule.h"
#include "forerun/models/dit/guided_dit.h"

namespace forerun {

/// States of some samples that one pass scores.
struct LatentRows {
  std::vector<const LatentSample*> samples;
  std::vector<const Latent*> states;
  std::vector<std::size_t> steps;  ///< the transition each state is to make

  void add(const LatentSample& sample, const Latent& state, std::size_t step) {
    samples.push_back(&sample);
    states.push_back(&state);
    steps.push_back(step);
  }
  std::size_t size() const noexcept { return states.size(); }
};

/// Output of a pass for such rows.
struct LatentScores {
  GuidedOutput output;
  std::vector<Latent> means;
};

/// A Diffusion Transformer and its schedule, as the target of the loop. It has no state between
/// rounds.
class DitTarget {
 public:
  /// Keeps references to all arguments.
  DitTarget(const GuidedDit& model, const DdpmSchedule& schedule)
      : model_(&model), schedule_(&schedule) {}

  /// The conditionals of each sample's next transitions.
  class Verified {
   public:
    Gaussian at(std::size_t sample, std::size_t step) const {
      const std::size_t row = first_[sample] + step;
      return {scores_.means[row], sigmas_[row]};
    }
    /// Predicted noise, [channels, input, input], and feature, [halves, tokens, hidden], of the
    /// state before that transition.
    at::Tensor noise(std::size_t sample, std::size_t step) const;
    at::Tensor feature(std::size_t sample, std::size_t step) const;

   private:
    friend class DitTarget;
    std::vector<std::size_t> first_;  // row of each sample
    std::vector<double> sigmas_;
    LatentScores scores_;
  };

  Verified verify(std::span<LatentSample* const> samples, const std::vector<LatentDraft>& drafts);
  void keep(std::span<LatentSample* const>, const std::vector<LatentDraft>&,
            std::span<const Outcome>) const {}

  /// One pass over any states.
  LatentScores score(const LatentRows& rows);

  const GuidedDit& model() const noexcept { return *model_; }
  const DdpmSchedule& schedule() const noexcept { return *schedule_; }
  std::uint64_t passes() const noexcept { return passes_; }  ///< so far
  std::uint64_t states() const noexcept { return states_; }  ///< scored by them

 private:
  const GuidedDit* model_;
  const DdpmSchedule* schedule_;
  std::uint64_t passes_ = 0, states_ = 0;
};

/// [rows, channels, input, input] of these rows, and the network's other inputs.
struct DitInputs {
  at::Tensor states;
  std::vector<std::int64_t> times, labels;
  DitRows rows() const { return {states, times, labels}; }
};
DitInputs inputs_of(const LatentRows& rows, const DitConfig& config, const DdpmSchedule& schedule);
/// Of every row, from its state and predicted noise.
std::vector<Latent> means_of(const LatentRows& rows, const at::Tensor& noise,
                             const DdpmSchedule& schedule);
/// A tensor's numbers, float32 and contiguous.
std::span<const float> values_of(const at::Tensor& x);

}  // namespace forerun
