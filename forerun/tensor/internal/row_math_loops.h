#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "forerun/formats/half.h"
#include "forerun/tensor/internal/row_math.h"

/// Bodies of the loops of row_math.h, in float32 or float64 (`W`), in a form that compilers
/// vectorise. Sums go over 16 running sums and products are never contracted, so the bits of a
/// result do not depend on the width of the vectors.
namespace forerun::internal::loops {

#if defined(__GNUC__)
#define FORERUN_INLINE inline __attribute__((always_inline))
#else
#define FORERUN_INLINE inline
#endif

FORERUN_INLINE void load_row(const std::uint16_t* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = float_of_bf16(from[i]);
}

FORERUN_INLINE void store_row(const float* from, std::int64_t n, std::uint16_t* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = bf16_of_float(from[i]);
}

/// Sum of f(i), i < n, in 16 running sums.
template <class W, class F>
FORERUN_INLINE W sum_of(std::int64_t n, F&& f) {
  W sums[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int l = 0; l < 16; ++l) sums[l] += f(i + l);
  }
  for (int l = 0; i < n; ++i, ++l) sums[l] += f(i);
  W out = 0;
  for (const W sum : sums) out += sum;
  return out;
}

template <class W, class F>
FORERUN_INLINE W max_of(std::int64_t n, F&& f) {
  W most[16];
  for (W& m : most) m = -std::numeric_limits<W>::infinity();
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int l = 0; l < 16; ++l) {
      const W x = f(i + l);
      most[l] = x > most[l] ? x : most[l];
    }
  }
  for (int l = 0; i < n; ++i, ++l) {
    const W x = f(i);
    most[l] = x > most[l] ? x : most[l];
  }
  W out = most[0];
  for (const W m : most) out = m > out ? m : out;
  return out;
}

/// e^x, relative error below 3e-7 in float32; 0 below -87, infinity above 88.
FORERUN_INLINE float exp_of(float x) noexcept {
  constexpr float kShift = 0x1.8p23f;  // adding it rounds to an integer in the low mantissa bits
  const float clamped = x < -87.0f ? -87.0f : (x > 89.0f ? 89.0f : x);
  const float shifted = clamped * 0x1.715476p0f + kShift;
  const float k = shifted - kShift;
  const float r = (clamped - k * 0x1.62e400p-1f) - k * 0x1.7f7d1cp-20f;  // |r| <= ln(2) / 2
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float scale = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127u) << 23);
  return x < -87.0f ? 0.0f : p * scale;
}
FORERUN_INLINE double exp_of(double x) noexcept { return std::exp(x); }

template <class W>
FORERUN_INLINE W inverse_rms(const W* x, std::int64_t n, double eps) {
  const W squares = sum_of<W>(n, [&](std::int64_t i) { return x[i] * x[i]; });
  return W(1) / std::sqrt(squares / static_cast<W>(n) + static_cast<W>(eps));
}

template <class W>
FORERUN_INLINE void rms_norm(W* x, const W* w, std::int64_t n, double eps) {
  const W r = inverse_rms(x, n, eps);
  for (std::int64_t i = 0; i < n; ++i) x[i] *= r * w[i];
}

template <class W>
FORERUN_INLINE void rms_norm_backward(const W* x, const W* w, std::int64_t n, double eps, W* dy,
                                      W* dw) {
  const W r = inverse_rms(x, n, eps);
  const W along = sum_of<W>(n, [&](std::int64_t i) { return dy[i] * w[i] * x[i]; });
  const W back = r * r * r * along / static_cast<W>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    dw[i] += dy[i] * x[i] * r;
    dy[i] = r * dy[i] * w[i] - back * x[i];
  }
}

template <class W>
FORERUN_INLINE void rotate(W* x, const W* cos, const W* sin, std::int64_t half, W sign) {
  for (std::int64_t j = 0; j < half; ++j) {
    const W a = x[j], b = x[j + half], s = sign * sin[j];
    x[j] = a * cos[j] - b * s;
    x[j + half] = b * cos[j] + a * s;
  }
}

template <class W>
FORERUN_INLINE void swiglu(const W* gate, W* up, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) up[i] *= gate[i] / (W(1) + exp_of(-gate[i]));
}

template <class W>
FORERUN_INLINE void swiglu_backward(W* gate, W* up, const W* dy, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const W sigmoid = W(1) / (W(1) + exp_of(-gate[i])), silu = gate[i] * sigmoid;
    gate[i] = dy[i] * up[i] * (sigmoid + silu * (W(1) - sigmoid));
    up[i] = dy[i] * silu;
  }
}

// x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3): equal to the tanh form.
template <class W>
FORERUN_INLINE W gelu_sigmoid(W x) {
  return W(1) / (W(1) + exp_of(-W(1.5957691216057308) * x * (W(1) + W(0.044715) * x * x)));
}

template <class W>
FORERUN_INLINE void gelu(W* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= gelu_sigmoid(x[i]);
}

template <class W>
FORERUN_INLINE void gelu_backward(W* x, const W* dy, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const W s = gelu_sigmoid(x[i]);
    const W slope =
        x[i] * s * (W(1) - s) * W(1.5957691216057308) * (W(1) + W(3) * W(0.044715) * x[i] * x[i]);
    x[i] = dy[i] * (s + slope);
  }
}

template <class W>
FORERUN_INLINE void softmax(W* x, std::int64_t n, W scale) {
  const W most = max_of<W>(n, [&](std::int64_t i) { return x[i] * scale; });
  for (std::int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i] * scale - most);
  const W share = W(1) / sum_of<W>(n, [&](std::int64_t i) { return x[i]; });
  for (std::int64_t i = 0; i < n; ++i) x[i] *= share;
}

template <class W>
FORERUN_INLINE void softmax_backward(const W* p, W* d, std::int64_t n, W scale) {
  const W along = sum_of<W>(n, [&](std::int64_t i) { return p[i] * d[i]; });
  for (std::int64_t i = 0; i < n; ++i) d[i] = p[i] * (d[i] - along) * scale;
}

template <class W>
struct Moments {
  W mean, inverse;  // of a row: its mean, 1 / standard deviation
};

template <class W>
FORERUN_INLINE Moments<W> moments(const W* x, std::int64_t n, double eps) {
  const W mean = sum_of<W>(n, [&](std::int64_t i) { return x[i]; }) / static_cast<W>(n);
  const W squares = sum_of<W>(n, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  return {mean, W(1) / std::sqrt(squares / static_cast<W>(n) + static_cast<W>(eps))};
}

template <class W>
FORERUN_INLINE void norm_modulate(W* x, const W* scale, const W* shift, std::int64_t n,
                                  double eps) {
  const Moments<W> m = moments(x, n, eps);
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = (x[i] - m.mean) * m.inverse * (W(1) + scale[i]) + shift[i];
  }
}

template <class W>
FORERUN_INLINE void norm_modulate_backward(W* x, const W* scale, std::int64_t n, double eps, W* dy,
                                           W* dscale, W* dshift) {
  const Moments<W> m = moments(x, n, eps);
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = (x[i] - m.mean) * m.inverse;
    dshift[i] += dy[i];
    dscale[i] += dy[i] * x[i];
    dy[i] *= W(1) + scale[i];
  }
  const W share = W(1) / static_cast<W>(n);
  const W mean = share * sum_of<W>(n, [&](std::int64_t i) { return dy[i]; });
  const W along = share * sum_of<W>(n, [&](std::int64_t i) { return dy[i] * x[i]; });
  for (std::int64_t i = 0; i < n; ++i) dy[i] = m.inverse * (dy[i] - mean - x[i] * along);
}

template <class W>
FORERUN_INLINE void gated_sum(W* x, const W* gate, const W* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] += gate[i] * y[i];
}

template <class W>
FORERUN_INLINE void gated_sum_backward(W* dx, const W* gate, const W* y, std::int64_t n, W* dgate) {
  for (std::int64_t i = 0; i < n; ++i) {
    dgate[i] += dx[i] * y[i];
    dx[i] *= gate[i];
  }
}

template <class W>
FORERUN_INLINE RowLoss<W> cross_entropy(W* x, const W* law, std::int64_t n, W covered,
                                        std::int64_t label, W weight, W share, bool l1) {
  const W most = max_of<W>(n, [&](std::int64_t i) { return x[i]; });
  const std::int64_t best = std::find(x, x + n, most) - x;
  const W label_logit = x[label];
  const W mass = sum_of<W>(n, [&](std::int64_t i) { return law[i]; });
  const W along = sum_of<W>(n, [&](std::int64_t i) { return law[i] * x[i]; });
  for (std::int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i] - most);
  const W sum = sum_of<W>(n, [&](std::int64_t i) { return x[i]; });
  const W one = W(1) / sum, log_sum = most + std::log(sum);
  const W overlap = sum_of<W>(n, [&](std::int64_t i) {
    const W q = x[i] * one, p = law[i] * covered;
    return q < p ? q : p;
  });
  if (l1) {
    const auto side = [&](W q, W p) { return static_cast<W>(q > p) - static_cast<W>(q < p); };
    const W tilt = sum_of<W>(n, [&](std::int64_t i) {
      const W q = x[i] * one;
      return q * side(q, law[i] * covered);
    });
    for (std::int64_t i = 0; i < n; ++i) {
      const W q = x[i] * one;
      x[i] = weight * q * (W(1) - share + share * (side(q, law[i] * covered) - tilt));
    }
    x[label] -= weight * (W(1) - share);
    // What the law has outside the columns is as far away as it can be.
    const W loss = (W(1) - share) * (log_sum - label_logit) + share * W(2) * (W(1) - overlap);
    return {weight * loss, overlap, best < n ? best : 0};
  }
  const W up = weight * one * (W(1) - share + share * mass), down = weight * share;
  for (std::int64_t i = 0; i < n; ++i) x[i] = x[i] * up - law[i] * down;
  x[label] -= weight * (W(1) - share);
  const W loss = (W(1) - share) * (log_sum - label_logit) + share * (mass * log_sum - along);
  return {weight * loss, overlap, best < n ? best : 0};
}

}  // namespace forerun::internal::loops
