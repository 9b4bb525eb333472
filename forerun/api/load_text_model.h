#pragma once

#include <functional>
#include <memory>
#include <string>

#include "forerun/api/model_impl.h"
#include "forerun/formats/gguf.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"

namespace forerun {

/// How the network of a model with a tokenizer is read.
struct BodyLoaders {
  std::function<DecoderLm(const Gguf&, Precision)> from_gguf;
  std::function<DecoderLm(const HfConfig&, const Safetensors&, const std::string& path, Precision)>
      from_folder;
  PassRows rows = PassRows::kFew;  ///< TextModelSizes::rows
};

/// A GGUF file or a Hugging Face folder, with tokenizer, chat format and end tokens.
/// @param name  as Model::load
/// @throws as Model::load
std::shared_ptr<Model::Impl> load_text_model(const std::string& name, PrecisionRequest requested,
                                             const BodyLoaders& loaders);

/// As Model::encode_chat.
std::vector<Token> encode_chat(const Model::Impl& model, std::span<const Message> messages,
                               const ChatInput& input);

}  // namespace forerun
