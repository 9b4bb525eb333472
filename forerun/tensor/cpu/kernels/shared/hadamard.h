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
constexpr std::uint16_t signs(std::uint32_t place) {
  std::uint32_t h = (place + 1) * 0x9e3779b1U;
  h = (h ^ (h >> 15)) * 0x85ebca6bU;
  return static_cast<std::uint16_t>(h >> 16);
}

constexpr std::uint32_t kSecond = 1U << 16;  // places of the second signs

// Those of rows of up to 4,096 values.
struct Signs {
  static constexpr std::uint32_t kPlaces = 256;
  std::uint16_t first[kPlaces], second[kPlaces];
};
constexpr Signs all_signs() {
  Signs out{};
  for (std::uint32_t i = 0; i < Signs::kPlaces; ++i) {
    out.first[i] = signs(i);
    out.second[i] = signs(kSecond + i);
  }
  return out;
}
alignas(64) constexpr Signs kSigns = all_signs();

// Vectors of a row that are read as they are.
struct AsTheyAre {
  Floats operator()(const float* x, std::int64_t) const { return load(x); }
};
// Vectors of a row, with signs and scaled.
class Flipped {
 public:
  Flipped(std::uint32_t salt, float by)
      : table_(salt == 0 ? kSigns.first : kSigns.second),
        salt_(salt),
        plus_(floats(by)),
        minus_(floats(-by)) {}
  Floats operator()(const float* x, std::int64_t i) const {
    const std::uint16_t m =
        i < Signs::kPlaces ? table_[i] : signs(salt_ + static_cast<std::uint32_t>(i));
    return load(x) * select(static_cast<Mask>(m), minus_, plus_);
  }

 private:
  const std::uint16_t* table_;
  std::uint32_t salt_;
  Floats plus_, minus_;
};

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
// @param read   reads a vector, given its number in the row
// @param first  number of the first of them
template <int n, class Read>
inline void all_stages(Floats (&v)[n], const float* x, const Read& read, std::int64_t first) {
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) {
    const Floats w = butterfly<2>(butterfly<1>(read(x + 16 * i, first + i)));
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
}

template <int n, class Read>
inline void held(float* x, const Read& read, std::int64_t first) {
  Floats v[n];
  all_stages(v, x, read, first);
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) store(x + 16 * i, v[i]);
}

// The stages of up to `kHeld` vectors of each block; returns how many values these are.
template <class Read, int n = kHeld>
inline std::int64_t first_stages(float* x, std::int64_t all, std::int64_t block, const Read& read) {
  constexpr std::int64_t size = 16 * n;
  if constexpr (n > 1) {
    if (block < size) return first_stages<Read, n / 2>(x, all, block, read);
  }
  for (std::int64_t i = 0; i < all; i += size) held<n>(x + i, read, i / 16);
  return size;
}

// The Hadamard matrix on every block of vectors as `read` gives them.
template <class Read>
void transform(float* x, std::int64_t n, std::int64_t block, const Read& read) {
  std::int64_t h = first_stages(x, n, block, read);
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

}  // namespace

void hadamard_row(float* x, std::int64_t n, std::int64_t block) {
  transform(x, n, block, AsTheyAre());
}

void rotate_row(float* x, std::int64_t n) {
  std::int64_t block = 16;
  while (2 * block <= n) block *= 2;
  const float by = 1.0F / __builtin_sqrtf(static_cast<float>(block));
  transform(x, block, block, Flipped(0, by));
  if (block == n) return;
  transform(x + n - block, block, block, Flipped(kSecond, by));
}

namespace {

// From the bits of the largest absolute value: as integers these compare like floats, with NaN
// above all of them.
struct Rounding {
  explicit Rounding(int top) : finite(top < 0x7f800000) {
    __builtin_memcpy(&most, &top, sizeof most);
    // Values so small that 127 / most overflows count as zeros.
    by = floats(finite && most > 1e-30F ? 127.0F / most : 0.0F);
  }
  Rounded of(Ints total) const { return {finite ? most / 127.0F : __builtin_nanf(""), sum(total)}; }
  bool finite;
  float most;
  Floats by;
};

// n vectors under one Hadamard matrix, rounded as round_to_int8 does.
template <int n>
inline Rounded round_held(const float* x, std::int8_t* values) {
  Floats v[n];
  all_stages(v, x, AsTheyAre(), 0);
  const Ints magnitude = ints(0x7fffffff);
  Ints most = ints(0);
#pragma GCC unroll 8
  for (int i = 0; i < n; ++i) most = max(most, both(bits(v[i]), magnitude));
  const Rounding rounding(largest(most));
  Ints total = ints(0);
#pragma GCC unroll 8
  for (int i = 0; i < n; ++i) {
    const Ints whole = rounded((rounding.finite ? v[i] : floats(0.0F)) * rounding.by);
    total = add(total, whole);
    store_int8(values + 16 * i, first_lanes(16), whole);
  }
  return rounding.of(total);
}

template <int n>
inline void scale_held(const float* x, float by, float* y) {
  Floats v[n];
  all_stages(v, x, AsTheyAre(), 0);
  const Floats factor = floats(by);
#pragma GCC unroll 8
  for (int i = 0; i < n; ++i) store(y + 16 * i, v[i] * factor);
}

}  // namespace

Rounded round_to_int8(const float* x, std::int64_t n, std::int8_t* values) {
  const Ints magnitude = ints(0x7fffffff);
  Ints most = ints(0);
  for (std::int64_t i = 0; i < n; i += 16) {
    most = max(most, both(load_bits(first_lanes(n - i), x + i), magnitude));
  }
  const Rounding rounding(largest(most));
  Ints total = ints(0);
  for (std::int64_t i = 0; i < n; i += 16) {
    const Mask m = first_lanes(n - i);
    const Floats v = rounding.finite ? load(m, x + i) : floats(0.0F);
    const Ints whole = rounded(v * rounding.by);
    total = add(total, whole);
    store_int8(values + i, m, whole);
  }
  return rounding.of(total);
}

Rounded round_head(const float* x, std::int64_t n, std::int8_t* values) {
  if constexpr (kHeld >= 4) {
    if (n == 64) return round_held<4>(x, values);
  }
  if constexpr (kHeld >= 8) {
    if (n == 128) return round_held<8>(x, values);
  }
  float work[kernel::kMostHead];
  __builtin_memcpy(work, x, sizeof(float) * static_cast<std::size_t>(n));
  hadamard_row(work, n, n);
  return round_to_int8(work, n, values);
}

void turn_head_back(const float* x, std::int64_t n, float by, float* y) {
  if constexpr (kHeld >= 4) {
    if (n == 64) return scale_held<4>(x, by, y);
  }
  if constexpr (kHeld >= 8) {
    if (n == 128) return scale_held<8>(x, by, y);
  }
  float work[kernel::kMostHead];
  __builtin_memcpy(work, x, sizeof(float) * static_cast<std::size_t>(n));
  hadamard_row(work, n, n);
  for (std::int64_t i = 0; i < n; i += 16) store(y + i, load(work + i) * floats(by));
}

// The bytes of a row where they go, or at the start of `work` if they are to be streamed from
// there: never past the floats of `work` that are still to be read.
inline std::int8_t* bytes_of(const Int8Rows& out, std::int64_t r, float* work) {
  std::int8_t* const values = out.values + r * out.width;
  const bool lines =
      out.far && out.width % 64 == 0 && reinterpret_cast<std::uintptr_t>(values) % 64 == 0;
  return lines ? reinterpret_cast<std::int8_t*>(work) : values;
}

inline void stream_bytes(const Int8Rows& out, std::int64_t r, const std::int8_t* from) {
  std::int8_t* const values = out.values + r * out.width;
  for (std::int64_t i = 0; from != values && i < out.width; i += 64) stream(values + i, from + i);
}

inline void round_groups(const float* x, const Int8Rows& out, std::int64_t r, float* work) {
  std::int8_t* const to = bytes_of(out, r, work);
  kernel::GroupScale* const groups = out.groups + r * (out.width / kernel::kGroup);
  for (std::int64_t i = 0; i < out.width; i += kernel::kGroup) {
    const Rounded rounded = round_to_int8(x + i, kernel::kGroup, to + i);
    groups[i / kernel::kGroup] = {rounded.scale, rounded.scale * static_cast<float>(rounded.sum)};
  }
  stream_bytes(out, r, to);
}

void quantize_row(const float* x, std::int64_t n, const Int8Rows& out, std::int64_t r,
                  float* work) {
  if (out.grouped) return round_groups(x, out, r, work);
  for (std::int64_t i = 0; (work != x || n < out.width) && i < out.width; i += 16) {
    const Mask m = n > i ? first_lanes(n - i) : static_cast<Mask>(0);
    store(work + i, load(m, x + i));
  }
  rotate_row(work, out.width);
  std::int8_t* const to = bytes_of(out, r, work);
  const Rounded rounded = round_to_int8(work, out.width, to);
  stream_bytes(out, r, to);
  out.scales[r] = {rounded.scale, -128 * rounded.sum};
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
