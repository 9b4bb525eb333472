#include "forerun/methods/free/free_predictor.h"

#include <ATen/ATen.h>

namespace forerun {

void FreePredictor::anchor(LatentMemory& memory, std::size_t, const Latent&, const at::Tensor&,
                           const at::Tensor& feature) const {
  memory.feature = feature.clone();  // not the whole pass's
}

std::vector<Latent> FreePredictor::means(const LatentRows& rows,
                                         std::span<LatentMemory* const> memories) const {
  const FreeNetwork& n = *network_;
  const DdpmSchedule& schedule = target_->schedule();
  const DitInputs in = inputs_of(rows, n.config, schedule, target_->labels());
  std::vector<at::Tensor> features;
  for (const LatentMemory* m : memories) features.push_back(m->feature);
  const GuidedOutput out = run_halves(
      n.config, in.rows(), target_->model().guidance(), at::stack(features),
      [&](const at::Tensor& state, const at::Tensor& time, const at::Tensor& label,
          const at::Tensor& feature) { return run_free(n, state, feature, time, label); });
  for (std::size_t i = 0; i < memories.size(); ++i) {
    memories[i]->feature = out.feature[static_cast<std::int64_t>(i)];
  }
  return means_of(rows, out.noise, schedule);
}

std::vector<Latent> TargetPredictor::means(const LatentRows& rows,
                                           std::span<LatentMemory* const>) const {
  return target_->score(rows).means;
}

}  // namespace forerun
