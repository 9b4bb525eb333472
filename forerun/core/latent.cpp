#include "forerun/core/latent.h"

#include "forerun/core/rng_key.h"

namespace forerun {

Latent LatentSample::noise(std::uint64_t seed, std::uint32_t request, std::size_t size) {
  Latent out(size);
  RngKey{.seed = seed, .request = request, .position = UINT32_MAX}.fill_normal(Purpose::kTarget,
                                                                               out);
  return out;
}

RngKey LatentSample::key() const noexcept { return key_at(done_); }

RngKey LatentSample::key_at(std::size_t step) const noexcept {
  const std::uint64_t seed = step < resampled_from_ ? seed_ : resampled_seed_;
  return {seed, request_, round_, static_cast<std::uint32_t>(step)};
}

Coupled<Latent> LatentRule::couple(const Gaussian& target, const LatentDraft& draft,
                                   std::size_t step, const RngKey& key) const {
  const Gaussian from{draft.means[step], target.sigma};
  return couple_relaxed(target, from, draft.values[step], key, relaxation(key.position));
}

Latent LatentRule::draw(const Gaussian& target, const RngKey& key) const {
  return target.sample(Purpose::kTarget, key);
}

}  // namespace forerun
