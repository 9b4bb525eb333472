#pragma once

#include <functional>
#include <memory>
#include <string>

#include "forerun/formats/tensor_view.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// The names and conventions of the tensors.
enum class Naming : std::uint8_t {
  kGguf,  ///< llama.cpp's; rows of Llama's queries and keys interleaved, Gemma's norms stored as 1
          ///< + w
  kHuggingFace,         ///< transformers'
  kNemotronDiffusion,   ///< Nemotron-Labs-Diffusion's: the same behind "encoder.", diffusion_head
  kLanguageModel,       ///< transformers' of a multimodal model: "language_model.model."
  kMixtral,             ///< transformers' of Mixtral: "block_sparse_moe."
  kGptOss,              ///< transformers' of gpt-oss: "mlp.router", all experts in one tensor
  kFused,               ///< transformers' of Phi-3 and GLM-4: several in one tensor
  kGraniteMoe,          ///< transformers' of Granite with experts, all of them in one tensor
  kLfm2,                ///< transformers' of LFM2: "feed_forward.w1", "operator_norm"
  kModelLanguageModel,  ///< the same of newer versions: "model.language_model."
};

/// The name of a decoder's weight in the files of Nemotron-Labs-Diffusion.
std::string nemotron_name(const std::string& name);

/// The same of Mixtral.
std::string mixtral_name(const std::string& name);

/// The same of Ernie 4.5 with experts.
std::string ernie_name(const std::string& name);

/// The same of LFM2.
std::string lfm2_name(const std::string& name);

/// The same of gpt-oss: of an expert the tensor that holds it.
std::string gpt_oss_name(const std::string& name);

/// The same of GGUF files: of an expert the tensor that holds all of the layer.
std::string gguf_name(const DecoderConfig& config, const std::string& name);
/// Of an expert's weight in files from before these tensors: "blk.0.ffn_gate.3.weight".
std::string gguf_single_expert(const std::string& name);

/// A tensor of the file by name, or null.
using FindTensor = std::function<const TensorView*(const std::string&)>;

/// The tensors of a file.
struct DecoderFile {
  Naming naming;
  FindTensor find;
  std::shared_ptr<const void> memory = nullptr;  ///< keeps them mapped, for Precision::kFile
};

/// Reads every weight of a decoder in the model's precision, q/k/v and gate/up side by side. Norms
/// stay float32. Of kFile matrices are not read, they stay where they are.
/// @param parts  kEnds: without the layers; not for int8
/// @throws FormatError  a tensor is missing, or its shape differs from the config
DecoderLm build_decoder(const DecoderConfig& config, const DecoderFile& file, Precision precision,
                        DecoderParts parts = DecoderParts::kAll);

}  // namespace forerun
