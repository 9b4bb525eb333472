#pragma once

#include <string>

#include "forerun/model.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// A model's weights as float32 numbers: its own where it computes in float32, else its file is
/// read again.
DecoderLm numbers_of(const Model& model, DecoderParts parts);

/// A model's configuration, and its embedding in the type in which it has it, without a copy; where
/// the embedding stays in its file, it is read as float32 numbers.
DecoderLm with_embedding(const Model& model);

/// As Model::hash, of the file or folder at `path`.
std::string hash_of_weights(const std::string& path);

}  // namespace forerun
