#pragma once

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/vector_math.h"

namespace forerun::FORERUN_KERNELS {

using kernel::Int8Rows;
using kernel::Rounded;

void rms_norm_row(const float* x, const float* weight, float eps, std::int64_t k, float* y);

namespace {

// Sums and differences of lanes whose indices differ in bit `h`: x + other, other - x.
template <int h>
inline Floats butterfly(Floats x) {
  constexpr unsigned second = h == 1 ? 0xaaaa : h == 2 ? 0xcccc : h == 4 ? 0xf0f0 : 0xff00;
  const Floats sign = select(static_cast<Mask>(second), floats(-1.0F), floats(1.0F));
  return fmadd(x, sign, exchanged<h>(x));
}

// A sign for each of 16 values, from their index.
inline Mask signs(std::uint32_t place) {
  std::uint32_t h = (place + 1) * 0x9e3779b1U;
  h = (h ^ (h >> 15)) * 0x85ebca6bU;
  return static_cast<Mask>(h >> 16);
}

void flip_and_scale(float* x, std::int64_t n, std::uint32_t salt, float by) {
  const Floats plus = floats(by), minus = floats(-by);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = signs(salt + static_cast<std::uint32_t>(i / 16));
    store(x + i, load(x + i) * select(m, minus, plus));
  }
}

// Two stages at once: sums and differences of values h apart, then of those 2 h apart.
inline void four(float* x, std::int64_t h) {
  const Floats a = load(x), b = load(x + h), c = load(x + 2 * h), d = load(x + 3 * h);
  const Floats ab = a + b, a_b = a - b, cd = c + d, c_d = c - d;
  store(x, ab + cd);
  store(x + h, a_b + c_d);
  store(x + 2 * h, ab - cd);
  store(x + 3 * h, a_b - c_d);
}

// All stages of n vectors of 16 values that are held in registers.
template <int n>
inline void held(float* x) {
  Floats v[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) {
    const Floats w = butterfly<2>(butterfly<1>(load(x + 16 * i)));
    v[i] = butterfly<8>(butterfly<4>(w));
  }
#pragma GCC unroll 4
  for (int h = 1; h < n; h *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      if ((i & h) != 0) continue;
      const Floats a = v[i], b = v[i + h];
      v[i] = a + b;
      v[i + h] = a - b;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) store(x + 16 * i, v[i]);
}

// The stages of up to `kHeld` vectors of each block; returns how many values these are.
template <int n = kHeld>
inline std::int64_t first_stages(float* x, std::int64_t all, std::int64_t block) {
  constexpr std::int64_t size = 16 * n;
  if constexpr (n > 1) {
    if (block < size) return first_stages<n / 2>(x, all, block);
  }
  for (std::int64_t i = 0; i < all; i += size) held<n>(x + i);
  return size;
}

}  // namespace

void hadamard_row(float* x, std::int64_t n, std::int64_t block) {
  std::int64_t h = first_stages(x, n, block);
  for (; 4 * h <= block; h *= 4) {
    for (std::int64_t first = 0; first < n; first += 4 * h) {
      for (std::int64_t i = first; i < first + h; i += 16) four(x + i, h);
    }
  }
  if (h == block) return;
  for (std::int64_t first = 0; first < n; first += 2 * h) {
    for (std::int64_t i = first; i < first + h; i += 16) {
      const Floats a = load(x + i), b = load(x + i + h);
      store(x + i, a + b);
      store(x + i + h, a - b);
    }
  }
}

void rotate_row(float* x, std::int64_t n) {
  constexpr std::uint32_t kFirst = 0, kSecond = 1U << 16;
  std::int64_t block = 16;
  while (2 * block <= n) block *= 2;
  const float by = 1.0F / __builtin_sqrtf(static_cast<float>(block));
  flip_and_scale(x, block, kFirst, by);
  hadamard_row(x, block, block);
  if (block == n) return;
  flip_and_scale(x + n - block, block, kSecond, by);
  hadamard_row(x + n - block, block, block);
}

Rounded round_to_int8(const float* x, std::int64_t n, std::int8_t* values) {
  const Ints magnitude = ints(0x7fffffff);
  Ints most = ints(0);
  for (std::int64_t i = 0; i < n; i += 16) {
    // As integers, absolute values compare like floats, with NaN above all of them.
    const Ints v = load_bits(first_lanes(n - i), x + i);
    most = max(most, both(v, magnitude));
  }
  const int top = largest(most);
  const bool finite = top < 0x7f800000;
  float most_value;
  __builtin_memcpy(&most_value, &top, sizeof most_value);
  // Values so small that 127 / most_value overflows count as zeros.
  const Floats by = floats(finite && most_value > 1e-30F ? 127.0F / most_value : 0.0F);
  Ints total = ints(0);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats v = finite ? load(m, x + i) : floats(0.0F);
    const Ints whole = rounded(v * by);
    total = add(total, whole);
    store_int8(values + i, m, whole);
  }
  return {finite ? most_value / 127.0F : __builtin_nanf(""), sum(total)};
}

void quantize_row(const float* x, std::int64_t n, const Int8Rows& out, std::int64_t r,
                  float* work) {
  for (std::int64_t i = 0; i < out.width; i += 16) {
    const Mask m = n > i ? first_lanes(n - i) : static_cast<Mask>(0);
    store(work + i, load(m, x + i));
  }
  rotate_row(work, out.width);
  const Rounded rounded = round_to_int8(work, out.width, out.values + r * out.width);
  out.scales[r] = rounded.scale;
  out.offsets[r] = -128 * rounded.sum;
  if (out.halves == nullptr) return;
  for (std::int64_t i = r * out.width; i < (r + 1) * out.width; i += 16) {
    store_halves(out.halves + i, out.values + i);
  }
}

void norm_quantize_row(const float* x, const float* weight, float eps, std::int64_t k,
                       const Int8Rows& out, std::int64_t r, float* work) {
  rms_norm_row(x, weight, eps, k, work);
  quantize_row(work, k, out, r, work);
}

}  // namespace forerun::FORERUN_KERNELS
