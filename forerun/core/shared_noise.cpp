#include "forerun/core/shared_noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "forerun/core/internal/vocabulary_loops.h"
#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

// The exponential e = -log(1 - t), t of 53 bits: 32 coarse ones, the rest from other calls.
double exponential(const RngKey& key, std::uint32_t token, std::uint32_t coarse) {
  constexpr std::uint32_t kFine = 1U << 27;
  const std::uint32_t low = key.words(Purpose::kSharedNoise, kFine | token)[0];
  return -std::log1p(-RngKey::unit(coarse, low));
}

struct Race {
  double best = std::numeric_limits<double>::infinity();
  double second = std::numeric_limits<double>::infinity();
  Token token = 0;

  void enter(Token t, double time) {
    if (time < best || (time == best && t < token)) {
      second = best;
      best = time;
      token = t;
    } else if (time < second) {
      second = time;
    }
  }
};

}  // namespace

double shared_noise(Token token, const RngKey& key) noexcept {
  const auto t = static_cast<std::uint32_t>(token);
  const std::uint32_t coarse = key.words(Purpose::kSharedNoise, t / 4)[t % 4];
  return -std::log(exponential(key, t, coarse));
}

double shared_noise_score(const Categorical& law, Token token, const RngKey& key) noexcept {
  return law.log_prob(token) + shared_noise(token, key);
}

NoiseDraw sample_shared_noise(const Categorical& law, const RngKey& key) {
  const std::span<const float> w = law.log_weights();
  const double max = w[static_cast<std::size_t>(law.argmax())];
  std::array<double, internal::kNoiseTile> weight;
  std::array<std::uint32_t, internal::kNoiseTile> noise;
  Race race;
  for (std::size_t tile = 0; tile < w.size(); tile += internal::kNoiseTile) {
    const std::size_t n = std::min(internal::kNoiseTile, w.size() - tile);
    // e >= t >= coarse / 2^32, so a token whose coarse noise is already too large cannot come first
    // or second.
    if (!internal::noise_tile(w.data(), tile, n, max, race.second, key, weight, noise)) continue;
    for (std::size_t i = 0; i < n; ++i) {
      if (!(weight[i] > 0.0) || noise[i] > race.second * 0x1p32 * weight[i]) continue;
      const auto t = static_cast<std::uint32_t>(tile + i);
      race.enter(static_cast<Token>(t), exponential(key, t, noise[i]) / weight[i]);
    }
  }
  return {race.token, std::log(race.second) - std::log(race.best)};
}

}  // namespace forerun
