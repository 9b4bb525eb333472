#include "forerun/core/latent.h"

#include <algorithm>
#include <cmath>

namespace forerun {

Latent LatentSample::noise(std::uint64_t seed, std::uint32_t request, std::size_t size) {
  Latent out(size);
  RngKey{.seed = seed, .request = request, .position = UINT32_MAX}.fill_normal(Purpose::kTarget,
                                                                               out);
  return out;
}

LatentKey LatentSample::key() const noexcept { return key_at(done_); }

LatentKey LatentSample::key_at(std::size_t step) const noexcept {
  const std::uint64_t seed = step < resampled_from_ ? seed_ : resampled_seed_;
  LatentKey key{{seed, request_, round_, static_cast<std::uint32_t>(step)}};
  if (const auto found = renewed_.find(step); found != renewed_.end()) key.renewed = &found->second;
  if (round_ < kept_.size()) key.kept = kept_[round_];
  return key;
}

Latent LatentKey::draw(const Gaussian& law) const {
  return renewed != nullptr ? law.with(*renewed) : law.sample(Purpose::kTarget, *this);
}

namespace {

GaussianStep step_of(const LatentDraft& draft, std::size_t step, const Gaussian& target) {
  return gaussian_step(target, {draft.means[step], target.sigma}, draft.values[step]);
}

}  // namespace

std::optional<Block> LatentRule::decide(const LatentDraft& draft,
                                        const std::function<Gaussian(std::size_t)>& conditional,
                                        const std::function<LatentKey(std::size_t)>& key) const {
  if (!block_ || draft.size() == 0) return std::nullopt;
  std::vector<double> deltas;
  const auto log_weights = block_log_weights(draft.size(), [&](std::size_t step) {
    const GaussianStep s = step_of(draft, step, conditional(step));
    deltas.push_back(s.delta);
    return s.log_ratio;
  });
  if (const auto kept = key(0).kept) {
    return Block{*kept, *kept == 0 ? 1.0 : std::exp(log_weights.at(*kept - 1))};
  }
  return decide_block(
      draft.size(), log_weights,
      [&](std::size_t step) { return key(step).uniform(Purpose::kAccept); },
      [&](std::size_t step, double weight) { return residual_mass(deltas[step], weight); });
}

Coupled<Latent> LatentRule::couple(const Gaussian& target, const LatentDraft& draft,
                                   std::size_t step, const LatentKey& key,
                                   const std::optional<Block>& decided) const {
  const Gaussian from{draft.means[step], target.sigma};
  if (!decided) {
    return couple_relaxed(target, from, draft.values[step], key, relaxation(key.position));
  }
  if (step < decided->accepted) return {draft.values[step], true};
  const GaussianStep s = step_of(draft, step, target);
  if (std::isinf(s.delta)) return {key.draw(target), false};
  // The reflection is the residual's draw here: one draft is decided as without blocks.
  if (decided->weight == 1.0) return reflect(target, from, draft.values[step], 1.0, 1.0);
  const double along = sample_residual(s.delta, decided->weight, key.uniform(Purpose::kResidual));
  return {target.with(noise_along(target, from, draft.values[step], along)), false};
}

Latent LatentRule::draw(const Gaussian& target, const LatentKey& key) const {
  return key.draw(target);
}

void LatentRule::settle(LatentSample& sample, const LatentDraft& draft,
                        const std::function<Gaussian(std::size_t)>& conditional,
                        const Outcome& outcome) const {
  if (!block_) return;
  const std::size_t first = sample.step() - outcome.emitted;
  for (std::size_t step = outcome.accepted; step < draft.size(); ++step) {
    const Gaussian target = conditional(step);
    const double delta = step_of(draft, step, target).delta;
    if (std::isinf(delta)) return;  // P = 0 from here on: no later noise was looked at
    if (step < outcome.emitted || delta == 0.0) continue;
    Latent fresh(1);
    sample.key_at(first + step).fill_normal(Purpose::kResidual, fresh);
    sample.renew(first + step, noise_along(target, {draft.means[step], target.sigma},
                                           draft.values[step], fresh[0]));
  }
}

std::vector<double> LatentRule::keeps(const LatentDraft& draft,
                                      const std::function<Gaussian(std::size_t)>& conditional,
                                      std::size_t count) const {
  std::vector<double> out;
  double log_weight = 0.0;
  for (std::size_t step = 0; step < count; ++step) {
    const GaussianStep s = step_of(draft, step, conditional(step));
    const double weight = std::exp(log_weight);
    out.push_back(std::max(0.0, 1.0 - residual_mass(s.delta, weight) / weight));
    if (block_) log_weight = std::min(0.0, log_weight + s.log_ratio);
  }
  return out;
}

}  // namespace forerun
