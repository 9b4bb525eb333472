#include "forerun/methods/asd/asd_predictor.h"

#include <ATen/core/Tensor.h>

namespace forerun {

void AsdPredictor::anchor(LatentMemory& memory, std::size_t step, const Latent& state,
                          const at::Tensor& noise, const at::Tensor&) const {
  const DdpmStep& s = schedule_->step(static_cast<std::int64_t>(step));
  memory.frozen.resize(state.size());
  ddpm_predicted_x0(s, state, values_of(noise), memory.frozen);
}

std::vector<Latent> AsdPredictor::means(const LatentRows& rows,
                                        std::span<LatentMemory* const> memories) const {
  std::vector<Latent> out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const DdpmStep& s = schedule_->step(static_cast<std::int64_t>(rows.steps[r]));
    const Latent &x = *rows.states[r], &image = memories[r]->frozen;
    Latent mean(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      mean[i] = static_cast<float>(s.posterior_x0 * static_cast<double>(image[i]) +
                                   s.posterior_x * static_cast<double>(x[i]));
    }
    out.push_back(std::move(mean));
  }
  return out;
}

}  // namespace forerun
