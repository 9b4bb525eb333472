#include "forerun/methods/diffusion/dit_target.h"

#include <ATen/ATen.h>

#include <cstring>

namespace forerun {

std::span<const float> values_of(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), static_cast<std::size_t>(x.numel())};
}

DitInputs inputs_of(const LatentRows& rows, const DitConfig& c, const DdpmSchedule& schedule) {
  DitInputs out;
  const auto n = static_cast<std::int64_t>(rows.size());
  out.states = at::empty({n, c.channels, c.input, c.input}, at::kFloat);
  auto* to = out.states.mutable_data_ptr<float>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Latent& state = *rows.states[i];
    std::memcpy(to + i * state.size(), state.data(), state.size() * sizeof(float));
    out.times.push_back(schedule.step(static_cast<std::int64_t>(rows.steps[i])).time);
    out.labels.push_back(rows.samples[i]->label());
  }
  return out;
}

std::vector<Latent> means_of(const LatentRows& rows, const at::Tensor& noise,
                             const DdpmSchedule& schedule) {
  std::vector<Latent> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Latent& x = *rows.states[i];
    Latent mean(x.size());
    ddpm_mean(schedule.step(static_cast<std::int64_t>(rows.steps[i])), x,
              values_of(noise[static_cast<std::int64_t>(i)]), mean);
    out.push_back(std::move(mean));
  }
  return out;
}

at::Tensor DitTarget::Verified::noise(std::size_t sample, std::size_t step) const {
  return scores_.output.noise[static_cast<std::int64_t>(first_[sample] + step)];
}

at::Tensor DitTarget::Verified::feature(std::size_t sample, std::size_t step) const {
  return scores_.output.feature[static_cast<std::int64_t>(first_[sample] + step)];
}

LatentScores DitTarget::score(const LatentRows& rows) {
  const DitInputs in = inputs_of(rows, model_->config(), *schedule_);
  ++passes_;
  states_ += rows.size();
  LatentScores out{.output = model_->run(in.rows()), .means = {}};
  out.means = means_of(rows, out.output.noise, *schedule_);
  return out;
}

DitTarget::Verified DitTarget::verify(std::span<LatentSample* const> samples,
                                      const std::vector<LatentDraft>& drafts) {
  Verified out;
  LatentRows rows;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const LatentSample& sample = *samples[i];
    out.first_.push_back(rows.size());
    rows.add(sample, sample.state(), sample.step());
    for (std::size_t j = 0; j < drafts[i].size(); ++j) {
      rows.add(sample, drafts[i].values[j], sample.step() + j + 1);
    }
  }
  for (const std::size_t k : rows.steps) {
    out.sigmas_.push_back(schedule_->step(static_cast<std::int64_t>(k)).sigma);
  }
  out.scores_ = score(rows);
  return out;
}

}  // namespace forerun
