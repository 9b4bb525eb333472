#include "forerun/methods/free/free_predictor.h"

#include <ATen/ATen.h>

namespace forerun {

void FreePredictor::anchor(LatentMemory& memory, std::size_t step, const Latent& state,
                           const at::Tensor& noise, const at::Tensor& feature) const {
  memory.feature = feature.clone();  // a copy, which does not keep the whole pass alive
  if (!network_.frozen_image()) return;
  memory.frozen.resize(state.size());
  ddpm_predicted_x0(target_->schedule().step(static_cast<std::int64_t>(step)), state,
                    values_of(noise), memory.frozen);
}

// Guidance is linear and its weights sum to 1: what is added with and without the class can be
// guided first, and then added to the constant x0's noise, which comes from guided noise.
void FreePredictor::add_frozen(const LatentRows& rows, std::span<LatentMemory* const> memories,
                               const at::Tensor& noise) const {
  for (std::size_t i = 0; i < memories.size(); ++i) {
    const DdpmStep& step = target_->schedule().step(static_cast<std::int64_t>(rows.steps[i]));
    const Latent& x = *rows.states[i];
    Latent& image = memories[i]->frozen;
    Latent total(x.size());
    ddpm_noise_of(step, x, image, total);
    const auto unit = static_cast<float>(free_unit(step, network_.config()));
    auto* const to = noise[static_cast<std::int64_t>(i)].mutable_data_ptr<float>();
    for (std::size_t d = 0; d < x.size(); ++d) to[d] = total[d] += unit * to[d];
    ddpm_predicted_x0(step, x, total, image);  // for the next step
  }
}

// [rows, channels, input, input]: the noise with which each state was drawn.
at::Tensor FreePredictor::fresh_noise(const LatentRows& rows,
                                      std::span<LatentMemory* const> memories) const {
  const DitConfig& c = network_.config();
  at::Tensor out =
      at::empty({static_cast<std::int64_t>(rows.size()), c.channels, c.input, c.input}, at::kFloat);
  auto* to = out.mutable_data_ptr<float>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto before = static_cast<std::int64_t>(rows.steps[i]) - 1;
    const double sigma = target_->schedule().step(before).sigma;
    const Latent &x = *rows.states[i], &mean = memories[i]->mean;
    for (std::size_t d = 0; d < x.size(); ++d) {
      *to++ =
          static_cast<float>((static_cast<double>(x[d]) - static_cast<double>(mean[d])) / sigma);
    }
  }
  return out;
}

std::vector<Latent> FreePredictor::means(const LatentRows& rows,
                                         std::span<LatentMemory* const> memories) const {
  const DitInputs in = inputs_of(rows, network_.config(), target_->schedule());
  std::vector<at::Tensor> features;
  for (const LatentMemory* m : memories) features.push_back(m->feature);
  const at::Tensor fresh = network_.frozen_image() ? fresh_noise(rows, memories) : at::Tensor();
  const GuidedOutput out =
      network_.run(in.rows(), target_->model().guidance(), at::stack(features), fresh);
  for (std::size_t i = 0; i < memories.size(); ++i) {
    memories[i]->feature = out.feature[static_cast<std::int64_t>(i)];
  }
  if (network_.frozen_image()) add_frozen(rows, memories, out.noise);
  return means_of(rows, out.noise, target_->schedule());
}

}  // namespace forerun
