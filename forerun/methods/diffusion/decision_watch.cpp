#include "forerun/methods/diffusion/decision_watch.h"

#include <algorithm>
#include <bit>

#include "forerun/core/rng_key.h"

namespace forerun {

bool StepDecision::same(const StepDecision& other) const noexcept {
  const auto equal = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  return round == other.round && drafted == other.drafted &&
         std::equal(mean.begin(), mean.end(), other.mean.begin(), other.mean.end(), equal);
}

std::set<DecisionWatch::Place> seeded_places(std::uint64_t seed, std::uint32_t first,
                                             std::size_t samples, std::size_t steps,
                                             std::size_t count) {
  std::set<DecisionWatch::Place> places;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto request = first + static_cast<std::uint32_t>(i % samples);
    const RngKey key{.seed = seed, .request = request, .position = i};
    const double at = key.uniform(Purpose::kCertificate) * static_cast<double>(steps);
    places.emplace(request, static_cast<std::size_t>(at));
  }
  return places;
}

}  // namespace forerun
