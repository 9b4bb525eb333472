#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "forerun/models/decoder_lm.h"

namespace forerun {

/// What other rows need of the rows of documents.
struct DocumentRows {
  at::Tensor hidden;                    ///< [all rows, hidden]: the output of the last norm
  std::vector<KeysValues> keys_values;  ///< of each layer, rotated
};

/// Whole documents through a decoder: every row sees its document up to itself. Differentiable in
/// all of `weights(model)`, which are float32 or float64; under autocast products run in its dtype,
/// and matrices that are not trained may be of it.
/// @return  document by document
/// @throws std::invalid_argument  a packed (int8) model, an id outside the vocabulary, an empty
/// document or one longer than the context
DocumentRows training_rows(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents);
/// `hidden` of these rows alone.
at::Tensor training_hidden(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents);

/// The residual stream of these rows after some blocks, without the rest.
/// @param blocks  zero-based ids, at least one
/// @return        [all rows, blocks * hidden], in the order of `blocks`
at::Tensor training_streams(const DecoderLm& model,
                            std::span<const std::span<const Token>> documents,
                            std::span<const std::int64_t> blocks);

}  // namespace forerun
