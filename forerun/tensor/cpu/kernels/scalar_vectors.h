#pragma once

// Vectors of 16 lanes as plain loops, by Intel's definitions of the AVX-512 instructions: the
// reference of the kernels' tests. The orders of sum() and largest() are those of GCC's
// _mm512_reduce_add_ps and _mm512_reduce_max_ps.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#define FORERUN_KERNELS scalar

namespace forerun::scalar {
namespace {

using Mask = std::uint16_t;
template <class T>
struct Lanes {
  std::array<T, 16> at{};
  bool operator==(const Lanes&) const = default;
};
using Floats = Lanes<float>;
using Ints = Lanes<std::int32_t>;
using Words = Lanes<std::uint16_t>;

constexpr char kName[] = "plain loops";
constexpr bool kNeedsHalves = false;
constexpr bool kStreams = false;
constexpr int kHeld = 1;  // the plain order of stages

inline bool in(Mask m, std::size_t i) { return (m >> i & 1) != 0; }

template <class To, class F, class... From>
Lanes<To> each(F f, const Lanes<From>&... x) {
  Lanes<To> out;
  for (std::size_t i = 0; i < 16; ++i) out.at[i] = f(x.at[i]...);
  return out;
}

template <class T>
Lanes<T> load_lanes(const Lanes<T>& rest, Mask m, const T* p) {
  Lanes<T> out = rest;
  for (std::size_t i = 0; i < 16; ++i) out.at[i] = in(m, i) ? p[i] : out.at[i];
  return out;
}
template <class T, class Value>
void store_lanes(T* p, Mask m, const Lanes<Value>& x) {
  for (std::size_t i = 0; i < 16; ++i) {
    if (in(m, i)) p[i] = static_cast<T>(x.at[i]);
  }
}

inline Floats floats(float x) {
  Floats out;
  out.at.fill(x);
  return out;
}
inline Ints ints(int x) {
  Ints out;
  out.at.fill(x);
  return out;
}
inline float first_lane(const Floats& x) { return x.at[0]; }
inline Ints bits(const Floats& x) {
  return each<std::int32_t>([](float v) { return std::bit_cast<std::int32_t>(v); }, x);
}
inline Floats from_bits(const Ints& x) {
  return each<float>([](std::int32_t v) { return std::bit_cast<float>(v); }, x);
}

inline Floats load(const float* p) { return load_lanes(Floats{}, 0xffff, p); }
inline Floats load(Mask m, const float* p) { return load_lanes(Floats{}, m, p); }
inline Floats load(const Floats& rest, Mask m, const float* p) { return load_lanes(rest, m, p); }
inline Ints load_bits(Mask m, const float* p) { return bits(load(m, p)); }
inline Words load(Mask m, const std::uint16_t* p) { return load_lanes(Words{}, m, p); }
inline void store(float* p, const Floats& x) { store_lanes(p, 0xffff, x); }
inline void stream(float* p, const Floats& x) { store(p, x); }
inline void stream(std::int8_t* p, const std::int8_t* x) { std::copy_n(x, 64, p); }
inline void store(float* p, Mask m, const Floats& x) { store_lanes(p, m, x); }
inline void store(void* p, Mask m, const Ints& x) {
  for (std::size_t i = 0; i < 16; ++i) {
    if (in(m, i)) __builtin_memcpy(static_cast<char*>(p) + 4 * i, &x.at[i], 4);
  }
}
inline void store(std::uint16_t* p, const Words& x) { store_lanes(p, 0xffff, x); }
inline void store(std::uint16_t* p, Mask m, const Words& x) { store_lanes(p, m, x); }
inline void store_int8(std::int8_t* p, Mask m, const Ints& x) {
  store_lanes(p, m, each<int>([](int v) { return std::clamp(v, -128, 127); }, x));
}
inline void store_halves(std::int16_t* p, const std::int8_t* values) {
  for (int i = 0; i < 16; i += 4) {
    for (const int j : {0, 2, 1, 3}) *p++ = values[i + j];
  }
}
inline void store_uint8(std::uint8_t* p, const Ints& x) {
  const auto bounded = [](int v) { return std::min(static_cast<unsigned>(v), 255U); };
  store_lanes(p, 0xffff, each<unsigned>(bounded, x));
}

inline Floats operator+(const Floats& a, const Floats& b) {
  return each<float>([](float x, float y) { return x + y; }, a, b);
}
inline Floats operator-(const Floats& a, const Floats& b) {
  return each<float>([](float x, float y) { return x - y; }, a, b);
}
inline Floats operator*(const Floats& a, const Floats& b) {
  return each<float>([](float x, float y) { return x * y; }, a, b);
}
inline Floats operator/(const Floats& a, const Floats& b) {
  return each<float>([](float x, float y) { return x / y; }, a, b);
}
inline Floats fmadd(const Floats& a, const Floats& b, const Floats& c) {
  return each<float>([](float x, float y, float z) { return std::fma(x, y, z); }, a, b, c);
}
inline Floats fmsub(const Floats& a, const Floats& b, const Floats& c) {
  return each<float>([](float x, float y, float z) { return std::fma(x, y, -z); }, a, b, c);
}
inline Floats fnmadd(const Floats& a, const Floats& b, const Floats& c) {
  return each<float>([](float x, float y, float z) { return std::fma(-x, y, z); }, a, b, c);
}
inline float larger(float a, float b) { return a > b ? a : b; }  // VMAXPS
inline Floats max(const Floats& a, const Floats& b) { return each<float>(larger, a, b); }
inline Floats nearest(const Floats& x) {
  return each<float>([](float v) { return std::nearbyint(v); }, x);
}
// VSCALEFPS, with its table of special cases, for whole n.
inline float scale_lane(float x, float n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (std::isnan(x)) return n == kInfinity ? kInfinity : n == -kInfinity ? 0.0F : x;
  if (std::isnan(n)) return n;
  if (n == kInfinity) return x == 0.0F ? std::numeric_limits<float>::quiet_NaN() : x * kInfinity;
  if (n == -kInfinity) {
    return std::isinf(x) ? std::numeric_limits<float>::quiet_NaN() : std::copysign(0.0F, x);
  }
  return std::ldexp(x, static_cast<int>(std::clamp(n, -1000.0F, 1000.0F)));
}
inline Floats scaled(const Floats& x, const Floats& n) { return each<float>(scale_lane, x, n); }

inline Mask nan(const Floats& x) {
  Mask m = 0;
  for (std::size_t i = 0; i < 16; ++i) m = static_cast<Mask>(m | std::isnan(x.at[i]) << i);
  return m;
}
inline Floats select(Mask m, const Floats& a, const Floats& b) {
  return load_lanes(b, m, a.at.data());
}
inline Floats add(Mask m, const Floats& a, const Floats& b) { return select(m, a + b, a); }
inline Floats subtract(const Floats& rest, Mask m, const Floats& a, const Floats& b) {
  return select(m, a - b, rest);
}
inline Floats subtract(Mask m, const Floats& a, const Floats& b) {
  return select(m, a - b, Floats{});
}
inline Floats multiply(Mask m, const Floats& a, const Floats& b) {
  return select(m, a * b, Floats{});
}

// Halves against each other down to one, the upper first until four are left: for a NaN max(a, b)
// is not max(b, a).
template <class T, class F>
T folded(Lanes<T> x, F f) {
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      x.at[i] = half >= 4 ? f(x.at[i + half], x.at[i]) : f(x.at[i], x.at[i + half]);
    }
  }
  return x.at[0];
}
inline float sum(const Floats& x) {
  return folded(x, [](float a, float b) { return a + b; });
}
inline float largest(const Floats& x) { return folded(x, larger); }
inline int sum(const Ints& x) {
  return folded(x, [](int a, int b) { return a + b; });
}
inline int largest(const Ints& x) {
  return folded(x, [](int a, int b) { return std::max(a, b); });
}

inline Ints to_ints(const Floats& x) {
  return each<int>(
      [](float v) {
        const bool fits = v >= -2147483648.0F && v < 2147483648.0F;
        return fits ? static_cast<int>(v) : std::numeric_limits<int>::min();
      },
      x);
}
inline Ints rounded(const Floats& x) { return to_ints(nearest(x)); }
inline Ints truncated(const Floats& x) { return to_ints(x); }
inline Ints add(const Ints& a, const Ints& b) {
  const auto wrap = [](int x, int y) {
    return static_cast<int>(static_cast<unsigned>(x) + static_cast<unsigned>(y));
  };
  return each<int>(wrap, a, b);
}
inline Ints max(const Ints& a, const Ints& b) {
  return each<int>([](int x, int y) { return std::max(x, y); }, a, b);
}
inline Ints both(const Ints& a, const Ints& b) {
  return each<int>([](int x, int y) { return x & y; }, a, b);
}
inline Ints either(const Ints& a, const Ints& b) {
  return each<int>([](int x, int y) { return x | y; }, a, b);
}
template <int k>
Ints left(const Ints& x) {
  return each<int>([](int v) { return static_cast<int>(static_cast<unsigned>(v) << k); }, x);
}
template <int k>
Ints right(const Ints& x) {
  return each<int>([](int v) { return static_cast<int>(static_cast<unsigned>(v) >> k); }, x);
}
inline Ints unless_nan(const Floats& x, const Ints& a, const Ints& b) {
  return load_lanes(a, nan(x), b.at.data());
}
inline Words low_words(const Ints& x) {
  return each<std::uint16_t>([](int v) { return static_cast<std::uint16_t>(v); }, x);
}
inline Ints widened(const Words& x) {
  return each<int>([](std::uint16_t v) { return static_cast<int>(v); }, x);
}

template <int h>
Floats exchanged(const Floats& x) {
  Floats out;
  for (std::size_t i = 0; i < 16; ++i) out.at[i] = x.at[i ^ h];
  return out;
}

}  // namespace
}  // namespace forerun::scalar
