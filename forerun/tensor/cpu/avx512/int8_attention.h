#pragma once

#include "forerun/tensor/cpu/avx512/kernels.h"

/// Attention over keys and values in int8: the inner loops of PagedAttention. As in kernels.h, a
/// row's outputs depend, bit for bit, neither on the rows beside it nor on what it does not see.
namespace forerun::avx512 {

constexpr std::int64_t kChunk = 256;  ///< keys that a softmax of its own is taken over

/// Scores of rows of queries with the keys of a page: out[r, j] = key_scales[j] * q_r k_j.
struct KeyProduct {
  const std::int8_t* q;        ///< [rows, 4 * quads]
  const std::int32_t* starts;  ///< [rows]: -128 times the sum of the row
  const std::uint8_t* keys;    ///< [quads][64][4]: key + 128
  const float* key_scales;     ///< [64]
  float* out;                  ///< [rows, stride]
  std::int64_t stride, rows, quads;
  /// As large as the keys, to bring into the cache meanwhile; or null.
  const std::uint8_t *next, *also;
};
void key_product(const KeyProduct& p);

/// What a row sees of a chunk: keys [begin, end), or none.
struct Seen {
  std::int64_t begin, end;
};

/// Weights of a softmax over a chunk, not yet normalised, each times its value's scale, in 8 bits:
/// the largest becomes 255. They are rounded up or down by a pattern of their places: plain
/// rounding would lose what many small weights add up to. The sum returned is that of the weights
/// before both, their maximum that of the scores times `scale`.
/// @param scores  [256], times `scale`; overwritten
/// @param value_scales  [256]
/// @param n       a multiple of 16 up to 256; weights are written so far
/// @param weights [256]
/// @param unit    what a weight of 1 stands for
SoftmaxPart weigh_row(float* scores, float scale, const float* value_scales, const Seen& seen,
                      std::int64_t n, std::uint8_t* weights, float* unit);

/// Weighted sums of values: out[r, d] = unit * sum over keys of weights[r, key] * value[key, d].
struct ValueProduct {
  const std::uint8_t* weights;        ///< [rows][256]
  const std::int8_t* const* values;   ///< a page each: [16][columns][4]
  std::int64_t pages, rows, columns;  ///< columns: a multiple of 16
  const float* units;                 ///< [rows]
  float* out;                         ///< [rows, columns]
  const std::uint8_t* next;  ///< a page of keys, to bring into the cache meanwhile; or null
};
void value_product(const ValueProduct& p);

}  // namespace forerun::avx512
