#pragma once

#include <optional>
#include <string>

#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/gpt_oss_experts.h"

/// Tensors of models with recurrent layers that files hold in another form.
namespace forerun::internal {

/// Whether a weight of a recurrent layer is float32 in every precision.
bool is_recurrent_value(const std::string& name);

/// Convolutions [channels, 1, taps] or [channels, taps] as [taps, channels]; rates of decay, whose
/// logarithms Hugging Face's files have, and GGUF files their negatives; queries and gates of
/// attention, which lie head by head in one tensor, and what RecurrentConfig::by_heads and
/// rates_by_heads say. None: the weight is as in the file.
/// @param name  ours
/// @param gguf  of a GGUF file
/// @throws FormatError  a shape or type that cannot be read
std::optional<OwnTensor> recurrent_tensor(const DecoderConfig& config, const std::string& name,
                                          const TensorView& view, bool gguf);

/// The file's name of weights that lie in one tensor; of others the name itself.
std::string joined_recurrent_name(const DecoderConfig& config, const std::string& name);

}  // namespace forerun::internal
