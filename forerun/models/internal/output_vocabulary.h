#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "forerun/models/internal/weight_reader.h"

namespace forerun::internal {

/// The tokens that the rows of a reduced head stand for, stored as "d2t": offsets between rows and
/// tokens.
/// @param outputs  rows of the head
/// @return  [outputs] int64, rising, or undefined: every token
/// @throws FormatError  ids out of order or outside the vocabulary
at::Tensor read_output_vocabulary(WeightReader& source, std::int64_t vocab, std::int64_t outputs);

/// The same of files that we write.
/// @param tokens  [outputs] int64
NamedTensor output_vocabulary_tensor(const at::Tensor& tokens);

}  // namespace forerun::internal
