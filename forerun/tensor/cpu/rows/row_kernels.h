#pragma once

#include <cstdint>

/// Inner loops over rows of float32, for networks small enough that one row at a time counts. Each
/// row is computed by the same operations in the same order, whatever the number of rows.
namespace forerun::rows {

/// Outputs of a panel: a matrix is packed as panels [inputs, 16], the last one filled with zeros.
inline constexpr std::int64_t kPanel = 16;

/// out = in * weights + bias for some panels of a matrix.
struct Product {
  const void* weights;  ///< [panels, inputs, 16], aligned to 64 bytes
  /// They are bfloat16, outputs j and j + 8 of an input side by side, else float32.
  bool half;
  const float* bias;  ///< [panels * 16]
  std::int64_t inputs, first_panel, last_panel;
  const float* in;  ///< [rows, in_stride]
  std::int64_t in_stride;
  float* out;  ///< [rows, out_stride], whole panels are written
  std::int64_t out_stride, rows;
};

/// (x - mean) / sqrt(variance + eps) of a row, by weights and then by a modulation, of which either
/// may be null.
struct Norm {
  const float* x;
  std::int64_t dim;  ///< a multiple of 16, as everywhere below
  float eps;
  const float *weight, *bias;  ///< y = x weight + bias
  const float *shift, *scale;  ///< y = x (1 + scale) + shift
  float* out;
};

/// Queries of one row over keys and values, a head after the other.
struct Attention {
  const float* q;              ///< [heads * head_dim]
  const float *keys, *values;  ///< [n, heads * head_dim]
  std::int64_t n, heads, head_dim;
  float scale;
  float* scores;  ///< room for n rounded up to 16
  float* out;     ///< [heads * head_dim]
};

/// The functions for one kind of processor.
struct Kernels {
  const char* name;
  void (*product)(const Product&);
  void (*norm)(const Norm&);
  void (*attention)(const Attention&);
  void (*silu)(float* x, std::int64_t n);                                   ///< in place
  void (*gelu)(float* x, std::int64_t n);                                   ///< in place, by erf
  void (*add)(const float* a, const float* b, std::int64_t n, float* out);  ///< a + b
  void (*add_gated)(const float* gate, const float* y, std::int64_t n, float* x);  ///< x += gate y
};

/// The fastest for this processor.
const Kernels& kernels();
/// One for any processor; AVX2 and AVX-512 where the processor has them, else null.
const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace forerun::rows
