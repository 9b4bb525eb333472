#pragma once

// What becomes of the sums of a panel.

#include "forerun/tensor/cpu/kernels/avx2/vectors.h"
#include "forerun/tensor/cpu/kernels/shared/vector_math.h"

namespace forerun::avx2 {
namespace {

struct Sink {
  float* out;
  std::int64_t stride, width;
  bool add;
};

// Up to 8 outputs, as many as are left.
inline void put(__m256 y, float* to, std::int64_t left, bool add) {
  if (left >= 8) {
    if (add) y = _mm256_add_ps(y, _mm256_loadu_ps(to));
    _mm256_storeu_ps(to, y);
    return;
  }
  const __m256i m = spread_mask(first_lanes(left)).low;
  if (add) y = _mm256_add_ps(y, _mm256_maskload_ps(to, m));
  _mm256_maskstore_ps(to, m, y);
}

}  // namespace
}  // namespace forerun::avx2
