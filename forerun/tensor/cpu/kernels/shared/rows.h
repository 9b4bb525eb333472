#pragma once

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/vector_math.h"

namespace forerun::FORERUN_KERNELS {
namespace {

inline float inverse_rms(const float* x, float eps, std::int64_t k) {
  Floats s = floats(0.0F), t = floats(0.0F);
  for (std::int64_t i = 0; i < k; i += 32) {
    const Floats a = load(first_lanes(k - i), x + i);
    s = fmadd(a, a, s);
    if (k - i > 16) {
      const Floats b = load(first_lanes(k - i - 16), x + i + 16);
      t = fmadd(b, b, t);
    }
  }
  const float mean = sum(s + t) / static_cast<float>(k);
  return 1.0F / __builtin_sqrtf(mean + eps);
}

inline float dot(const float* a, const float* b, std::int64_t k) {
  Floats s = floats(0.0F), t = floats(0.0F);
  for (std::int64_t i = 0; i < k; i += 32) {
    const Mask m = first_lanes(k - i);
    s = fmadd(load(m, a + i), load(m, b + i), s);
    if (k - i > 16) {
      const Mask n = first_lanes(k - i - 16);
      t = fmadd(load(n, a + i + 16), load(n, b + i + 16), t);
    }
  }
  return sum(s + t);
}

// x / (1 + exp(-2 y)) = 0.5 x (1 + tanh(y)), y = sqrt(2 / pi) (x + 0.044715 x^3)
inline Floats gelu(Floats x) {
  const Floats cube = x * x * x;
  const Floats inner = fmadd(cube, floats(0.044715F), x);
  const Floats e = exp(inner * floats(-1.5957691216F));
  return x / (floats(1.0F) + e);
}

// @param far  kernel::Int8Rows::far
inline void put(float* to, std::int64_t left, Floats x, bool far) {
  if (far && left >= 16 && reinterpret_cast<std::uintptr_t>(to) % 64 == 0) {
    stream(to, x);
  } else {
    store(to, first_lanes(left), x);
  }
}

}  // namespace

void rms_norm_row(const float* x, const float* weight, float eps, std::int64_t k, float* y) {
  const Floats inverse = floats(inverse_rms(x, eps, k));
  for (std::int64_t i = 0; i < k; i += 16) {
    const Mask m = first_lanes(k - i);
    const Floats normed = load(m, x + i) * inverse;
    store(y + i, m, normed * load(m, weight + i));
  }
}

void dot_rows(const float* w, std::int64_t n, std::int64_t k, const float* x, std::int64_t rows,
              float* out, std::int64_t stride) {
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t r = 0; r < rows; ++r) out[r * stride + j] = dot(w + j * k, x + r * k, k);
  }
}

void add_row(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    store(y + i, m, load(m, x + i) + load(m, y + i));
  }
}

void scale_row(float* x, std::int64_t n, float by) {
  const Floats factor = floats(by);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    store(x + i, m, load(m, x + i) * factor);
  }
}

void rope_row(const float* x, const float* cos, const float* sin, std::int64_t half, float* y) {
  for (std::int64_t i = 0; i < half; i += 16) {
    const Mask m = first_lanes(half - i);
    const Floats a = load(m, x + i), b = load(m, x + half + i);
    const Floats c = load(m, cos + i), s = load(m, sin + i);
    store(y + i, m, fmsub(a, c, b * s));
    store(y + half + i, m, fmadd(b, c, a * s));
  }
}

void silu_gate_row(const float* gate, const float* up, std::int64_t n, float* out, bool far) {
  const Floats one = floats(1.0F), zero = floats(0.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats g = load(m, gate + i), u = load(m, up + i);
    const Floats silu = g / (one + exp(zero - g));
    put(out + i, n - i, silu * u, far);
  }
}

void gelu_gate_row(const float* gate, const float* up, std::int64_t n, float* out, bool far) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats g = load(m, gate + i), u = load(m, up + i);
    put(out + i, n - i, gelu(g) * u, far);
  }
}

void clamped_gate_row(const float* gate, const float* up, float slope, float limit, std::int64_t n,
                      float* out, bool far) {
  const Floats one = floats(1.0F), zero = floats(0.0F), bottom = floats(-limit);
  const Floats by = floats(-slope);
  const auto up_to_limit = [&](Floats x) { return zero - max(bottom, zero - x); };  // a NaN stays
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats g = up_to_limit(load(m, gate + i));
    const Floats u = max(bottom, up_to_limit(load(m, up + i)));
    put(out + i, n - i, g / (one + exp(g * by)) * (u + one), far);
  }
}

void gelu_row(const float* x, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    store(y + i, m, bf16_of(gelu(load(m, x + i))));
  }
}

void layer_norm_modulate_row(const float* x, const float* shift, const float* scale, float eps,
                             std::int64_t n, std::uint16_t* y) {
  Floats total = floats(0.0F);
  for (std::int64_t i = 0; i < n; i += 16) total = total + load(first_lanes(n - i), x + i);
  const Floats mean = floats(sum(total) / static_cast<float>(n));
  Floats squares = floats(0.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats off = subtract(m, load(m, x + i), mean);
    squares = fmadd(off, off, squares);
  }
  const float variance = sum(squares) / static_cast<float>(n);
  const Floats inverse = floats(1.0F / __builtin_sqrtf(variance + eps));
  const Floats one = floats(1.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats normed = (load(m, x + i) - mean) * inverse;
    const Floats by = load(m, scale + i) + one;
    store(y + i, m, bf16_of(fmadd(normed, by, load(m, shift + i))));
  }
}

void add_gated_row(const float* gate, const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats g = load(m, gate + i), v = load(m, x + i);
    store(y + i, m, fmadd(g, v, load(m, y + i)));
  }
}

void pair_rows(const float* even, const float* odd, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Ints low = widened(bf16_of(load(m, even + i)));
    const Ints high = widened(bf16_of(load(m, odd + i)));
    store(static_cast<void*>(y + 2 * i), m, either(low, left<16>(high)));
  }
}

void round_to_bf16(const float* x, std::int64_t n, float scale, std::uint16_t* y) {
  const Floats factor = floats(scale);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    store(y + i, m, bf16_of(load(m, x + i) * factor));
  }
}

void widen_bf16(const std::uint16_t* x, std::int64_t n, float scale, float* y) {
  const Floats factor = floats(scale);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    store(y + i, m, from_bf16(load(m, x + i)) * factor);
  }
}

}  // namespace forerun::FORERUN_KERNELS
