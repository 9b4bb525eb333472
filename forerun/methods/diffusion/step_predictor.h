#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "forerun/core/latent.h"
#include "forerun/methods/diffusion/dit_target.h"

namespace forerun {

/// A predictor's memory of a sample: the target's output for an earlier state.
struct LatentMemory {
  at::Tensor feature;  ///< [halves, tokens, hidden]; a predictor may put its own in place
  Latent frozen;       ///< the constant quantity of the method
  Latent mean;         ///< of the Gaussian that the next state was drawn from
};

/// Predicts the means of transitions that the target has not scored.
class StepPredictor {
 public:
  virtual ~StepPredictor() = default;

  /// Receives the target's output for a state: always the last one from which an output was made.
  /// @param noise    [channels, input, input]
  /// @param feature  [halves, tokens, hidden]
  virtual void anchor(LatentMemory& memory, std::size_t step, const Latent& state,
                      const at::Tensor& noise, const at::Tensor& feature) const = 0;

  /// The mean of each row's transition. Rows are of different samples; each has an anchored memory,
  /// which is used for the following step next.
  virtual std::vector<Latent> means(const LatentRows& rows,
                                    std::span<LatentMemory* const> memories) const = 0;
};

}  // namespace forerun
