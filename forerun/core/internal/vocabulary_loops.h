#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "forerun/core/block_maxima.h"
#include "forerun/core/rng_key.h"

/// The loops over a whole vocabulary that every output costs, compiled for several processors with
/// the same bits.
namespace forerun::internal {

/// The largest of n log-weights, NaN passed over; -infinity of none.
struct Largest {
  float value;
  bool nan;  ///< one of them is NaN
};
Largest largest(const float* w, std::size_t n) noexcept;

/// The largest of each block of so many, NaN passed over; -infinity of none.
/// @param out  [ceil(n / block)]
void block_maxima(const float* w, std::size_t n, std::size_t block, float* out) noexcept;

/// The largest of each of so many pieces: of the values whose indices leave the same remainder, NaN
/// passed over.
/// @param out  [pieces]
void strided_maxima(const float* w, std::size_t n, std::size_t pieces, float* out) noexcept;

/// Sum of exp(w - max), in an order that depends on n alone.
double exp_sum(const float* w, std::size_t n, double max) noexcept;

/// Values of a row of logits, as weights exp((w - best) * inverse).
struct Weighted {
  const float* w;
  std::size_t n;
  const float* maxima;  ///< block_maxima(w, n, kWeighedBlock)
  float best, inverse;
};
/// What those in [least, below) weigh together, to float32 precision. Blocks without one are
/// skipped.
double weight_between(const Weighted& x, float least, float below) noexcept;

/// One side of a residual: log-weights, and the constants that turn them into probabilities
/// exp(w - max) * scale.
struct Scaled {
  const float* w;
  double max, scale;
};
/// Sum of (p - q)+ over [begin, end), in an order that depends on their number alone.
double excess_sum(const Scaled& p, const Scaled& q, std::size_t begin, std::size_t end) noexcept;

/// w = (w - max) * inverse in double, rounded; 0 where that is NaN.
void scale_logits(float* w, std::size_t n, float max, double inverse) noexcept;

constexpr std::size_t kNoiseTile = 64;  ///< tokens: 16 Philox calls
/// exp(w - max) of the tokens [first, first + n), n <= kNoiseTile, and their coarse noise: word j
/// of call c is that of token 4c + j.
/// Where the answer is no, they may be left as they were.
/// @param first  a multiple of kNoiseTile
/// @param most   at least the largest weight of the tile
/// @return  whether one of them has noise * 2^-32 <= bar * weight and weight > 0
bool noise_tile(const float* w, std::size_t first, std::size_t n, double max, double most,
                double bar, const RngKey& key, std::array<double, kNoiseTile>& weight,
                std::array<std::uint32_t, kNoiseTile>& noise) noexcept;

}  // namespace forerun::internal
