#pragma once

#include <cstdint>
#include <vector>

#include "forerun/models/mar/mar.h"
#include "forerun/tensor/cpu/rows/row_kernels.h"
#include "forerun/tensor/cpu/rows/row_matrix.h"

namespace forerun {

/// A block of a Vision Transformer packed for rows of float32 on the CPU.
struct PackedBlock {
  explicit PackedBlock(const MarBlock& block);

  std::vector<float> norm1_weight, norm1_bias, norm2_weight, norm2_bias;
  RowMatrix qkv, out, up, down;
};

/// The values of a tensor as float32.
std::vector<float> packed_values(const at::Tensor& x);

/// Where the rows of a call stand. Every row's bits depend on that row, and on the keys and values
/// it sees, alone.
struct PackedRows {
  static constexpr float kEps = 1e-6F;  // of norms

  std::int64_t count = 0, hidden = 0;
  std::int64_t wide = 0;  ///< values of a row of `y`: max(3 hidden, mlp)
  float* h = nullptr;     ///< [count, hidden]: the residual stream
  float* x = nullptr;     ///< [count, hidden]
  float* y = nullptr;     ///< [count, wide]

  void norm(std::int64_t row, const float* weight, const float* bias, float* to) const {
    rows::kernels().norm({.x = h + row * hidden,
                          .dim = hidden,
                          .eps = kEps,
                          .weight = weight,
                          .bias = bias,
                          .shift = nullptr,
                          .scale = nullptr,
                          .out = to + row * hidden});
  }
  template <class Each, class Work>
  void each_row(const Each& each, const Work& work) const {
    each(count, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) work(r);
    });
  }
  /// A product of all rows, then `then(row, first column, columns, values)` of what was computed.
  template <class Each, class Then>
  void product(const RowMatrix& m, const float* in, std::int64_t in_stride, float* to,
               std::int64_t to_stride, const Each& each, const Then& then) const {
    each(m.panels(), 4, [&](std::int64_t first, std::int64_t last) {
      m.multiply({in, in_stride, to, to_stride, count}, first, last);
      const std::int64_t from = first * rows::kPanel, width = (last - first) * rows::kPanel;
      for (std::int64_t r = 0; r < count; ++r) then(r, from, width, to + r * to_stride + from);
    });
  }
  /// One block. `each(items, grain, work)` calls work(begin, end) until all items are done; a later
  /// call begins when an earlier one has ended.
  /// @param attend  makes `x` of the queries, keys and values in `y`, [3 hidden] a row
  template <class Each, class Attend>
  void run(const PackedBlock& b, const Each& each, const Attend& attend) const {
    const rows::Kernels& k = rows::kernels();
    const auto residual = [&](std::int64_t r, std::int64_t from, std::int64_t width, float* v) {
      k.add(h + r * hidden + from, v, width, h + r * hidden + from);
    };
    each_row(each, [&](std::int64_t r) { norm(r, b.norm1_weight.data(), b.norm1_bias.data(), x); });
    product(b.qkv, x, hidden, y, wide, each, [](auto...) {});
    attend();
    product(b.out, x, hidden, y, wide, each, residual);
    each_row(each, [&](std::int64_t r) { norm(r, b.norm2_weight.data(), b.norm2_bias.data(), x); });
    product(b.up, x, hidden, y, wide, each,
            [&](std::int64_t, std::int64_t, std::int64_t width, float* v) { k.gelu(v, width); });
    // Into the room of the norms, which are no longer needed.
    product(b.down, y, wide, x, hidden, each, residual);
  }
};

}  // namespace forerun
