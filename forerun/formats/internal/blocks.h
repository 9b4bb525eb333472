#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "forerun/formats/half.h"

/// Decoders of single GGML blocks: `decode(block, out)` reads kBytes and writes kElements float32.
/// Every product here is exact in float32 (at most 11 + 6 + 7 significant bits, exponents far from
/// the ends), so whether the compiler fuses a multiply with the add after it cannot change a
/// result. Source: the layouts of ggml-common.h and quants.py in ggml-org's ggml and llama.cpp.
namespace forerun::internal {

template <class T>
T load(const std::uint8_t* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline float load_f16(const std::uint8_t* at) noexcept {
  return float_of_f16(load<std::uint16_t>(at));
}

struct BlockF16 {
  static constexpr int kElements = 1, kBytes = 2;
  static void decode(const std::uint8_t* block, float* out) noexcept { *out = load_f16(block); }
};

struct BlockBF16 {
  static constexpr int kElements = 1, kBytes = 2;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    *out = float_of_bf16(load<std::uint16_t>(block));
  }
};

/// Q8_0: f16 d; 32 x int8 q; value d q.
struct BlockQ80 {
  static constexpr int kElements = 32, kBytes = 34;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block);
    for (int i = 0; i < 32; ++i) {
      out[i] = static_cast<float>(static_cast<std::int8_t>(block[2 + i])) * d;
    }
  }
};

/// Q4_0: f16 d; 16 bytes, low nibbles first; value d (q - 8).
struct BlockQ40 {
  static constexpr int kElements = 32, kBytes = 18;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block);
    for (int i = 0; i < 16; ++i) {
      const int q = block[2 + i];
      out[i] = d * static_cast<float>((q & 15) - 8);
      out[16 + i] = d * static_cast<float>((q >> 4) - 8);
    }
  }
};

/// Q4_1: f16 d, f16 m; 16 bytes, low nibbles first; value d q + m.
struct BlockQ41 {
  static constexpr int kElements = 32, kBytes = 20;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block), m = load_f16(block + 2);
    for (int i = 0; i < 16; ++i) {
      const int q = block[4 + i];
      out[i] = d * static_cast<float>(q & 15) + m;
      out[16 + i] = d * static_cast<float>(q >> 4) + m;
    }
  }
};

/// Q5_0: f16 d; 32 high bits; 16 bytes, low nibbles first; value d (q - 16).
struct BlockQ50 {
  static constexpr int kElements = 32, kBytes = 22;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block);
    const auto high = load<std::uint32_t>(block + 2);
    for (int i = 0; i < 16; ++i) {
      const std::uint32_t q = block[6 + i];
      const std::uint32_t low_half = (q & 15) | (high >> i & 1) << 4;
      const std::uint32_t high_half = q >> 4 | (high >> (16 + i) & 1) << 4;
      out[i] = d * static_cast<float>(static_cast<int>(low_half) - 16);
      out[16 + i] = d * static_cast<float>(static_cast<int>(high_half) - 16);
    }
  }
};

/// Q5_1: f16 d, f16 m; 32 high bits; 16 bytes, low nibbles first; value d q + m.
struct BlockQ51 {
  static constexpr int kElements = 32, kBytes = 24;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block), m = load_f16(block + 2);
    const auto high = load<std::uint32_t>(block + 4);
    for (int i = 0; i < 16; ++i) {
      const std::uint32_t q = block[8 + i];
      const std::uint32_t low_half = (q & 15) | (high >> i & 1) << 4;
      const std::uint32_t high_half = q >> 4 | (high >> (16 + i) & 1) << 4;
      out[i] = d * static_cast<float>(static_cast<int>(low_half)) + m;
      out[16 + i] = d * static_cast<float>(static_cast<int>(high_half)) + m;
    }
  }
};

struct ScaleMin {
  float scale, min;
};

/// Pair `j` of the eight 6-bit (scale, min) pairs that Q4_K and Q5_K pack into 12 bytes.
inline ScaleMin scale_min(const std::uint8_t* packed, std::ptrdiff_t j) noexcept {
  if (j < 4) {
    return {static_cast<float>(packed[j] & 63), static_cast<float>(packed[4 + j] & 63)};
  }
  const int both = packed[4 + j];
  return {static_cast<float>((both & 15) | (packed[j - 4] >> 2 & 0x30)),
          static_cast<float>(both >> 4 | (packed[j] >> 2 & 0x30))};
}

/// Q4_K: f16 d, f16 dmin; 12 bytes of scales; 128 bytes of nibbles, 32 low then 32 high per 32
/// bytes; value d scale q - dmin min, with a (scale, min) pair per 32 elements.
struct BlockQ4K {
  static constexpr int kElements = 256, kBytes = 144;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block), dmin = load_f16(block + 2);
    for (std::ptrdiff_t j = 0; j < 8; j += 2) {
      const ScaleMin a = scale_min(block + 4, j), b = scale_min(block + 4, j + 1);
      const float scale_a = d * a.scale, min_a = dmin * a.min;
      const float scale_b = d * b.scale, min_b = dmin * b.min;
      const std::uint8_t* nibbles = block + 16 + 16 * j;
      float* part = out + 32 * j;
      for (int i = 0; i < 32; ++i) {
        part[i] = scale_a * static_cast<float>(nibbles[i] & 15) - min_a;
        part[32 + i] = scale_b * static_cast<float>(nibbles[i] >> 4) - min_b;
      }
    }
  }
};

/// Q5_K: as Q4_K with 32 bytes of high bits before the nibbles: bit j of byte i belongs to element
/// 32 j + i.
struct BlockQ5K {
  static constexpr int kElements = 256, kBytes = 176;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block), dmin = load_f16(block + 2);
    const std::uint8_t* high = block + 16;
    for (std::ptrdiff_t j = 0; j < 8; j += 2) {
      const ScaleMin a = scale_min(block + 4, j), b = scale_min(block + 4, j + 1);
      const float scale_a = d * a.scale, min_a = dmin * a.min;
      const float scale_b = d * b.scale, min_b = dmin * b.min;
      const std::uint8_t* nibbles = block + 48 + 16 * j;
      float* part = out + 32 * j;
      for (int i = 0; i < 32; ++i) {
        const int low = (nibbles[i] & 15) | (high[i] >> j & 1) << 4;
        const int top = nibbles[i] >> 4 | (high[i] >> (j + 1) & 1) << 4;
        part[i] = scale_a * static_cast<float>(low) - min_a;
        part[32 + i] = scale_b * static_cast<float>(top) - min_b;
      }
    }
  }
};

/// Q6_K: 128 bytes of low nibbles, 64 of high bit pairs, 16 x int8 scales, f16 d; value
/// d scale (q - 32), with a scale per 16 elements. Each half of 128 elements takes 64 + 32 bytes:
/// its element 32 g + i has nibble g / 2 of byte 32 (g % 2) + i, and bit pair g of byte i.
struct BlockQ6K {
  static constexpr int kElements = 256, kBytes = 210;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block + 208);
    for (std::ptrdiff_t half = 0; half < 2; ++half) {
      const std::uint8_t* low = block + 64 * half;
      const std::uint8_t* high = block + 128 + 32 * half;
      for (std::ptrdiff_t g = 0; g < 4; ++g) {
        const std::uint8_t* scales = block + 192 + 8 * half + 2 * g;
        const float first = d * static_cast<float>(static_cast<std::int8_t>(scales[0]));
        const float second = d * static_cast<float>(static_cast<std::int8_t>(scales[1]));
        const std::uint8_t* nibbles = low + 32 * (g % 2);
        const std::ptrdiff_t nibble_shift = 4 * (g / 2), pair_shift = 2 * g;
        float* part = out + 128 * half + 32 * g;
        for (int i = 0; i < 32; ++i) {
          const int q = (nibbles[i] >> nibble_shift & 15) | (high[i] >> pair_shift & 3) << 4;
          part[i] = (i < 16 ? first : second) * static_cast<float>(q - 32);
        }
      }
    }
  }
};

/// Q2_K: 16 bytes with a 4-bit (scale, min) pair per 16 elements, scales in the low nibbles; 64
/// bytes of bit pairs; f16 d, f16 dmin; value d scale q - dmin min. Element 128 h + 32 g + i is bit
/// pair g of byte 32 h + i.
struct BlockQ2K {
  static constexpr int kElements = 256, kBytes = 84;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block + 80), dmin = load_f16(block + 82);
    for (std::ptrdiff_t part = 0; part < 16; ++part) {  // of 16 elements
      const float scale = d * static_cast<float>(block[part] & 15);
      const float least = dmin * static_cast<float>(block[part] >> 4);
      const std::uint8_t* pairs = block + 16 + 32 * (part / 8) + 16 * (part % 2);
      const std::ptrdiff_t shift = part / 2 % 4 * 2;
      for (std::ptrdiff_t i = 0; i < 16; ++i) {
        out[16 * part + i] = scale * static_cast<float>(pairs[i] >> shift & 3) - least;
      }
    }
  }
};

/// Scale `j` of the sixteen 6-bit ones that Q3_K packs into 12 bytes, without the 32 that is taken
/// off: four low bits in a nibble of the first 8 bytes, two high ones in the last 4.
inline int packed_scale(const std::uint8_t* packed, std::ptrdiff_t j) noexcept {
  return (packed[j % 8] >> (4 * (j / 8)) & 15) | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4;
}

/// Q3_K: 32 bytes of high bits, of which a clear one takes 4 off; 64 bytes of bit pairs as in Q2_K;
/// 12 bytes of scales, one per 16 elements; f16 d; value d (scale - 32) q. The high bit of element
/// 32 g + i is bit g of byte i.
struct BlockQ3K {
  static constexpr int kElements = 256, kBytes = 110;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block + 108);
    for (std::ptrdiff_t part = 0; part < 16; ++part) {  // of 16 elements
      const float scale = d * static_cast<float>(packed_scale(block + 96, part) - 32);
      const std::uint8_t* high = block + 16 * (part % 2);
      const std::uint8_t* pairs = block + 32 + 32 * (part / 8) + 16 * (part % 2);
      const std::ptrdiff_t shift = part / 2 % 4 * 2;
      for (std::ptrdiff_t i = 0; i < 16; ++i) {
        const int q = (pairs[i] >> shift & 3) - ((high[i] >> (part / 2) & 1) != 0 ? 0 : 4);
        out[16 * part + i] = scale * static_cast<float>(q);
      }
    }
  }
};

/// The 16 levels of IQ4_NL and IQ4_XS.
inline constexpr float kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

/// IQ4_NL: f16 d; 16 bytes, low nibbles first; value d level[q].
struct BlockIQ4NL {
  static constexpr int kElements = 32, kBytes = 18;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block);
    for (int i = 0; i < 16; ++i) {
      out[i] = d * kIq4Levels[block[2 + i] & 15];
      out[16 + i] = d * kIq4Levels[block[2 + i] >> 4];
    }
  }
};

/// IQ4_XS: f16 d; 2 bytes with the two high and 4 with the four low bits of a scale per 32
/// elements; 128 bytes as in IQ4_NL; value d (scale - 32) level[q].
struct BlockIQ4XS {
  static constexpr int kElements = 256, kBytes = 136;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float d = load_f16(block);
    const int high = load<std::uint16_t>(block + 2);
    for (std::ptrdiff_t part = 0; part < 8; ++part) {  // of 32 elements
      const int low = block[4 + part / 2] >> (4 * (part % 2)) & 15;
      const float scale = d * static_cast<float>((low | (high >> (2 * part) & 3) << 4) - 32);
      const std::uint8_t* levels = block + 8 + 16 * part;
      for (std::ptrdiff_t i = 0; i < 16; ++i) {
        out[32 * part + i] = scale * kIq4Levels[levels[i] & 15];
        out[32 * part + 16 + i] = scale * kIq4Levels[levels[i] >> 4];
      }
    }
  }
};

/// What the 16 codes of E2M1 stand for, twice over: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and the same below
/// 0.
inline constexpr std::int8_t kE2m1Halves[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                0, -1, -2, -3, -4, -6, -8, -12};

/// Half the scale of a block of MXFP4, 2^(e - 128); NaN for e = 255. Source: OCP Microscaling
/// Formats 1.0, sections 5.3.3 and 5.4.1.
inline float half_e8m0(std::uint8_t e) noexcept {
  return e == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, e - 128);
}

/// MXFP4: e8m0 scale; 16 bytes, low nibbles first; value 2^(e - 127) e2m1[q].
struct BlockMXFP4 {
  static constexpr int kElements = 32, kBytes = 17;
  static void decode(const std::uint8_t* block, float* out) noexcept {
    const float half = half_e8m0(block[0]);
    for (int i = 0; i < 16; ++i) {
      out[i] = half * static_cast<float>(kE2m1Halves[block[1 + i] & 15]);
      out[16 + i] = half * static_cast<float>(kE2m1Halves[block[1 + i] >> 4]);
    }
  }
};

}  // namespace forerun::internal
