#pragma once

#include "forerun/methods/diffusion/step_predictor.h"

namespace forerun {

/// Autospeculation (arXiv:2505.03983): the target's predicted x0 stays constant; in the coordinates
/// in which increments are exchangeable this repeats the newest increment.
class AsdPredictor final : public StepPredictor {
 public:
  explicit AsdPredictor(const DdpmSchedule& schedule) : schedule_(&schedule) {}
  void anchor(LatentMemory& memory, std::size_t step, const Latent& state, const at::Tensor& noise,
              const at::Tensor& feature) const override;
  std::vector<Latent> means(const LatentRows& rows,
                            std::span<LatentMemory* const> memories) const override;

 private:
  const DdpmSchedule* schedule_;
};

}  // namespace forerun
