#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "forerun/models/dit/dit.h"
#include "forerun/models/dit/dit_rows.h"
#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/arena.h"
#include "forerun/tensor/cpu/bf16_matrix.h"
#include "forerun/tensor/cpu/full_attention.h"

namespace forerun {

/// What one thread needs for a pass over one image; reused from pass to pass.
struct DitRoom {
  FullAttention attention;
  AlignedBuffer<float> hidden, products;
  AlignedBuffer<std::uint16_t> rows;
};

/// Patches of an image as tokens. A pixel enters as a bf16 value and its bf16 remainder, because
/// sampling adds pixels up over a thousand steps.
class Bf16Patches {
 public:
  Bf16Patches() = default;
  static Bf16Patches pack(const at::Tensor& weight, const at::Tensor& bias, Arena& arena);
  std::int64_t columns() const noexcept { return matrix_.columns(); }
  /// @param x    [channels, input, input]
  /// @param out  [tokens, columns]: products and bias; or added to the existing values
  void embed(const DitConfig& config, const float* x, DitRoom& room, float* out,
             bool add = false) const;

 private:
  Bf16Matrix matrix_;
};

/// Blocks, head and embeddings of time and class of a Diffusion Transformer, in bf16 on AVX2 or
/// AVX-512. One thread computes an image from first block to last, so its numbers depend neither on
/// the other images nor on the number of threads. The residual stream, norms and time embedding are
/// float32.
class Bf16Stack {
 public:
  /// Whether this processor and these sizes are supported.
  static bool fits(const DitConfig& config) noexcept;

  struct Parts {
    const DitTime& time;
    const at::Tensor& labels;
    std::span<const DitBlock> blocks;
    const DitHead& head;
  };
  static Bf16Stack pack(const DitConfig& config, const Parts& parts, Arena& arena);

  /// Fills [tokens, hidden] with the input of the first block for a half of a row.
  using Begin =
      std::function<void(std::int64_t row, std::int64_t half, DitRoom& room, float* hidden)>;
  GuidedOutput run(const DitRows& rows, const Guidance& guidance, const Begin& begin) const;

 private:
  struct Block {
    Bf16Matrix modulation, qkv, out, up, down;
  };
  struct Pass;

  std::int64_t width() const noexcept;  // of a row of modulations
  void block(const Block& b, const float* modulation, DitRoom& room, float* h) const;
  void head(const float* modulation, const float* h, DitRoom& room, float* noise) const;

  DitConfig config_;
  at::Tensor times_, labels_;  // [1000, hidden], [classes + 1, hidden] float32
  std::vector<Block> blocks_;
  Bf16Matrix head_modulation_, head_;
};

/// The packed DiT.
class Bf16Dit {
 public:
  explicit Bf16Dit(const Dit& model);
  GuidedOutput run(const DitRows& rows, const Guidance& guidance) const;

 private:
  DitConfig config_;
  at::Tensor positions_;  // [tokens, hidden] float32
  Arena arena_;
  Bf16Patches patches_;
  Bf16Stack stack_;
};

}  // namespace forerun
