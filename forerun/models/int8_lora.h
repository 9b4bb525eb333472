#pragma once

#include <cstdint>
#include <vector>

#include "forerun/models/transformer_block.h"
#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/int8_matrix.h"

namespace forerun {

/// A BlockLora for the int8 engine. Adapters of layers that share an input are one: the low-rank
/// values of all of them side by side, `up` zero where they do not meet.
struct Int8BlockLora {
  struct Pair {
    Int8Matrix down;  ///< [sum of ranks, inputs]
    Int8Matrix up;    ///< [outputs, sum of ranks]
  };
  Pair qkv, output, gate_up, down;

  static Int8BlockLora pack(const BlockLora& lora, Arena& arena);
};
using Int8LoraPlace = Int8BlockLora::Pair Int8BlockLora::*;

/// Rows of a pass whose linear layers meet adapters, with the memory for their low-rank values.
/// All threads of a job run the methods that take a worker.
class Int8AdaptedRows {
 public:
  using Worker = ThreadTeam::Worker;

  /// The rows of the next pass: `clear`, then each run of them in order, then `start`.
  void clear() { runs_.clear(); }
  /// @param layers  adapters of each layer; kept
  void add(std::int64_t first, std::int64_t rows, const std::vector<Int8BlockLora>& layers);
  void start();
  bool empty() const noexcept { return runs_.empty(); }

  /// A phase, where there are such rows: the low-rank values of their inputs.
  /// @param x  of all rows of the pass
  void lower(Worker& worker, std::int64_t layer, Int8LoraPlace place, const kernel::Int8Rows& x);
  /// Adds to the outputs of panels [first, last) of rows [begin, end).
  /// @param out  output `first * 48` of row `begin`, rows `stride` apart
  void raise(std::int64_t layer, Int8LoraPlace place, std::int64_t first, std::int64_t last,
             std::int64_t begin, std::int64_t end, float* out, std::int64_t stride) const;

 private:
  struct Run {
    std::int64_t first, rows;  // of the pass
    std::int64_t low;          // its first row here
    const std::vector<Int8BlockLora>* layers;
  };
  kernel::Int8Rows low_rows(const Run& run, std::int64_t row, std::int64_t rank) const noexcept;

  std::vector<Run> runs_;
  std::int64_t rows_ = 0, width_ = 0;  // of all runs; of a row
  AlignedBuffer<float> low_room_;
  Int8Activations rows_room_;
  float* low_ = nullptr;  // [rows, width]
  kernel::Int8Rows low_rows_{};
};

}  // namespace forerun
