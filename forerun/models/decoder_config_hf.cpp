#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "forerun/base/quote.h"
#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/config_check.h"
#include "forerun/models/internal/expert_fields.h"
#include "forerun/models/internal/family_fields.h"
#include "forerun/models/internal/hf_fields.h"
#include "forerun/models/internal/recurrent_fields.h"

namespace forerun {
namespace {

using internal::Fields;
using internal::kGptOss;
using internal::kMixtral;
using internal::kQwen3Moe;
using internal::kSmolLm3;
using internal::read_layer_types;
using internal::read_rope;
using nlohmann::json;

constexpr const char* kNemotronDiffusion = "nemotron_labs_diffusion";
// Llama with a window, in every layer or in some.
bool is_mistral(const std::string& type) { return type == "mistral" || type == "ministral"; }

std::optional<Family> family_of(const std::string& type) {
  if (type == "llama" || is_mistral(type) || type == kMixtral || type == kNemotronDiffusion ||
      type == kSmolLm3 || type == internal::kGranite || internal::is_granite_moe(type)) {
    return Family::kLlama;
  }
  if (type == "qwen2" || type == internal::kQwen2Moe) return Family::kQwen2;
  if (type == "qwen3" || type == kQwen3Moe) return Family::kQwen3;
  if (type == kGptOss) return Family::kGptOss;
  if (type == "gemma3_text" || type == "gemma3") return Family::kGemma3;
  if (type == "gemma2") return Family::kGemma2;
  if (type == "phi3") return Family::kPhi3;
  if (type == "olmo2" || type == internal::kOlmo3) return Family::kOlmo2;
  if (type == "glm4") return Family::kGlm4;
  if (type == internal::kOlmoe) return Family::kOlmoe;
  if (type == internal::kGlm4Moe) return Family::kGlm4Moe;
  if (type == internal::kErnie45Moe) return Family::kErnie45Moe;
  if (internal::is_lfm2(type)) return Family::kLfm2;
  if (internal::is_qwen35(type)) return Family::kQwen35;
  return std::nullopt;
}

// @param rope  config.json, or its rope parameters
void refuse_part_of_a_head(const json& rope, const DecoderConfig& c, Fields& errors) {
  if (!rope.is_object() || c.rotary_dim > 0) return;
  Fields f(rope);
  if (f.number("partial_rotary_factor", 1.0) != 1.0) {
    f.fail("'partial_rotary_factor': a rotary embedding of part of a head is not supported");
  }
  if (!f.error().empty()) errors.fail(f.error());
}

// @param theta  the base where the file has none
void read_ropes(Fields& f, double theta, DecoderConfig& c) {
  c.rope_theta = f.number("rope_theta", theta);
  const bool own = c.family == Family::kGemma3;
  c.local_rope_theta = own ? f.number("rope_local_base_freq", 10000.0) : c.rope_theta;
  if (const json* scaling = f.find("rope_scaling")) {
    refuse_part_of_a_head(*scaling, c, f);
    double ignored = c.rope_theta;
    read_rope(*scaling, f, ignored, c.rope_scaling);
  }
  const json* parameters = f.find("rope_parameters");
  if (parameters == nullptr) return;
  if (parameters->is_object() && parameters->contains("full_attention")) {
    refuse_part_of_a_head((*parameters)["full_attention"], c, f);
    read_rope((*parameters)["full_attention"], f, c.rope_theta, c.rope_scaling);
    RopeScaling local;
    read_rope(parameters->value("sliding_attention", json::object()), f, c.local_rope_theta, local);
    if (local.kind != RopeScaling::Kind::kNone)
      f.fail("rope scaling of sliding layers is not supported");
  } else {
    refuse_part_of_a_head(*parameters, c, f);
    read_rope(*parameters, f, c.rope_theta, c.rope_scaling);
    if (!own) c.local_rope_theta = c.rope_theta;
  }
}

// Ministral 3 with a mask token; AR and diffusion share the weights (arXiv:2607.05722).
void read_nemotron(Fields& f, DecoderConfig& c) {
  const std::int64_t mask = f.integer("mask_token_id");
  c.mask_token = static_cast<Token>(std::clamp<std::int64_t>(mask, -1, c.vocab));
  if (f.find("sliding_window") != nullptr) f.fail("'sliding_window' is not supported here");
  const json* rope = f.find("rope_parameters");
  if (rope == nullptr || !rope->is_object()) return f.fail("'rope_parameters' is missing");
  Fields growth(*rope);
  c.query_growth.beta = growth.number("llama_4_scaling_beta", 0.0);
  if (!c.query_growth.none()) {
    c.query_growth.context = growth.number("original_max_position_embeddings", std::nullopt);
  }
  if (!growth.error().empty()) f.fail("rope parameters: " + growth.error());
}

// All layers have the window where 'layer_types' does not say it: transformers' AutoConfig takes a
// "mistral" that has them for a "ministral". Null is no window.
// @param otherwise  without the field
void read_mistral_window(const json& config, Fields& f, std::int64_t otherwise, DecoderConfig& c) {
  c.window = f.integer("sliding_window", config.contains("sliding_window") ? 0 : otherwise);
  if (c.window < 0) return f.fail("'sliding_window' is negative");
  c.sliding.assign(static_cast<std::size_t>(c.layers), c.window > 0);
  const json* types = f.find("layer_types");
  if (types == nullptr) return;
  read_layer_types(*types, f, c);
  const bool slides = std::find(c.sliding.begin(), c.sliding.end(), true) != c.sliding.end();
  if (slides && c.window == 0) f.fail("'layer_types' has sliding layers without 'sliding_window'");
  if (!slides) c.window = 0;
}

void read_windows(const json& config, Fields& f, DecoderConfig& c) {
  c.sliding.assign(static_cast<std::size_t>(c.layers), false);
  // Null is no window of Qwen's; Llama has none, whatever its file says.
  const bool qwen = c.family == Family::kQwen2 || c.family == Family::kQwen3;
  const bool used = c.gemma() || (qwen && f.flag("use_sliding_window", false));
  c.window =
      f.integer("sliding_window", c.gemma() || !config.contains("sliding_window") ? 4096 : 0);
  if (!used || c.window <= 0) {
    c.window = 0;
    return;
  }
  if (const json* types = f.find("layer_types")) {
    read_layer_types(*types, f, c);
  } else if (c.gemma()) {
    const bool third = c.family == Family::kGemma3;
    const std::int64_t pattern = third ? f.integer("sliding_window_pattern", 6) : 2;
    if (pattern <= 0) return f.fail("'sliding_window_pattern' must be positive");
    for (std::int64_t i = 0; i < c.layers; ++i) {
      c.sliding[static_cast<std::size_t>(i)] = (i + 1) % pattern != 0;
    }
  } else {
    const std::int64_t first = f.integer("max_window_layers", 28);
    const bool moe = c.family == Family::kQwen2 && c.experts > 0;  // as its class has it
    for (std::int64_t i = 0; i < c.layers; ++i) {
      c.sliding[static_cast<std::size_t>(i)] = moe ? i % 2 == 0 && i < first : i >= first;
    }
  }
}

// The part of a Gemma 3 of pictures and texts that describes its decoder, whole. Files leave out
// what is as in the class. Source of the values: transformers' Gemma3TextConfig.
json gemma_text_config_of(const json& config) {
  json out = {
      {"model_type", "gemma3_text"}, {"vocab_size", 262208},    {"hidden_size", 2304},
      {"intermediate_size", 9216},   {"num_hidden_layers", 26}, {"num_attention_heads", 8},
      {"num_key_value_heads", 4},    {"head_dim", 256},         {"max_position_embeddings", 131072},
      {"sliding_window", 4096}};
  out.update(config["text_config"]);
  // The class of both parts decides it.
  out["tie_word_embeddings"] = config.value("tie_word_embeddings", json(true));
  return out;
}

// The same of Qwen3.5. Source of the values: transformers' Qwen3_5TextConfig and
// Qwen3_5MoeTextConfig.
json qwen_text_config_of(const json& config, bool experts) {
  json out = {{"model_type", internal::kQwen35},
              {"vocab_size", 248320},
              {"hidden_size", 4096},
              {"intermediate_size", 12288},
              {"num_hidden_layers", 32},
              {"num_attention_heads", 16},
              {"num_key_value_heads", 4},
              {"max_position_embeddings", 32768}};
  if (experts) {
    out.update({{"model_type", internal::kQwen35Moe},
                {"hidden_size", 2048},
                {"num_hidden_layers", 40},
                {"num_key_value_heads", 2},
                {"moe_intermediate_size", 512},
                {"shared_expert_intermediate_size", 512},
                {"num_experts_per_tok", 8},
                {"num_experts", 256}});
  }
  out.update(config["text_config"]);
  out["tie_word_embeddings"] = config.value("tie_word_embeddings", json(false));
  return out;
}

// What the weights are stored by, if that cannot be read; else empty.
std::string unread_quantisation(const json& config) {
  if (!config.is_object()) return "";
  const auto found = config.find("quantization_config");
  if (found == config.end() || !found->is_object() || found->empty()) return "";
  const auto method = found->find("quant_method");
  const bool named = method != found->end() && method->is_string();
  if (named && *method == "mxfp4" && config.value("model_type", json()) == kGptOss) return "";
  return named ? quote(method->get<std::string>()) : "a method that is not named";
}

double usual_eps(Family family) {
  for (const Family wide : {Family::kPhi3, Family::kOlmo2, Family::kGptOss, Family::kOlmoe,
                            Family::kGlm4Moe, Family::kErnie45Moe}) {
    if (family == wide) return 1e-5;
  }
  return family == Family::kGlm4 ? 1.5625e-7 : 1e-6;
}

std::int64_t usual_head_dim(Family family, std::int64_t even) {
  switch (family) {
    case Family::kGemma3:
    case Family::kGemma2:
      return 256;
    case Family::kQwen35:
      return 256;
    case Family::kGptOss:
      return 64;
    case Family::kGlm4:
      return 128;
    default:
      return even;
  }
}

void read_gemma(const json& config, Fields& f, DecoderConfig& c) {
  c.query_scale = 1.0 / std::sqrt(f.number("query_pre_attn_scalar", 256.0));
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
  if (c.family == Family::kGemma2) {
    internal::read_gemma2_caps(config, f, c);
  } else {
    c.attention_softcap = f.number("attn_logit_softcapping", 0.0);
    c.logit_softcap = f.number("final_logit_softcapping", 0.0);
  }
  if (f.flag("use_bidirectional_attention", false)) {
    f.fail("an embedding model with bidirectional attention cannot generate");
  }
}

double usual_theta(const std::string& type, const DecoderConfig& c) {
  if (c.family == Family::kGemma3) return 1e6;
  if (c.family == Family::kOlmo2 || c.family == Family::kErnie45Moe) return 5e5;
  if (c.family == Family::kLfm2) return 1e6;
  return type == kSmolLm3 ? 2e6 : 1e4;
}

// What attention does besides the sizes of its heads.
void read_family(const json& config, const std::string& type, Fields& f, DecoderConfig& c) {
  c.query_scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  if (c.gemma()) read_gemma(config, f, c);
  if (type == internal::kGranite || internal::is_granite_moe(type)) internal::read_granite(f, c);
  if (c.family == Family::kPhi3) return internal::read_phi3(f, c);
  if (c.usual_rotation() > 0.0) internal::read_part_of_a_head(c.usual_rotation(), f, c);
  refuse_part_of_a_head(config, c, f);
  read_ropes(f, usual_theta(type, c), c);
  if (type == kNemotronDiffusion) read_nemotron(f, c);
  // Qwen3-MoE has its window in every layer, or none.
  const bool everywhere = type == kQwen3Moe && f.flag("use_sliding_window", false);
  if (is_mistral(type) || type == kMixtral || everywhere) {
    read_mistral_window(config, f, type == kMixtral ? 0 : 4096, c);
  } else if (type == kGptOss) {
    internal::read_gpt_oss(f, c);
  } else if (type == kSmolLm3) {
    internal::read_smollm3(f, c);
  } else if (type == internal::kOlmo3) {
    internal::read_olmo3_windows(f, c);
  } else if (internal::is_lfm2(type) || internal::is_qwen35(type)) {
    internal::read_recurrent_layers(f, c);
  } else {
    read_windows(config, f, c);
  }
}

Result<DecoderConfig> parse_text_config(const json& config) {
  Fields f(config, "decoder");
  const std::string type = f.text("model_type", std::nullopt);
  const auto family = family_of(type);
  if (!family) {
    return Error{
        f.error().empty()
            ? fmt::format(
                  "config.json: model_type {} is not supported; llama, mistral, ministral, "
                  "mixtral, smollm3, granite, granitemoe, granitemoeshared, qwen2, qwen2_moe, "
                  "qwen3, qwen3_moe, "
                  "gpt_oss, gemma2, gemma3, gemma3_text, phi3, olmo2, olmo3, olmoe, "
                  "glm4, glm4_moe, ernie4_5_moe, lfm2, lfm2_moe, qwen3_next, qwen3_5, "
                  "qwen3_5_text, qwen3_5_moe, qwen3_5_moe_text and "
                  "nemotron_labs_diffusion are",
                  quote(type))
            : "config.json: " + f.error()};
  }
  DecoderConfig c(*family);
  c.vocab = f.integer("vocab_size");
  c.hidden = f.integer("hidden_size");
  c.layers = f.integer("num_hidden_layers");
  c.heads = f.integer("num_attention_heads");
  c.kv_heads = f.integer("num_key_value_heads", c.heads);
  const std::int64_t even = c.heads > 0 ? c.hidden / c.heads : 0;
  c.head_dim = f.integer("head_dim", usual_head_dim(*family, even));
  if (internal::has_experts(type)) {
    internal::read_experts(f, type, c);
  } else if (type != internal::kLfm2) {
    c.intermediate = f.integer("intermediate_size");
  }
  c.context = f.integer("max_position_embeddings");
  c.norm_eps = f.number("rms_norm_eps", usual_eps(*family));
  c.tied_head =
      f.flag("tie_word_embeddings", c.gemma() || type == kSmolLm3 || type == internal::kErnie45Moe);
  if (c.family == Family::kLfm2) internal::read_lfm2_sizes(f, type == internal::kLfm2, c);
  const std::string act = f.text(c.gemma() ? "hidden_activation" : "hidden_act",
                                 c.gemma() ? "gelu_pytorch_tanh" : "silu");
  if (act != (c.gemma() ? "gelu_pytorch_tanh" : "silu")) {
    f.fail(fmt::format("activation {} is not supported for {}", quote(act), type));
  }
  if (const auto bad = internal::check_sizes(c)) f.fail(*bad);
  if (!f.error().empty()) return Error{"config.json: " + f.error()};
  read_family(config, type, f, c);
  if (const auto bad = internal::check_numbers(c)) f.fail(*bad);
  if (!f.error().empty()) return Error{"config.json: " + f.error()};
  return c;
}

}  // namespace

bool is_multimodal(const json& config) {
  return config.is_object() && config.contains("text_config") && !config.contains("hidden_size");
}

Result<DecoderConfig> parse_decoder_config(const json& config) {
  if (const std::string method = unread_quantisation(config); !method.empty()) {
    return Error{
        fmt::format("config.json: the weights are quantised by {} (quantization_config), which "
                    "forerun does not read: take the unquantised weights, or a GGUF file of the "
                    "model",
                    method)};
  }
  if (!is_multimodal(config)) return parse_text_config(config);
  const json type = config.value("model_type", json());
  const bool experts = type == "qwen3_5_moe", qwen = type == "qwen3_5" || experts;
  if ((type != "gemma3" && !qwen) || !config["text_config"].is_object()) {
    return Error{
        "config.json: this is a multimodal model; of these, only the texts of gemma3, qwen3_5 and "
        "qwen3_5_moe are supported"};
  }
  return parse_text_config(qwen ? qwen_text_config_of(config, experts)
                                : gemma_text_config_of(config));
}

}  // namespace forerun
