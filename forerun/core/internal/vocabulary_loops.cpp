#include "forerun/core/internal/vocabulary_loops.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "forerun/base/vector_clones.h"
#include "forerun/core/internal/exp.h"

namespace forerun::internal {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Partial sums: as many as the widest vectors have, for all processors.
constexpr std::size_t kSums = 8;
using Sums = std::array<double, kSums>;

double total(const Sums& s) noexcept {
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

inline double excess(const Scaled& p, const Scaled& q, std::size_t i) noexcept {
  const double d = exp_nonpositive(static_cast<double>(p.w[i]) - p.max) * p.scale -
                   exp_nonpositive(static_cast<double>(q.w[i]) - q.max) * q.scale;
  return d > 0.0 ? d : 0.0;
}

}  // namespace

FORERUN_VECTOR_CLONES Largest largest(const float* w, std::size_t n) noexcept {
  float best = kNone;
  unsigned nan = 0;
#pragma omp simd reduction(max : best) reduction(| : nan)
  for (std::size_t i = 0; i < n; ++i) {
    best = w[i] > best ? w[i] : best;
    nan |= static_cast<unsigned>(w[i] != w[i]);
  }
  return {best, nan != 0};
}

FORERUN_VECTOR_CLONES void block_maxima(const float* w, std::size_t n, std::size_t block,
                                        float* out) noexcept {
  std::size_t i = 0;
  // The sizes in use, known to the compiler: the maximum of a block stays in registers.
  const auto whole = [&](auto size) {
    for (; i + size() <= n; i += size()) {
      float best = kNone;
      // Parts of a row of logits lie in other cores' caches.
      for (std::size_t j = 0; j < size(); j += 16) __builtin_prefetch(w + i + 768 + j);
#pragma omp simd reduction(max : best)
      for (std::size_t j = 0; j < size(); ++j) best = w[i + j] > best ? w[i + j] : best;
      *out++ = best;
    }
  };
  if (block == 16) whole(std::integral_constant<std::size_t, 16>());
  if (block == 64) whole(std::integral_constant<std::size_t, 64>());
  for (; i < n; i += block) {
    float best = kNone;
    for (std::size_t j = i; j < std::min(n, i + block); ++j) best = w[j] > best ? w[j] : best;
    *out++ = best;
  }
}

FORERUN_VECTOR_CLONES void strided_maxima(const float* w, std::size_t n, std::size_t pieces,
                                          float* out) noexcept {
  std::fill_n(out, pieces, kNone);
  for (std::size_t first = 0; first < n; first += pieces) {
    const std::size_t width = std::min(pieces, n - first);
#pragma omp simd
    for (std::size_t j = 0; j < width; ++j) out[j] = w[first + j] > out[j] ? w[first + j] : out[j];
  }
}

FORERUN_VECTOR_CLONES double exp_sum(const float* w, std::size_t n, double max) noexcept {
  Sums sums{};
  std::size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
#pragma omp simd
    for (std::size_t j = 0; j < kSums; ++j) {
      sums[j] += exp_nonpositive(static_cast<double>(w[i + j]) - max);
    }
  }
  for (std::size_t j = 0; i < n; ++i, ++j) {
    sums[j] += exp_nonpositive(static_cast<double>(w[i]) - max);
  }
  return total(sums);
}

FORERUN_VECTOR_CLONES double weight_between(const Weighted& x, float least, float below) noexcept {
  constexpr std::size_t kFlushed = 16;  // blocks of which float32 holds the sum
  double sum = 0.0;
  std::array<float, kWeighedBlock> sums{};
  std::size_t held = 0;
  const auto flush = [&] {
    for (float& s : sums) {
      sum += static_cast<double>(s);
      s = 0.0F;
    }
    held = 0;
  };
  const std::size_t whole = x.n / kWeighedBlock;
  for (std::size_t b = 0; b < whole; ++b) {
    if (!(x.maxima[b] >= least)) continue;
    const float* w = x.w + b * kWeighedBlock;
#pragma omp simd
    for (std::size_t j = 0; j < kWeighedBlock; ++j) {
      const float e = exp_nonpositive((w[j] - x.best) * x.inverse);
      sums[j] += w[j] >= least && w[j] < below ? e : 0.0F;
    }
    if (++held == kFlushed) flush();
  }
  flush();
  for (std::size_t i = whole * kWeighedBlock; i < x.n; ++i) {
    if (x.w[i] >= least && x.w[i] < below) {
      sum += static_cast<double>(exp_nonpositive((x.w[i] - x.best) * x.inverse));
    }
  }
  return sum;
}

FORERUN_VECTOR_CLONES double excess_sum(const Scaled& p, const Scaled& q, std::size_t begin,
                                        std::size_t end) noexcept {
  Sums sums{};
  std::size_t i = begin;
  for (; i + kSums <= end; i += kSums) {
#pragma omp simd
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += excess(p, q, i + j);
  }
  for (std::size_t j = 0; i < end; ++i, ++j) sums[j] += excess(p, q, i);
  return total(sums);
}

FORERUN_VECTOR_CLONES void scale_logits(float* w, std::size_t n, float max,
                                        double inverse) noexcept {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(static_cast<double>(w[i] - max) * inverse);
    w[i] = x != x ? 0.0F : x;
  }
}

FORERUN_VECTOR_CLONES bool noise_tile(const float* w, std::size_t first, std::size_t n, double max,
                                      double most, double bar, const RngKey& key,
                                      std::array<double, kNoiseTile>& weight,
                                      std::array<std::uint32_t, kNoiseTile>& noise) noexcept {
  constexpr std::size_t kCalls = kNoiseTile / 4;
  std::array<std::uint32_t, kCalls> c0, c1, c2, c3;
  const auto base = key.counter(Purpose::kSharedNoise, 0);
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    c0[i] = base[0] | (static_cast<std::uint32_t>(first / 4) + i);
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
  const double scaled_bar = bar * 0x1p32;
  // Most tiles hold no token that even the least noise and the largest weight could bring below the
  // bar; the rest need a weight for each token.
  std::uint32_t least = ~0U;
#pragma omp simd reduction(min : least)
  for (std::size_t i = 0; i < kCalls; ++i) {
    const std::uint32_t a = c0[i] < c1[i] ? c0[i] : c1[i];
    const std::uint32_t b = c2[i] < c3[i] ? c2[i] : c3[i];
    const std::uint32_t c = a < b ? a : b;
    least = c < least ? c : least;
  }
  if (static_cast<double>(least) > scaled_bar * most) return false;
  for (std::size_t i = 0; i < kCalls; ++i) {
    noise[4 * i] = c0[i];
    noise[4 * i + 1] = c1[i];
    noise[4 * i + 2] = c2[i];
    noise[4 * i + 3] = c3[i];
  }
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    weight[i] = exp_nonpositive(static_cast<double>(w[first + i]) - max);
  }
  unsigned any = 0;
#pragma omp simd reduction(| : any)
  for (std::size_t i = 0; i < n; ++i) {
    any |= static_cast<unsigned>(static_cast<double>(noise[i]) <= scaled_bar * weight[i] &&
                                 weight[i] > 0.0);
  }
  return any != 0;
}

}  // namespace forerun::internal
