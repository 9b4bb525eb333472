#pragma once

// What becomes of the sums of a panel.

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun::avx512 {
namespace {

constexpr int kVectors = 3;                         // of 16 outputs: a panel
constexpr std::int64_t kStepBytes = kVectors * 64;  // weights of 4 inputs

struct Sink {
  float* out;
  std::int64_t stride, width;
  bool add;
  bool far;  // whole lines past the caches
};

// @param far  kernel::Int8Rows::far
inline Sink sink_of(float* out, std::int64_t stride, std::int64_t width, bool add, bool far) {
  const bool lines = width == kernel::kPanel && stride % 16 == 0 &&
                     reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
  return {out, stride, width, add, far && lines};
}

// Vector `at` of a panel's outputs.
struct Columns {
  int at;
  __mmask16 mask;  // those that exist
  __m512 scale, bias;
};

inline __mmask16 columns_mask(int at, std::int64_t width) {
  const std::int64_t left = width - 16 * at;
  return left >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1U << left) - 1);
}

// @param bias  of all outputs, or null
inline __m512 bias_of(const float* bias, std::int64_t panel, int at) {
  return bias != nullptr ? _mm512_loadu_ps(bias + panel * kernel::kPanel + 16 * at)
                         : _mm512_setzero_ps();
}

inline Columns columns_of(const kernel::Int8Panels& w, std::int64_t panel, int at,
                          std::int64_t width) {
  return {at, columns_mask(at, width), _mm512_loadu_ps(w.scales + panel * kernel::kPanel + 16 * at),
          bias_of(w.bias, panel, at)};
}

// Outputs of row `row`.
inline void put(__m512 y, int at, __mmask16 mask, const Sink& sink, std::int64_t row) {
  float* to = sink.out + row * sink.stride + 16 * at;
  if (sink.add) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, to));
  if (sink.far) {
    _mm512_stream_ps(to, y);
  } else {
    _mm512_mask_storeu_ps(to, mask, y);
  }
}

// The same from integer sums of a row whose values were divided by `scale`.
inline void put(__m512i dot, const Columns& columns, float scale, const Sink& sink,
                std::int64_t row) {
  const __m512 by = _mm512_mul_ps(columns.scale, _mm512_set1_ps(scale));
  put(_mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), by, columns.bias), columns.at, columns.mask, sink,
      row);
}

}  // namespace
}  // namespace forerun::avx512
