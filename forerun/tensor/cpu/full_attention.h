#pragma once

#include <cstdint>

#include "forerun/tensor/cpu/aligned_buffer.h"

namespace forerun {

/// Attention among some tokens, all heads, on one thread: products in bf16, sums and softmax in
/// float32. Reuses its room.
class FullAttention {
 public:
  struct Shape {
    std::int64_t tokens, heads, head_dim;
  };

  /// Allocates room for calls with this shape.
  void room_for(Shape shape);
  /// @param qkv     [tokens, stride]: queries of all heads, keys, values; float32
  /// @param out     [tokens, heads * head_dim] bf16
  /// Scores are scaled by 1 / sqrt(head_dim).
  void run(const float* qkv, std::int64_t stride, std::uint16_t* out);

 private:
  void load_head(const float* qkv, std::int64_t stride, std::int64_t head);

  Shape shape_{};
  std::int64_t keys_ = 0, dim_ = 0,
               columns_ = 0;  // padded: tokens and head_dim to 16, head_dim to 2
  AlignedBuffer<std::uint16_t> q_, k_, v_, weights_;
  AlignedBuffer<float> scores_, out_, zeros_;
};

}  // namespace forerun
