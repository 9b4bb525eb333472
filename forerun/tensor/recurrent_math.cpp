#include "forerun/tensor/recurrent_math.h"

#include "forerun/base/vector_clones.h"
#include "forerun/tensor/internal/row_math_loops.h"

namespace forerun::recurrent {
namespace {

using internal::loops::exp_of;
using internal::loops::sum_of;

constexpr std::int64_t kLanes = 16;

// `kept`, `adds`, `reads`: which parts of a step there are. Columns in blocks, whose sums stay in
// registers.
template <std::int64_t width, bool adds, bool reads>
FORERUN_INLINE void step_columns(const Step& s, std::int64_t first) {
  float by_key[width] = {}, by_query[width] = {};
  for (std::int64_t i = 0; i < s.keys; ++i) {
    const float* from = s.from + i * s.values + first;
    float row[width];
    if constexpr (adds) {
      const float key = s.key[i];
      const float* delta = s.delta + first;
      for (std::int64_t j = 0; j < width; ++j) row[j] = s.decay * from[j] + key * delta[j];
    } else {
      for (std::int64_t j = 0; j < width; ++j) row[j] = from[j];
    }
    if (s.to != nullptr) {
      float* to = s.to + i * s.values + first;
      for (std::int64_t j = 0; j < width; ++j) to[j] = row[j];
    }
    if constexpr (reads) {
      const float key = s.own_key[i], query = s.query[i];
      for (std::int64_t j = 0; j < width; ++j) by_key[j] += key * row[j];
      for (std::int64_t j = 0; j < width; ++j) by_query[j] += query * row[j];
    }
  }
  if constexpr (reads) {
    for (std::int64_t j = 0; j < width; ++j) s.by_key[first + j] = by_key[j];
    for (std::int64_t j = 0; j < width; ++j) s.by_query[first + j] = by_query[j];
  }
}

template <bool adds, bool reads>
FORERUN_INLINE void step_all(const Step& s) {
  std::int64_t first = 0;
  for (; first + 2 * kLanes <= s.values; first += 2 * kLanes) {
    step_columns<2 * kLanes, adds, reads>(s, first);
  }
  for (; first < s.values; first += kLanes) step_columns<kLanes, adds, reads>(s, first);
}

}  // namespace

FORERUN_VECTOR_CLONES void step(const Step& s) {
  if (s.key != nullptr) {
    if (s.own_key != nullptr) {
      step_all<true, true>(s);
    } else {
      step_all<true, false>(s);
    }
  } else if (s.own_key != nullptr) {
    step_all<false, true>(s);
  } else {
    step_all<false, false>(s);
  }
}

FORERUN_VECTOR_CLONES float dot(const float* a, const float* b, std::int64_t n) {
  return sum_of<float>(n, [&](std::int64_t i) { return a[i] * b[i]; });
}

FORERUN_VECTOR_CLONES void unit_length(float* x, std::int64_t n, float eps, float scale) {
  const float squares = sum_of<float>(n, [&](std::int64_t i) { return x[i] * x[i]; });
  const float by = scale / std::sqrt(squares + eps);
  for (std::int64_t i = 0; i < n; ++i) x[i] *= by;
}

FORERUN_VECTOR_CLONES void convolve(const float* const* inputs, const float* weights,
                                    std::int64_t stride, std::int64_t taps, const float* base,
                                    std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = base != nullptr ? base[i] : 0.0F;
  for (std::int64_t t = 0; t < taps; ++t) {
    const float* const w = weights + t * stride;
    const float* const x = inputs[t];
    for (std::int64_t i = 0; i < n; ++i) out[i] += w[i] * x[i];
  }
}

FORERUN_VECTOR_CLONES void multiply(const float* a, const float* b, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

FORERUN_VECTOR_CLONES void silu(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = x[i] / (1.0F + exp_of(-x[i]));
}

FORERUN_VECTOR_CLONES void sigmoid_gate(const float* gate, std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= 1.0F / (1.0F + exp_of(-gate[i]));
}

FORERUN_VECTOR_CLONES void change(const Change& c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    const float delta = c.beta * (c.value[j] - c.decay * c.by_key[j]);
    c.delta[j] = delta;
    c.out[j] = c.decay * c.by_query[j] + c.along * delta;
  }
}

}  // namespace forerun::recurrent
