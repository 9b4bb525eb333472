#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "forerun/models/dflash/dflash.h"

namespace forerun::internal {

/// cos and sin of the rotary embedding at some positions, each [rows, 1, head_dim / 2].
struct BlockRotation {
  at::Tensor cos, sin;

  /// @param positions  [rows] int64, on the model's device
  static BlockRotation at(const DFlash& model, const at::Tensor& positions);
};

/// Queries, or keys, or values of some rows, by head.
struct KeysValues {
  at::Tensor k, v;  ///< [rows, kv_heads, head_dim]
};

/// RMSNorm with statistics in float32 or wider; the result is of autocast's dtype where that is on.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// @param x  [rows, hidden]: the context, or a layer's normed slots
KeysValues keys_values(const DFlash& model, const DFlashLayer& layer, const at::Tensor& x,
                       const BlockRotation& rotation);

/// Attention of one layer: queries [rows, heads, head_dim] and the slots' own keys and values in,
/// [rows, heads * head_dim] out.
using Attend =
    std::function<at::Tensor(std::size_t layer, const at::Tensor& q, const KeysValues& own)>;

/// All layers over the slots of one or many blocks.
/// @param h  [rows, hidden]: their embeddings
/// @return   [rows, hidden]: the output of the last norm
at::Tensor run_layers(const DFlash& model, at::Tensor h, const BlockRotation& rotation,
                      const Attend& attend);

/// [hidden]: the input of a masked slot, scaled as an embedding.
/// @throws std::invalid_argument  the model has neither a mask vector nor a mask token
at::Tensor mask_row(const DFlash& model);

/// [n, hidden]: scaled rows of the embedding, in the weights' dtype.
at::Tensor embed(const DFlash& model, const at::Tensor& ids);

}  // namespace forerun::internal
