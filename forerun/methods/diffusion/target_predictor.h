#pragma once

#include "forerun/methods/diffusion/step_predictor.h"

namespace forerun {

/// The target as its own drafter: every draft is kept. For tests and as the ceiling of a table.
class TargetPredictor final : public StepPredictor {
 public:
  explicit TargetPredictor(DitTarget& target) : target_(&target) {}
  void anchor(LatentMemory&, std::size_t, const Latent&, const at::Tensor&,
              const at::Tensor&) const override {}
  std::vector<Latent> means(const LatentRows& rows, std::span<LatentMemory* const>) const override {
    return target_->score(rows).means;
  }

 private:
  DitTarget* target_;
};

}  // namespace forerun
