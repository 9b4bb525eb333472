#pragma once

// Code of this folder is compiled once for each kind of vectors, whose vectors.h comes first.

#include <cstdint>

namespace forerun::FORERUN_KERNELS {
namespace {

inline Mask first_lanes(std::int64_t n) {
  return n >= 16 ? static_cast<Mask>(0xffff) : static_cast<Mask>((1U << n) - 1);
}

// exp(x), relative error below 3e-7; 0 for x < -103, NaN for NaN.
inline Floats exp(Floats x) {
  x = max(floats(-110.0F), x);  // in this order a NaN stays
  const Floats n = nearest(x * floats(1.44269504F));
  Floats r = fnmadd(n, floats(0.693145752F), x);
  r = fnmadd(n, floats(1.42860677e-6F), r);
  Floats p = floats(1.0F / 720.0F);
  p = fmadd(p, r, floats(1.0F / 120.0F));
  p = fmadd(p, r, floats(1.0F / 24.0F));
  p = fmadd(p, r, floats(1.0F / 6.0F));
  p = fmadd(p, r, floats(0.5F));
  p = fmadd(p, r, floats(1.0F));
  p = fmadd(p, r, floats(1.0F));
  return scaled(p, n);
}

// To bf16, ties to even; NaN stays NaN.
inline Words bf16_of(Floats x) {
  const Ints all = bits(x);
  const Ints odd = both(right<16>(all), ints(1));
  const Ints rounded = add(all, add(odd, ints(0x7fff)));
  return low_words(right<16>(unless_nan(x, rounded, ints(0x7fc00000))));
}

inline Floats from_bf16(Words x) { return from_bits(left<16>(widened(x))); }

}  // namespace
}  // namespace forerun::FORERUN_KERNELS
