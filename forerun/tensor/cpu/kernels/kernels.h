#pragma once

#include <cstdint>

/// What the kernels of this folder work on: plain pointers and sizes only. The files behind this
/// header are compiled for processors that not every x86-64 is, so they share no inline function
/// with the rest that could be emitted there.
namespace forerun::kernel {

constexpr std::int64_t kPanel = 48;      ///< outputs computed together
constexpr std::int64_t kKeys = 64;       ///< keys of a page of the cache
constexpr std::int64_t kChunk = 256;     ///< keys of one partial softmax
constexpr std::int64_t kGroup = 32;      ///< inputs that share a scale where rows are grouped
constexpr std::int64_t kMostHead = 256;  ///< values of a head in the kernels for heads

/// Values of a rotated row: k, padded with zeros to a multiple of 16.
constexpr std::int64_t rotated_width(std::int64_t k) noexcept { return (k + 15) / 16 * 16; }

/// What a row of int8 activations is multiplied by, and -128 times the sum of its values. A cache
/// line of its own: threads that round neighbouring rows would take a shared one from each other.
struct alignas(64) RowScale {
  float scale;
  std::int32_t offset;
};

/// Of a group of a row: what its values are multiplied by, and that times their sum.
struct GroupScale {
  float scale, sum;
};

/// Rows of int8 activations, rotated: x[i] = values[i] * scale of the row. Or, if `grouped`, as
/// they are: x[i] = values[i] * scale of its group.
struct Int8Rows {
  std::int8_t* values;  ///< [rows, width], within +-127
  RowScale* scales;     ///< [rows]
  std::int64_t width;   ///< a multiple of 16
  /// [rows, width]: of every four values the first, third, second and fourth, for several rows
  /// where Kernels::needs_halves; else null.
  std::int16_t* halves;
  /// What other threads read, these rows and products of them, is stored past the caches where it
  /// fills whole lines (where Kernels::streams; with the same bits). A later release by this thread
  /// needs a fence before it: ThreadTeam has one.
  bool far = false;
  GroupScale* groups = nullptr;  ///< [rows, width / kGroup]; or null: never grouped
  bool grouped = false;
};

/// The rows from `row` on.
inline Int8Rows rows_from(const Int8Rows& x, std::int64_t row) noexcept {
  return {x.values + row * x.width,
          x.scales + row,
          x.width,
          x.halves != nullptr ? x.halves + row * x.width : nullptr,
          x.far,
          x.groups != nullptr ? x.groups + row * (x.width / kGroup) : nullptr,
          x.grouped};
}

/// A row in int8: its scale, and the sum of the rounded values.
struct Rounded {
  float scale;
  std::int32_t sum;
};

/// A matrix [n, k] of int8 weights within +-127, rotated, one scale an output, stored as
/// weight + 128 in panels of 48 outputs: [panels][width / 4][48][4].
struct Int8Panels {
  const std::uint8_t* data;
  const float* scales;  ///< [panels * 48]
  const float* bias;    ///< [panels * 48] or null
  std::int64_t width;   ///< at most 65,536: sums of 255 * 127 fit 32 bits
};

/// 16 outputs' weights of a group: value = scale * level + least.
struct Int4Group {
  std::uint16_t scale[16], least[16];  ///< float16
  /// [pairs of quads][outputs][4]: codes of inputs 8 p to 8 p + 3 in the lower four bits, of the
  /// next four in the upper ones.
  std::uint8_t codes[kGroup / 8][16][4];
};

/// The levels of codes of E2M1, which MXFP4 has: 12 more than twice the number. Of others the code
/// is the level.
constexpr std::uint8_t kE2m1Levels[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                          12, 11, 10, 9,  8,  6,  4,  0};

/// A matrix [n, k] of 4-bit weights in groups, stored in panels of 48 outputs: [panels][width / 32]
/// [3].
struct Int4Panels {
  const std::uint8_t* data;  ///< Int4Group, aligned to 64 bytes
  const float* bias;         ///< [panels * 48] or null
  std::int64_t width;        ///< a multiple of 32
  bool e2m1 = false;         ///< codes are of E2M1
};
constexpr std::int64_t kInt4GroupBytes = kPanel / 16 * sizeof(Int4Group);  ///< of a panel

/// Scores of rows of queries with the keys of a page: out[r, j] = key_scales[j] * q_r k_j. Exact
/// for keys and queries within +-127; a page's other bytes give any score.
struct KeyProduct {
  const std::int8_t* q;        ///< [rows, 4 * quads]
  const std::int32_t* starts;  ///< [rows]: -128 times the sum of the row
  const std::uint8_t* keys;    ///< [quads][64][4]: key + 128
  const float* key_scales;     ///< [64]
  float* out;                  ///< [rows, stride]
  std::int64_t stride, rows, quads;
  /// As large as the keys, to prefetch; or null.
  const std::uint8_t *next, *also;
};

/// The visible keys of a chunk: [begin, end), or none.
struct Seen {
  std::int64_t begin, end;
};

/// A softmax that is not yet normalised: p = exp(s - max).
struct SoftmaxPart {
  float max;  ///< -infinity if no score was above it
  float sum;  ///< of p
};

/// Weighted sums of values: out[r, d] = unit * sum over keys of weights[r, key] * value[key, d]. At
/// most 256 weights of a row are not zero: their sums are exact, in whatever order.
struct ValueProduct {
  const std::uint8_t* weights;  ///< [rows][stride], of which 64 for each page
  std::int64_t stride;
  const std::int8_t* const* values;   ///< one page each: [16][columns][4]
  std::int64_t pages, rows, columns;  ///< columns: a multiple of 16
  const float* units;                 ///< [rows]
  float* out;                         ///< [rows, columns]
  const std::uint8_t* next;           ///< a page of keys to prefetch; or null
};

/// C[r, j] (+)= sum over pairs p of A[r, 2p] B[p, j, 0] + A[r, 2p + 1] B[p, j, 1], bf16 products,
/// float32 sums.
struct PairProduct {
  const std::uint16_t* a;  ///< [rows, 2 * pairs] bf16
  std::int64_t a_stride;   ///< values, even
  const std::uint16_t* b;  ///< [pairs][columns][2] bf16
  std::int64_t b_stride;   ///< values from one pair to the next
  float* c;                ///< [rows, columns]
  std::int64_t c_stride;
  std::int64_t rows, pairs;
  std::int64_t columns;  ///< a multiple of 16
  bool add;
  const std::uint16_t* next;     ///< as large as b, to prefetch; or null
  const float* start = nullptr;  ///< [columns] initial values of the sums unless added; or null
};

}  // namespace forerun::kernel

namespace forerun {

/// The inner loops of the int8 engine and of images in bf16, for one kind of vectors.
///
/// Every function computes a row by the same operations in the same order, whatever the other rows:
/// outputs do not depend, bit for bit, on the number of rows of a pass or on threads. Nor do they
/// depend on the kind of vectors, but for `pair_product`, of which there is a second kind
/// (native bf16 products) that rounds otherwise.
struct Kernels {
  const char* name;   ///< of the instructions: "AVX2"
  bool needs_halves;  ///< int8_panel reads Int8Rows::halves of several rows
  bool streams;       ///< has stores past the caches
  /// From so many rows on panels that follow each other in memory are read faster if int8_panel
  /// prefetches them: with fewer the processor is ahead by itself.
  std::int64_t prefetched_rows = 1;
  std::int64_t prefetched_rows4 = 1;  ///< the same of int4_panel

  /// x = x H, with H the Hadamard matrix (entries +-1) on every `block` values: it multiplies the
  /// product of two vectors by `block`, and spreads an outlier over its block.
  /// @param block  a power of two from 16 on; n is a multiple of it
  void (*hadamard_row)(float* x, std::int64_t n, std::int64_t block);

  /// A fixed orthogonal transform in place (Hadamard rotation). It keeps the products of rows and
  /// spreads a few large values over all, so that one scale serves a row. Random signs, a Hadamard
  /// matrix on the largest power of two from the start, signs again, a Hadamard matrix up to the
  /// end: without the second signs the second matrix would undo the spread of the first.
  /// Source: Ashkboos et al. 2024, QuaRot.
  /// @param n  a multiple of 16
  void (*rotate_row)(float* x, std::int64_t n);

  /// values[i] = round(x[i] / scale), all within +-127. If a value is not finite the scale is NaN
  /// and the values are zeros.
  kernel::Rounded (*round_to_int8)(const float* x, std::int64_t n, std::int8_t* values);

  /// hadamard_row and round_to_int8 of a head, which stays as it is.
  /// @param n  a power of two from 16 to kMostHead, which is the block
  kernel::Rounded (*round_head)(const float* x, std::int64_t n, std::int8_t* values);
  /// y = (x H) * by, with H and n as in round_head; `y` may be `x`.
  void (*turn_head_back)(const float* x, std::int64_t n, float by, float* y);

  /// Rotates and rounds `n` values into row `r`; if `out.grouped` rounds them by groups, and n is
  /// out.width. NaN and infinity make NaN outputs, never a crash.
  /// @param work  room for out.width floats, which hold nothing of use then; may be x itself if
  /// that is as long and no longer needed
  void (*quantize_row)(const float* x, std::int64_t n, const kernel::Int8Rows& out, std::int64_t r,
                       float* work);
  /// The same after an RMS norm: x / sqrt(mean(x^2) + eps) * weight.
  void (*norm_quantize_row)(const float* x, const float* weight, float eps, std::int64_t k,
                            const kernel::Int8Rows& out, std::int64_t r, float* work);
  void (*rms_norm_row)(const float* x, const float* weight, float eps, std::int64_t k, float* y);
  /// Products of `rows` rows with `n` weight rows, all of k values, in float32:
  /// out[r * stride + j] = w_j x_r.
  void (*dot_rows)(const float* w, std::int64_t n, std::int64_t k, const float* x,
                   std::int64_t rows, float* out, std::int64_t stride);
  void (*add_row)(const float* x, std::int64_t n, float* y);  ///< y += x
  void (*scale_row)(float* x, std::int64_t n, float by);      ///< x *= by
  /// Rotary embedding: dimension j is paired with j + half. `y` may be `x`.
  void (*rope_row)(const float* x, const float* cos, const float* sin, std::int64_t half, float* y);

  /// out = activation(gate) * up. `far`: as Int8Rows::far.
  void (*silu_gate_row)(const float* gate, const float* up, std::int64_t n, float* out, bool far);
  void (*gelu_gate_row)(const float* gate, const float* up, std::int64_t n, float* out, bool far);
  /// out = g * sigmoid(slope * g) * (u + 1), g the gate up to `limit`, u the other within +-limit:
  /// gpt-oss.
  void (*clamped_gate_row)(const float* gate, const float* up, float slope, float limit,
                           std::int64_t n, float* out, bool far);

  /// Products of `rows` rows with one panel: out[r * stride + j] = (or += if `add`) the j-th
  /// output, for j < width <= 48. `next` (or null) is a panel to prefetch. `x.far` holds for the
  /// outputs.
  void (*int8_panel)(const kernel::Int8Panels& w, std::int64_t panel, const kernel::Int8Rows& x,
                     std::int64_t rows, float* out, std::int64_t stride, std::int64_t width,
                     bool add, const std::uint8_t* next);

  /// The same with 4-bit weights and grouped rows: the sum over groups, in their order, of
  /// (integer products * (scale * row scale)) and (least * row sum), each added by one rounding.
  void (*int4_panel)(const kernel::Int4Panels& w, std::int64_t panel, const kernel::Int8Rows& x,
                     std::int64_t rows, float* out, std::int64_t stride, std::int64_t width,
                     bool add, const std::uint8_t* next);

  void (*key_product)(const kernel::KeyProduct& p);
  /// Weights of a softmax over a chunk, not yet normalised, each times its value's scale, in 8
  /// bits: the largest becomes 255. They are rounded up or down by a pattern of their positions:
  /// plain rounding would lose the sum of many small weights. The returned sum is that of the
  /// weights before scaling and rounding, the maximum that of the scores times `scale`.
  /// @param scores  [256], times `scale`; overwritten
  /// @param value_scales  [256]
  /// @param n       a multiple of 16 up to 256; number of weights written
  /// @param weights [256]
  /// @param unit    the value of a weight of 1
  kernel::SoftmaxPart (*weigh_row)(float* scores, float scale, const float* value_scales,
                                   const kernel::Seen& seen, std::int64_t n, std::uint8_t* weights,
                                   float* unit);
  void (*value_product)(const kernel::ValueProduct& p);
  /// Adds another part of the same softmax: merges (part_o, part) into (o, total).
  void (*merge_softmax)(float* o, kernel::SoftmaxPart* total, const float* part_o,
                        const kernel::SoftmaxPart& part, std::int64_t n);

  void (*round_to_bf16)(const float* x, std::int64_t n, float scale, std::uint16_t* y);
  void (*widen_bf16)(const std::uint16_t* x, std::int64_t n, float scale, float* y);
  /// y = bf16((x - mean) / sqrt(variance + eps) * (1 + scale) + shift): adaLN of a row.
  void (*layer_norm_modulate_row)(const float* x, const float* shift, const float* scale, float eps,
                                  std::int64_t n, std::uint16_t* y);
  /// y = bf16(gelu(x)), with tanh
  void (*gelu_row)(const float* x, std::int64_t n, std::uint16_t* y);
  /// y += gate * x
  void (*add_gated_row)(const float* gate, const float* x, std::int64_t n, float* y);
  /// Two rows interleaved and rounded: the layout of the second operand of a PairProduct.
  void (*pair_rows)(const float* even, const float* odd, std::int64_t n, std::uint16_t* y);
  /// p = exp(s - max) in bf16; the sum is that of the rounded ones.
  /// @param n  a multiple of 16
  kernel::SoftmaxPart (*exp_row)(const float* scores, std::int64_t n, std::uint16_t* p);
  void (*pair_product)(const kernel::PairProduct& p);

  /// Between them products may keep state of this thread's processor (tiles of AMX), which else
  /// every call sets up and gives back; nothing but kernels may run there. Null where there is no
  /// such state.
  void (*begin_job)() = nullptr;
  void (*end_job)() = nullptr;
};

/// The fastest of this processor. Requires cpu_features().int8().
const Kernels& kernels() noexcept;

}  // namespace forerun
