#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "forerun/formats/tensor_view.h"

namespace forerun::internal {

/// A tensor that was put together, with the memory of its bytes.
struct OwnTensor {
  TensorView view;
  std::shared_ptr<const void> memory;
};

/// A weight or bias of one expert in a Hugging Face folder of gpt-oss, by its name in folders with
/// a tensor for each expert ("model.layers.0.mlp.experts.3.up_proj.weight"). The folder holds all
/// experts of a layer in one tensor, gates and ups by turns: `gate_up_proj` [experts, hidden, 2 *
/// intermediate] and `down_proj` [experts, intermediate, hidden], inputs first, or in MXFP4
/// `..._blocks` [experts, outputs, groups, 16] and `..._scales`, outputs first; biases are
/// `gate_up_proj_bias` and `down_proj_bias`. Source: transformers' modeling_gpt_oss.py and
/// integrations/mxfp4.py.
/// @param find  a tensor of the folder by name, or null
/// @return  [outputs, inputs] in the type of the folder, MXFP4 in GGML's blocks; or [outputs]. None
/// if no tensor for it is there.
/// @throws FormatError  one of a shape or type that cannot be read
std::optional<OwnTensor> gpt_oss_expert(
    const std::string& name, const std::function<const TensorView*(const std::string&)>& find);

}  // namespace forerun::internal
