#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "forerun/formats/half.h"

/// Loops over one row that compilers vectorise, with results that do not depend on the vector
/// width. Rows of bfloat16 are computed in float32.
namespace forerun::internal {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline at::Tensor wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

/// Devices and types that the loops support; elsewhere ATen's operations do the same.
inline bool has_kernel(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble ||
                        x.scalar_type() == at::kBFloat16);
}

/// f(type_tag) with the C++ type of a tensor of float64, float32 or bfloat16.
template <class F>
void with_type(at::ScalarType type, F&& f) {
  if (type == at::kDouble) {
    f(double{});
  } else if (type == at::kFloat) {
    f(float{});
  } else {
    f(c10::BFloat16{});
  }
}

/// f(type_tag, type_tag) with the types of the computation and of the next product's input, which
/// may be bfloat16; float64 has float64 for both.
template <class F>
void with_types(at::ScalarType x, at::ScalarType y, F&& f) {
  with_type(x, [&](auto a) {
    using X = decltype(a);
    if constexpr (std::is_same_v<X, double>) {
      f(X{}, double{});
    } else if (y == at::kBFloat16) {
      f(X{}, c10::BFloat16{});
    } else {
      f(X{}, float{});
    }
  });
}

template <class T>
void load_row(const T* from, std::int64_t n, Wide<T>* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, c10::BFloat16>) {
      to[i] = float_of_bf16(from[i].x);
    } else {
      to[i] = from[i];
    }
  }
}

template <class T>
void store_row(const Wide<T>* from, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, c10::BFloat16>) {
      to[i].x = bf16_of_float(from[i]);
    } else {
      to[i] = from[i];
    }
  }
}

/// Sum of f(i), i < n, in 16 running sums.
template <class W, class F>
W sum_of(std::int64_t n, F&& f) {
  W sequences[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int l = 0; l < 16; ++l) sequences[l] += f(i + l);
  }
  for (int l = 0; i < n; ++i, ++l) sequences[l] += f(i);
  W sum = 0;
  for (const W sequence : sequences) sum += sequence;
  return sum;
}

template <class W, class F>
W max_of(std::int64_t n, W least, F&& f) {
  W sequences[16];
  for (W& sequence : sequences) sequence = least;
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int l = 0; l < 16; ++l) {
      const W x = f(i + l);
      sequences[l] = x > sequences[l] ? x : sequences[l];
    }
  }
  for (int l = 0; i < n; ++i, ++l) {
    const W x = f(i);
    sequences[l] = x > sequences[l] ? x : sequences[l];
  }
  W out = least;
  for (const W sequence : sequences) out = sequence > out ? sequence : out;
  return out;
}

/// e^x, relative error below 3e-7 in float32; 0 below -87, infinity above 88.
inline float exp_of(float x) noexcept {
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
inline double exp_of(double x) noexcept { return std::exp(x); }

}  // namespace forerun::internal
