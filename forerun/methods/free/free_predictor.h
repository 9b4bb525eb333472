#pragma once

#include <memory>

#include "forerun/methods/diffusion/step_predictor.h"
#include "forerun/models/free/guided_free.h"

namespace forerun {

/// FREE (arXiv:2511.20390, section 3.2): one block on the target's feature of the previous step,
/// then on its own.
class FreePredictor final : public StepPredictor {
 public:
  /// `target` gives schedule, labels and guidance; kept by reference.
  FreePredictor(GuidedFree network, const DitTarget& target)
      : network_(std::move(network)), target_(&target) {}

  void anchor(LatentMemory& memory, std::size_t step, const Latent& state, const at::Tensor& noise,
              const at::Tensor& feature) const override;
  std::vector<Latent> means(const LatentRows& rows,
                            std::span<LatentMemory* const> memories) const override;

 private:
  at::Tensor fresh_noise(const LatentRows& rows, std::span<LatentMemory* const> memories) const;
  void add_frozen(const LatentRows& rows, std::span<LatentMemory* const> memories,
                  const at::Tensor& noise) const;

  GuidedFree network_;
  const DitTarget* target_;
};

}  // namespace forerun
