#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "forerun/models/dflash/dflash.h"

namespace forerun::internal {

/// @param positions  [rows] int64, on the model's device
Rotation rotation_at(const DFlash& model, const at::Tensor& positions);

/// As Attend, of one layer.
using AttendLayer =
    std::function<at::Tensor(std::size_t layer, const at::Tensor& q, const KeysValues& own)>;

/// All layers over the slots of one or many blocks.
/// @param h      [rows, hidden]: their embeddings
/// @param slots  of one block
/// @return   [rows, hidden]: the output of the last norm
at::Tensor run_layers(const DFlash& model, at::Tensor h, std::int64_t slots,
                      const Rotation& rotation, const AttendLayer& attend);

/// [hidden]: the input of a masked slot, scaled as an embedding.
/// @throws std::invalid_argument  the model has neither a mask vector nor a mask token
at::Tensor mask_row(const DFlash& model);

/// [n, hidden]: scaled rows of the embedding, in the weights' dtype.
at::Tensor embed(const DFlash& model, const at::Tensor& ids);

}  // namespace forerun::internal
