#pragma once

#include "forerun/tensor/cpu/avx512/kernels.h"

/// Attention over keys and values in int8: the inner loops of PagedAttention. As in kernels.h, a
/// row's outputs do not depend, bit for bit, on other rows or on what it does not see.
namespace forerun::avx512 {

constexpr std::int64_t kChunk = 256;  ///< keys of one partial softmax

/// Scores of rows of queries with the keys of a page: out[r, j] = key_scales[j] * q_r k_j.
struct KeyProduct {
  const std::int8_t* q;        ///< [rows, 4 * quads]
  const std::int32_t* starts;  ///< [rows]: -128 times the sum of the row
  const std::uint8_t* keys;    ///< [quads][64][4]: key + 128
  const float* key_scales;     ///< [64]
  float* out;                  ///< [rows, stride]
  std::int64_t stride, rows, quads;
  /// As large as the keys, to prefetch; or null.
  const std::uint8_t *next, *also;
};
void key_product(const KeyProduct& p);

/// The visible keys of a chunk: [begin, end), or none.
struct Seen {
  std::int64_t begin, end;
};

/// Weights of a softmax over a chunk, not yet normalised, each times its value's scale, in 8 bits:
/// the largest becomes 255. They are rounded up or down by a pattern of their positions: plain
/// rounding would lose the sum of many small weights. The returned sum is that of the weights
/// before scaling and rounding, the maximum that of the scores times `scale`.
/// @param scores  [256], times `scale`; overwritten
/// @param value_scales  [256]
/// @param n       a multiple of 16 up to 256; number of weights written
/// @param weights [256]
/// @param unit    the value of a weight of 1
SoftmaxPart weigh_row(float* scores, float scale, const float* value_scales, const Seen& seen,
                      std::int64_t n, std::uint8_t* weights, float* unit);

/// Weighted sums of values: out[r, d] = unit * sum over keys of weights[r, key] * value[key, d]. At
/// most 256 weights of a row are not zero: their sums are exact, in whatever order.
struct ValueProduct {
  const std::uint8_t* weights;  ///< [rows][stride], of which 64 for each page
  std::int64_t stride;
  const std::int8_t* const* values;   ///< one page each: [16][columns][4]
  std::int64_t pages, rows, columns;  ///< columns: a multiple of 16
  const float* units;                 ///< [rows]
  float* out;                         ///< [rows, columns]
  const std::uint8_t* next;           ///< a page of keys to prefetch; or null
};
void value_product(const ValueProduct& p);

}  // namespace forerun::avx512
