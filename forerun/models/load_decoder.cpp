#include "forerun/models/load_decoder.h"

#include <nlohmann/json.hpp>

#include "forerun/models/build_decoder.h"
#include "forerun/models/decoder_config_gguf.h"
#include "forerun/models/internal/expert_fields.h"

namespace forerun {
namespace {

DecoderLm build(const Result<DecoderConfig>& config, const DecoderFile& file,
                const std::string& path, Precision precision, DecoderParts parts) {
  if (!config) throw FormatError(path + ": " + config.error().message);
  try {
    return build_decoder(*config, file, precision, parts);
  } catch (const FormatError& e) {
    throw FormatError(path + ": " + e.what());
  }
}

// Of the names that multimodal models have had, those that the file has.
Naming naming_of(const HfConfig& config, const DecoderConfig& parsed, const Safetensors& weights) {
  if (parsed.mask_token) return Naming::kNemotronDiffusion;
  if (parsed.family == Family::kGptOss) return Naming::kGptOss;
  if (parsed.family == Family::kLfm2) return Naming::kLfm2;
  const nlohmann::json type = config.config.value("model_type", nlohmann::json());
  if (type.is_string() && internal::is_granite_moe(type.get<std::string>())) {
    return Naming::kGraniteMoe;
  }
  const bool mixtral = parsed.family == Family::kLlama && parsed.experts > 0;
  if (!is_multimodal(config.config)) {
    return mixtral                  ? Naming::kMixtral
           : parsed.fused_gate_up() ? Naming::kFused
                                    : Naming::kHuggingFace;
  }
  return weights.find("language_model.model.embed_tokens.weight") != nullptr
             ? Naming::kLanguageModel
             : Naming::kModelLanguageModel;
}

}  // namespace

DecoderLm load_decoder(const Gguf& gguf, Precision precision, DecoderParts parts) {
  const auto find = [&](const std::string& name) { return gguf.find(name); };
  return build(parse_decoder_config(gguf), {Naming::kGguf, find, gguf.mapping()}, gguf.path(),
               precision, parts);
}

DecoderLm load_decoder(const HfConfig& config, const Safetensors& weights, const std::string& path,
                       Precision precision, DecoderParts parts) {
  const auto find = [&](const std::string& name) { return weights.find(name); };
  const Result<DecoderConfig> parsed = parse_decoder_config(config.config);
  return build(parsed,
               {parsed ? naming_of(config, *parsed, weights) : Naming::kHuggingFace, find,
                weights.mapping()},
               path, precision, parts);
}

}  // namespace forerun
