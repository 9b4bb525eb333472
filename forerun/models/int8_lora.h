#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "forerun/models/transformer_block.h"
#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/int8_matrix.h"

namespace forerun {

/// A BlockLora for the int8 engine. Adapters of layers that share an input are one matrix down,
/// ranks side by side, and a matrix up for each; nothing where those layers have none.
struct Int8BlockLora {
  struct Up {
    Int8Matrix weights;               ///< [outputs of its panels, rank]
    std::vector<std::int32_t> place;  ///< of the layer's panels: which of these, or -1: zero
    std::int64_t first_rank;          ///< of the matrix down
  };
  struct Pair {
    Int8Matrix down;  ///< [sum of ranks, inputs]
    std::vector<Up> ups;
  };
  Pair qkv, output, gate_up, down;

  static Int8BlockLora pack(const BlockLora& lora, Arena& arena);
};
using Int8LoraPlace = Int8BlockLora::Pair Int8BlockLora::*;

/// Rows of a pass whose linear layers meet adapters, with the memory for their low-rank values.
/// It adds no phases to a job: a phase that quantizes the input of a layer lowers its rows, the
/// phase of the layer's product raises them.
class Int8AdaptedRows {
 public:
  /// The rows of the next pass: `clear`, then each run of them in order, then `start`.
  void clear() { runs_.clear(); }
  /// @param layers  adapters of each layer; kept
  void add(std::int64_t first, std::int64_t rows, const std::vector<Int8BlockLora>& layers);
  void start();
  bool empty() const noexcept { return runs_.empty(); }

  /// The low-rank values of rows [begin, end).
  /// @param x     inputs of all rows of the pass
  /// @param work  floats for a row, of this thread
  void lower(std::int64_t layer, Int8LoraPlace place, const kernel::Int8Rows& x, std::int64_t begin,
             std::int64_t end, float* work) const;
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
  kernel::Int8Rows rotated(const Run& run, const kernel::Int8Rows& x, std::int64_t from,
                           std::int64_t to, std::int64_t inputs, float* work) const;
  kernel::Int8Rows low_rows(const Run& run, std::size_t up, std::int64_t rank) const noexcept;

  static constexpr std::size_t kUps = 3;  // of a Pair, at most
  std::vector<Run> runs_;
  std::int64_t width_ = 0;  // floats of a row
  AlignedBuffer<float> low_room_;
  std::array<Int8Activations, kUps> rows_room_;
  Int8Activations inputs_room_;
  kernel::Int8Rows inputs_{};  // of grouped rows: rotated
  float* low_ = nullptr;       // [rows, width]: low-rank values, room to quantize them
  std::int64_t most_rank_ = 0;
  std::array<kernel::Int8Rows, kUps> low_rows_{};
};

}  // namespace forerun
