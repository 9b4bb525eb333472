#include "forerun/methods/frozen/frozen_predictor.h"

#include <ATen/core/Tensor.h>

namespace forerun {

// Drift of a unit of noise: (mean - state) / beta.
void FrozenPredictor::anchor(LatentMemory& memory, std::size_t step, const Latent& state,
                             const at::Tensor& noise, const at::Tensor&) const {
  const DdpmStep& s = schedule_->step(static_cast<std::int64_t>(step));
  const auto eps = values_of(noise);
  memory.frozen.resize(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    memory.frozen[i] = static_cast<float>(((s.mean_x - 1.0) * static_cast<double>(state[i]) +
                                           s.mean_noise * static_cast<double>(eps[i])) /
                                          s.beta);
  }
}

std::vector<Latent> FrozenPredictor::means(const LatentRows& rows,
                                           std::span<LatentMemory* const> memories) const {
  std::vector<Latent> out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const double beta = schedule_->step(static_cast<std::int64_t>(rows.steps[r])).beta;
    const Latent &x = *rows.states[r], &drift = memories[r]->frozen;
    Latent mean(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      mean[i] =
          static_cast<float>(static_cast<double>(x[i]) + beta * static_cast<double>(drift[i]));
    }
    out.push_back(std::move(mean));
  }
  return out;
}

}  // namespace forerun
