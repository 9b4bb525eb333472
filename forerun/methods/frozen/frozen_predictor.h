#pragma once

#include "forerun/methods/diffusion/step_predictor.h"

namespace forerun {

/// The frozen target draft (De Bortoli et al. 2025, arXiv:2501.05370, section 4): the target's
/// drift stays constant.
class FrozenPredictor final : public StepPredictor {
 public:
  explicit FrozenPredictor(const DdpmSchedule& schedule) : schedule_(&schedule) {}
  void anchor(LatentMemory& memory, std::size_t step, const Latent& state, const at::Tensor& noise,
              const at::Tensor& feature) const override;
  std::vector<Latent> means(const LatentRows& rows,
                            std::span<LatentMemory* const> memories) const override;

 private:
  const DdpmSchedule* schedule_;
};

}  // namespace forerun
