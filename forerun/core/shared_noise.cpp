#include "forerun/core/shared_noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "forerun/core/internal/exp.h"
#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

constexpr std::size_t kTile = 64;  // tokens a tile: 16 Philox calls, laid out to vectorise
constexpr std::size_t kCalls = kTile / 4;

// Word j of call c is the coarse noise of token 4c + j within the tile.
void coarse_noise(const RngKey& key, std::uint32_t first_call,
                  std::array<std::uint32_t, kTile>& out) {
  std::array<std::uint32_t, kCalls> c0, c1, c2, c3;
  const auto base = key.counter(Purpose::kSharedNoise, 0);
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    c0[i] = base[0] | (first_call + i);
    c1[i] = base[1];
    c2[i] = base[2];
    c3[i] = base[3];
  }
  auto philox_key = key.philox_key();
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (std::size_t i = 0; i < kCalls; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53U} * c0[i];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c2[i];
      c0[i] = static_cast<std::uint32_t>(b >> 32) ^ c1[i] ^ philox_key[0];
      c1[i] = static_cast<std::uint32_t>(b);
      c2[i] = static_cast<std::uint32_t>(a >> 32) ^ c3[i] ^ philox_key[1];
      c3[i] = static_cast<std::uint32_t>(a);
    }
    philox_key[0] += 0x9E3779B9U;
    philox_key[1] += 0xBB67AE85U;
  }
  for (std::size_t i = 0; i < kCalls; ++i) {
    out[4 * i] = c0[i];
    out[4 * i + 1] = c1[i];
    out[4 * i + 2] = c2[i];
    out[4 * i + 3] = c3[i];
  }
}

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
  std::array<std::uint32_t, kTile> noise;
  std::array<double, kTile> weight;
  Race race;
  for (std::size_t tile = 0; tile < w.size(); tile += kTile) {
    const std::size_t n = std::min(kTile, w.size() - tile);
    coarse_noise(key, static_cast<std::uint32_t>(tile / 4), noise);
#pragma omp simd
    for (std::size_t i = 0; i < n; ++i) {
      weight[i] = internal::exp_nonpositive(static_cast<double>(w[tile + i]) - max);
    }
    // e >= t >= coarse / 2^32, so a token whose coarse noise is already too large cannot come first
    // or second.
    const double bar = race.second * 0x1p32;
    unsigned any = 0;
#pragma omp simd reduction(| : any)
    for (std::size_t i = 0; i < n; ++i) {
      any |= static_cast<unsigned>(static_cast<double>(noise[i]) <= bar * weight[i] &&
                                   weight[i] > 0.0);
    }
    if (any == 0) continue;
    for (std::size_t i = 0; i < n; ++i) {
      if (!(weight[i] > 0.0) || noise[i] > race.second * 0x1p32 * weight[i]) continue;
      const auto t = static_cast<std::uint32_t>(tile + i);
      race.enter(static_cast<Token>(t), exponential(key, t, noise[i]) / weight[i]);
    }
  }
  return {race.token, std::log(race.second) - std::log(race.best)};
}

}  // namespace forerun
