#pragma once

#include <cstdint>
#include <string>

#include "forerun/models/decoder_config.h"

/// Files that hold several weights of a block in one tensor (Phi-3, GLM-4, Granite with experts).
namespace forerun::internal {

/// The name of the tensor that holds a weight.
std::string joined_name(const DecoderConfig& config, const std::string& name);
/// The same, with GLM-4's names of norms.
std::string fused_name(const DecoderConfig& config, const std::string& name);

/// The rows of a weight in the tensor that holds it and others.
struct PartOfTensor {
  std::int64_t first = 0, rows = 0;
  std::int64_t all = 0;  ///< of the tensor; 0: it holds one weight
};
PartOfTensor part_of_tensor(const DecoderConfig& config, const std::string& name);

/// The name of the tensor that holds a weight in the folders of Granite with experts:
/// "input_linear" has gates and then ups, of all experts or of the shared one.
std::string granite_moe_name(const std::string& name);
/// Its rows there, of the expert's own part.
PartOfTensor part_of_granite_moe(const DecoderConfig& config, const std::string& name);

/// The name of the tensor that holds a weight of all experts of a layer in folders of newer
/// versions of transformers, "mlp.experts.gate_up_proj" or "mlp.experts.down_proj"; empty: not an
/// expert's.
std::string all_experts_name(const std::string& name);
/// Its rows there, of the expert's own part.
PartOfTensor part_of_all_experts(const DecoderConfig& config, const std::string& name);

/// Where a row of queries or keys is in files that have the two of a rotation side by side.
std::int64_t neighbouring_row(const BlockConfig& config, std::int64_t row);

}  // namespace forerun::internal
