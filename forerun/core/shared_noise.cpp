#include "forerun/core/shared_noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "forerun/core/block_maxima.h"
#include "forerun/core/internal/exp.h"
#include "forerun/core/internal/vocabulary_loops.h"
#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

constexpr float kLikely = 4.0F;                // nats below the likeliest token
constexpr double kAboveRounding = 1.0 + 1e-9;  // exp need not be monotone in its last bits

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
  const std::vector<float> maxima = block_maxima(w, internal::kNoiseTile);
  const auto enter_tile = [&](std::size_t tile) {
    const std::size_t first = tile * internal::kNoiseTile;
    const std::size_t n = std::min(internal::kNoiseTile, w.size() - first);
    const double most =
        kAboveRounding * internal::exp_nonpositive(static_cast<double>(maxima[tile]) - max);
    if (!(most > 0.0)) return;
    // e >= t >= coarse / 2^32, so a token whose coarse noise is already too large cannot come first
    // or second.
    if (!internal::noise_tile(w.data(), first, n, max, most, race.second, key, weight, noise)) {
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (!(weight[i] > 0.0) || noise[i] > race.second * 0x1p32 * weight[i]) continue;
      const auto t = static_cast<std::uint32_t>(first + i);
      race.enter(static_cast<Token>(t), exponential(key, t, noise[i]) / weight[i]);
    }
  };
  // Likely tokens first: their times are a bar that few others pass. The order changes no result.
  const auto likely = static_cast<float>(max) - kLikely;
  for (const bool first : {true, false}) {
    for (std::size_t tile = 0; tile < maxima.size(); ++tile) {
      if ((maxima[tile] >= likely) == first) enter_tile(tile);
    }
  }
  return {race.token, std::log(race.second) - std::log(race.best)};
}

}  // namespace forerun
