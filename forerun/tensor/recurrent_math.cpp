#include "forerun/tensor/recurrent_math.h"

#include "forerun/base/vector_clones.h"
#include "forerun/tensor/internal/row_math_loops.h"

namespace forerun::recurrent {
namespace {

using internal::loops::exp_of;
using internal::loops::sum_of;

// Vectors of any processor: of several registers where those are shorter.
using Lanes = float __attribute__((vector_size(64), aligned(4), may_alias));
constexpr std::int64_t kLanes = 16;

// Columns of a block, whose sums stay in registers. `adds`, `reads`: which parts of a step there
// are.
template <int width, bool adds, bool reads>
FORERUN_INLINE void step_block(const Step& s, std::int64_t first) {
  const auto* from = reinterpret_cast<const Lanes*>(s.from + first * s.keys);
  auto* to = s.to != nullptr ? reinterpret_cast<Lanes*>(s.to + first * s.keys) : nullptr;
  Lanes delta[width], by_key[width] = {}, by_query[width] = {};
  if constexpr (adds) {
    for (int j = 0; j < width; ++j) delta[j] = reinterpret_cast<const Lanes*>(s.delta + first)[j];
  }
  for (std::int64_t i = 0; i < s.keys; ++i) {
    Lanes row[width];
    for (int j = 0; j < width; ++j) {
      row[j] = from[i * width + j];
      if constexpr (adds) row[j] = s.decay * row[j] + s.key[i] * delta[j];
    }
    if (to != nullptr) {
      for (int j = 0; j < width; ++j) to[i * width + j] = row[j];
    }
    if constexpr (reads) {
      for (int j = 0; j < width; ++j) by_key[j] += s.own_key[i] * row[j];
      for (int j = 0; j < width; ++j) by_query[j] += s.query[i] * row[j];
    }
  }
  if constexpr (reads) {
    for (int j = 0; j < width; ++j) {
      reinterpret_cast<Lanes*>(s.by_key + first)[j] = by_key[j];
      reinterpret_cast<Lanes*>(s.by_query + first)[j] = by_query[j];
    }
  }
}

template <bool adds, bool reads>
FORERUN_INLINE void step_all(const Step& s) {
  std::int64_t first = 0;
  for (; first + 2 * kLanes <= s.values; first += 2 * kLanes) step_block<2, adds, reads>(s, first);
  if (first < s.values) step_block<1, adds, reads>(s, first);
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

FORERUN_VECTOR_CLONES void rms_norm(float* x, const float* w, std::int64_t n, double eps) {
  internal::loops::rms_norm(x, w, n, eps);
}

FORERUN_VECTOR_CLONES void silu_gate(const float* gate, std::int64_t n, float* x) {
  internal::loops::swiglu(gate, x, n);
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
