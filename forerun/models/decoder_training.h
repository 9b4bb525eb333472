#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "forerun/models/decoder_lm.h"

namespace forerun {

/// Whole documents through a decoder: every row sees its document up to itself. Differentiable in
/// all of `weights(model)`, which are float32 or float64; under autocast products run in its dtype.
/// @return  [all rows, hidden], document by document: the output of the last norm
/// @throws std::invalid_argument  a packed (int8) model, an id outside the vocabulary, an empty
/// document or one longer than the context
at::Tensor training_hidden(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents);

}  // namespace forerun
