#pragma once

// The loops, over vectors of kLanes floats; included once for each kind of processor, with its
// compiler options, hence the unnamed namespace.
#include <cstdint>
#include <cstring>

#include "forerun/tensor/cpu/rows/row_kernels.h"

namespace forerun::rows {
namespace {

constexpr int kLanes = FORERUN_ROW_LANES;
constexpr int kVectors = kPanel / kLanes;  // of a panel

typedef float F __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t I __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t U __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t HalfU __attribute__((vector_size(kPanel / 2 * 4)));

inline F load(const float* p) {
  F v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, F v) { std::memcpy(p, &v, sizeof v); }
inline F splat(float x) { return F{} + x; }

// Vector `v` of the weights of one input in a panel.
template <bool kHalf>
inline F weight(const void* weights, std::int64_t at, int v) {
  if constexpr (kHalf) {
    // Word j holds outputs j and j + 8, in its low and its high half.
    const std::uint32_t* const words = static_cast<const std::uint32_t*>(weights) + at / 2;
    U wide;
    if constexpr (kLanes == kPanel) {
      // By shuffles: GCC puts together what memcpy fills by halves in memory, which stalls the
      // load.
      U shifts{};
      for (int i = 0; i < kLanes / 2; ++i) shifts[i] = 16;
      HalfU half;
      std::memcpy(&half, words, sizeof half);
      const auto both =
          __builtin_shufflevector(half, half, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      std::memcpy(&wide, &both, sizeof wide);
      wide = wide << shifts & 0xffff0000U;
    } else {
      constexpr int kLoads = kLanes < kPanel ? kPanel / 2 / kLanes : 1;  // 1: never reached
      std::memcpy(&wide, words + v % kLoads * kLanes, sizeof wide);
      wide = v < kLoads ? wide << 16 : wide & 0xffff0000U;
    }
    F out;
    std::memcpy(&out, &wide, sizeof out);
    return out;
  } else {
    return load(static_cast<const float*>(weights) + at + v * kLanes);
  }
}

// kRows rows by kPanels panels from `panel` on. A sum goes over the inputs in order, from the bias
// on, in every shape.
template <bool kHalf, int kRows, int kPanels>
inline void tile(const Product& p, std::int64_t row, std::int64_t panel) {
  constexpr int kColumns = kPanels * kVectors;
  F sums[kRows][kColumns];
  for (int c = 0; c < kColumns; ++c) {
    const F bias = load(p.bias + panel * kPanel + c * kLanes);
    for (int r = 0; r < kRows; ++r) sums[r][c] = bias;
  }
  const float* const in = p.in + row * p.in_stride;
  for (std::int64_t k = 0; k < p.inputs; ++k) {
    F w[kColumns];
    for (int b = 0; b < kPanels; ++b) {
      for (int v = 0; v < kVectors; ++v) {
        w[b * kVectors + v] = weight<kHalf>(p.weights, ((panel + b) * p.inputs + k) * kPanel, v);
      }
    }
    // Row by row: registers are for the sums, and one value of an input at a time.
    for (int r = 0; r < kRows; ++r) {
      const float x = in[r * p.in_stride + k];
      for (int c = 0; c < kColumns; ++c) sums[r][c] += w[c] * x;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      store(p.out + (row + r) * p.out_stride + panel * kPanel + c * kLanes, sums[r][c]);
    }
  }
}

// All panels for kRows rows; as many panels at once as there are registers for.
template <bool kHalf, int kRows>
inline void rows_of(const Product& p, std::int64_t row) {
  constexpr int kPanels = (kRows == 1 ? 4 : kRows == 2 ? 2 : 1) * (kLanes == kPanel ? 2 : 1);
  std::int64_t panel = p.first_panel;
  for (; panel + kPanels <= p.last_panel; panel += kPanels) {
    tile<kHalf, kRows, kPanels>(p, row, panel);
  }
  for (; panel < p.last_panel; ++panel) tile<kHalf, kRows, 1>(p, row, panel);
}

template <bool kHalf>
void product_of(const Product& p) {
  constexpr int kMost = 6;
  std::int64_t row = 0;
  // Panels stay in the first cache while all rows go by.
  if (p.rows >= kMost) {
    constexpr int kPanels = kLanes == kPanel ? 2 : 1;
    const std::int64_t whole = p.rows - p.rows % kMost;
    std::int64_t panel = p.first_panel;
    for (; panel + kPanels <= p.last_panel; panel += kPanels) {
      for (row = 0; row < whole; row += kMost) tile<kHalf, kMost, kPanels>(p, row, panel);
    }
    for (; panel < p.last_panel; ++panel) {
      for (row = 0; row < whole; row += kMost) tile<kHalf, kMost, 1>(p, row, panel);
    }
    row = whole;
  }
  switch (p.rows - row) {
    case 1:
      return rows_of<kHalf, 1>(p, row);
    case 2:
      return rows_of<kHalf, 2>(p, row);
    case 3:
      return rows_of<kHalf, 3>(p, row);
    case 4:
      return rows_of<kHalf, 4>(p, row);
    case 5:
      return rows_of<kHalf, 5>(p, row);
    default:
      return;
  }
}

void product(const Product& p) { p.half ? product_of<true>(p) : product_of<false>(p); }

inline float sum_of(F v) {
  float out = 0.0F;
  for (int i = 0; i < kLanes; ++i) out += v[i];
  return out;
}

void norm(const Norm& n) {
  F sum{};
  for (std::int64_t i = 0; i < n.dim; i += kLanes) sum += load(n.x + i);
  const float mean = sum_of(sum) / static_cast<float>(n.dim);
  F squares{};
  for (std::int64_t i = 0; i < n.dim; i += kLanes) {
    const F d = load(n.x + i) - mean;
    squares += d * d;
  }
  const float variance = sum_of(squares) / static_cast<float>(n.dim);
  const float factor = 1.0F / __builtin_sqrtf(variance + n.eps);
  for (std::int64_t i = 0; i < n.dim; i += kLanes) {
    F y = (load(n.x + i) - mean) * factor;
    if (n.weight != nullptr) y = y * load(n.weight + i) + load(n.bias + i);
    if (n.shift != nullptr) y = y * (load(n.scale + i) + 1.0F) + load(n.shift + i);
    store(n.out + i, y);
  }
}

// exp to 2 ulp for arguments up to 88, 0 below -87 or so: 2^n times a polynomial of the rest.
inline F exp_of(F x) {
  x = x < -87.0F ? splat(-87.0F) : x;
  x = x > 88.0F ? splat(88.0F) : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: the sum's last bits are the whole number
  const F shifted = x * 1.44269504F + kRound;
  const F n = shifted - kRound;
  const F r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  F p = splat(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  I bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  const I power = (bits << 23) + (127 << 23);  // the high bits of kRound fall out
  F scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

void silu(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const F v = load(x + i);
    store(x + i, v / (exp_of(-v) + 1.0F));
  }
}

// erf to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26).
inline F erf_of(F x) {
  const F size = x < 0.0F ? -x : x;
  const F t = 1.0F / (size * 0.3275911F + 1.0F);
  F p = splat(1.061405429F);
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const F y = 1.0F - p * t * exp_of(-size * size);
  return x < 0.0F ? -y : y;
}

void gelu(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const F v = load(x + i);
    store(x + i, v * 0.5F * (erf_of(v * 0.70710678F) + 1.0F));
  }
}

void add(const float* a, const float* b, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += kLanes) store(out + i, load(a + i) + load(b + i));
}

void add_gated(const float* gate, const float* y, std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    store(x + i, load(x + i) + load(gate + i) * load(y + i));
  }
}

inline float dot(const float* a, const float* b, std::int64_t n) {
  F sum{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum += load(a + i) * load(b + i);
  float out = sum_of(sum);
  for (; i < n; ++i) out += a[i] * b[i];
  return out;
}

// scores := exp(scores - largest), and their sum; those after n become 0.
inline float softmax(float* scores, std::int64_t n) {
  float largest = scores[0];
  for (std::int64_t j = 1; j < n; ++j) largest = scores[j] > largest ? scores[j] : largest;
  for (std::int64_t j = n; j % kPanel != 0; ++j) scores[j] = -1e30F;
  F sum{};
  for (std::int64_t j = 0; j < n; j += kLanes) {
    F e = exp_of(load(scores + j) - largest);
    // exp_of stops at exp(-87), which is nothing beside the largest's 1 but not 0.
    e = load(scores + j) - largest < -87.0F ? F{} : e;
    store(scores + j, e);
    sum += e;
  }
  return sum_of(sum);
}

void attention(const Attention& a) {
  const std::int64_t width = a.heads * a.head_dim;
  for (std::int64_t h = 0; h < a.heads; ++h) {
    const std::int64_t at = h * a.head_dim;
    for (std::int64_t j = 0; j < a.n; ++j) {
      a.scores[j] = a.scale * dot(a.q + at, a.keys + j * width + at, a.head_dim);
    }
    const float factor = 1.0F / softmax(a.scores, a.n);
    std::int64_t i = 0;
    for (; i + kLanes <= a.head_dim; i += kLanes) {
      F sum{};
      for (std::int64_t j = 0; j < a.n; ++j) {
        sum += load(a.values + j * width + at + i) * a.scores[j];
      }
      store(a.out + at + i, sum * factor);
    }
    for (; i < a.head_dim; ++i) {
      float sum = 0.0F;
      for (std::int64_t j = 0; j < a.n; ++j) sum += a.values[j * width + at + i] * a.scores[j];
      a.out[at + i] = sum * factor;
    }
  }
}

constexpr Kernels table(const char* name) {
  return {.name = name,
          .product = product,
          .norm = norm,
          .attention = attention,
          .silu = silu,
          .gelu = gelu,
          .add = add,
          .add_gated = add_gated};
}

}  // namespace
}  // namespace forerun::rows
