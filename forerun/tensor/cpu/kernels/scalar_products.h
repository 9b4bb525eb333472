#pragma once

// What the kernels of every processor are tested against: the shared code over plain loops, and
// products as plain sums. Included by one test.

#include <bit>
#include <cmath>
#include <cstdint>

#include "forerun/formats/half.h"
#include "forerun/tensor/cpu/kernels/scalar_vectors.h"
#include "forerun/tensor/cpu/kernels/shared/table.h"

namespace forerun::scalar {

using namespace kernel;

inline void int8_panel(const Int8Panels& w, std::int64_t panel, const Int8Rows& x,
                       std::int64_t rows, float* out, std::int64_t stride, std::int64_t width,
                       bool add, const std::uint8_t* /*next*/) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < width; ++j) {
      std::int32_t dot = 0;
      for (std::int64_t i = 0; i < w.width; ++i) {
        const int weight = w.data[panel * kPanel * w.width + (i / 4 * kPanel + j) * 4 + i % 4];
        dot += (weight - 128) * x.values[r * w.width + i];
      }
      const std::int64_t output = panel * kPanel + j;
      const float y = std::fma(static_cast<float>(dot), w.scales[output] * x.scales[r].scale,
                               w.bias != nullptr ? w.bias[output] : 0.0F);
      out[r * stride + j] = add ? y + out[r * stride + j] : y;
    }
  }
}

inline void int4_panel(const Int4Panels& w, std::int64_t panel, const Int8Rows& x,
                       std::int64_t rows, float* out, std::int64_t stride, std::int64_t width,
                       bool add, const std::uint8_t* /*next*/) {
  const std::int64_t groups = w.width / kGroup;
  const auto* const all = reinterpret_cast<const Int4Group*>(w.data) + 3 * panel * groups;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < width; ++j) {
      float sum = 0.0F;
      for (std::int64_t g = 0; g < groups; ++g) {
        const Int4Group& group = all[3 * g + j / 16];
        std::int32_t dot = 0;
        for (std::int64_t i = 0; i < kGroup; ++i) {
          const int both = group.codes[i / 8][j % 16][i % 4];
          const int code = i % 8 < 4 ? both & 15 : both >> 4;
          dot += (w.e2m1 ? kE2m1Levels[code] : code) * x.values[r * w.width + g * kGroup + i];
        }
        const GroupScale& of = x.groups[r * groups + g];
        sum = std::fma(static_cast<float>(dot), float_of_f16(group.scale[j % 16]) * of.scale, sum);
        sum = std::fma(float_of_f16(group.least[j % 16]), of.sum, sum);
      }
      const float y = w.bias != nullptr ? sum + w.bias[panel * kPanel + j] : sum;
      out[r * stride + j] = add ? y + out[r * stride + j] : y;
    }
  }
}

inline void key_product(const KeyProduct& p) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t key = 0; key < kKeys; ++key) {
      std::int32_t dot = 0;
      for (std::int64_t d = 0; d < 4 * p.quads; ++d) {
        dot += (p.keys[(d / 4 * kKeys + key) * 4 + d % 4] - 128) * p.q[r * 4 * p.quads + d];
      }
      p.out[r * p.stride + key] = static_cast<float>(dot) * p.key_scales[key];
    }
  }
}

inline void value_product(const ValueProduct& p) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t d = 0; d < p.columns; ++d) {
      std::int32_t dot = 0;
      for (std::int64_t i = 0; i < p.pages * kKeys; ++i) {
        const std::int64_t key = i % kKeys;
        dot += p.weights[r * p.stride + i] *
               p.values[i / kKeys][(key / 4 * p.columns + d) * 4 + key % 4];
      }
      p.out[r * p.columns + d] = static_cast<float>(dot) * p.units[r];
    }
  }
}

inline void pair_product_emulated(const PairProduct& p) {
  const auto wide = [](std::uint16_t x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
  };
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t j = 0; j < p.columns; ++j) {
      float* c = p.c + r * p.c_stride + j;
      float total = p.add ? *c : p.start != nullptr ? p.start[j] : 0.0F;
      for (std::int64_t k = 0; k < p.pairs; ++k) {
        const std::uint16_t *a = p.a + r * p.a_stride + 2 * k, *b = p.b + k * p.b_stride + 2 * j;
        total = std::fma(wide(a[0]), wide(b[0]), total);
        total = std::fma(wide(a[1]), wide(b[1]), total);
      }
      *c = total;
    }
  }
}

}  // namespace forerun::scalar
