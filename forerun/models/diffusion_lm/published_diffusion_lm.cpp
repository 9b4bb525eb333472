#include "forerun/models/diffusion_lm/published_diffusion_lm.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/models/build_decoder.h"
#include "forerun/models/decoder_config_gguf.h"
#include "forerun/models/internal/hf_fields.h"

namespace forerun {
namespace {

using nlohmann::json;

struct Kind {
  Family family;  // of the blocks
  bool shifted;
  bool experts = false;
  std::int64_t mask = -1;  // of the published vocabulary, for files that do not name it
};

// llama.cpp's converter writes no mask token of LLaDA's, LLaDA-MoE's configuration has none.
constexpr Kind kDream{.family = Family::kQwen2, .shifted = true},
    kLlada{.family = Family::kLlama, .shifted = false, .mask = 126336},
    kLladaMoe{.family = Family::kQwen3, .shifted = false, .experts = true, .mask = 156895};

std::optional<Kind> kind_named(std::string_view name) {
  if (name == "dream" || name == "Dream") return kDream;
  if (name == "llada") return kLlada;
  if (name == "llada-moe" || name == "llada_moe" || name == "lladamoe") return kLladaMoe;
  return std::nullopt;
}

std::optional<Kind> kind_of(const json& config) {
  if (!config.is_object()) return std::nullopt;
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return std::nullopt;
  const auto kind = kind_named(type->get_ref<const std::string&>());
  // Some files of LLaDA-MoE name the type of LLaDA.
  const bool experts = config.contains("num_experts") && config["num_experts"].is_number_integer();
  return kind && !kind->shifted && experts ? kLladaMoe : kind;
}

// LLaDA-MoE's experts, and what of its modelling code the published files do not use.
void read_experts(internal::Fields& f, DecoderConfig& c) {
  c.experts = f.integer("num_experts");
  c.experts_used = f.integer("num_experts_per_tok");
  constexpr const char* kUnknown = "'{}' is not supported for LLaDA-MoE";
  for (const char* key : {"norm_topk_prob", "moe_router_enable_expert_bias", "attention_bias"}) {
    if (f.flag(key, false)) f.fail(fmt::format(kUnknown, key));
  }
  if (f.integer("shared_expert_intermediate_size", 0) != 0) {
    f.fail(fmt::format(kUnknown, "shared_expert_intermediate_size"));
  }
  if (!f.flag("qk_layernorm", true)) f.fail("'qk_layernorm': false is not supported for LLaDA-MoE");
  if (f.text("moe_router_score_function", "softmax") != "softmax" ||
      f.number("partial_rotary_factor", 1.0) != 1.0 ||
      f.number("routed_scaling_factor", 1.0) != 1.0) {
    f.fail("LLaDA-MoE with another router than softmax, or a rotary embedding of part of a head");
  }
  if (c.experts < 1 || c.experts > 4096 || c.experts_used < 1 || c.experts_used > c.experts) {
    f.fail(fmt::format("{} of {} experts are out of range", c.experts_used, c.experts));
  }
}

// LLaDA's config.json in Llama's names; Dream's has Qwen2's already.
json as_decoder_config(const json& config, const Kind& kind) {
  json out = config;
  out["model_type"] = name_of(kind.family);
  if (kind.experts && config.contains("expert_intermediate_size")) {
    out["intermediate_size"] = config["expert_intermediate_size"];
  }
  if (kind.family != Family::kLlama) return out;
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"d_model", "hidden_size"},
      {"n_layers", "num_hidden_layers"},
      {"n_heads", "num_attention_heads"},
      {"n_kv_heads", "num_key_value_heads"},
      {"mlp_hidden_size", "intermediate_size"},
      {"max_sequence_length", "max_position_embeddings"},
      {"weight_tying", "tie_word_embeddings"}};
  for (const auto& [theirs, ours] : kNames) {
    if (out.contains(theirs)) out[ours] = out[theirs];
  }
  // Rows of the embedding: padded beyond the vocabulary in some files.
  if (out.contains("embedding_size") && out["embedding_size"].is_number_integer()) {
    out["vocab_size"] = out["embedding_size"];
  }
  return out;
}

// LLaDA's name of a tensor; empty: it has none.
std::string llada_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"model.embed_tokens.", "model.transformer.wte."},
      {"lm_head.", "model.transformer.ff_out."},
      {"model.norm.", "model.transformer.ln_f."},
      {"input_layernorm.", "attn_norm."},
      {"post_attention_layernorm.", "ff_norm."},
      {"self_attn.q_proj.", "q_proj."},
      {"self_attn.k_proj.", "k_proj."},
      {"self_attn.v_proj.", "v_proj."},
      {"self_attn.o_proj.", "attn_out."},
      {"mlp.gate_proj.", "ff_proj."},
      {"mlp.up_proj.", "up_proj."},
      {"mlp.down_proj.", "ff_out."}};
  constexpr std::string_view kLayers = "model.layers.";
  std::string prefix, rest = name;
  if (name.starts_with(kLayers)) {
    const std::size_t end = name.find('.', kLayers.size());
    prefix = fmt::format("model.transformer.blocks.{}.",
                         name.substr(kLayers.size(), end - kLayers.size()));
    rest = name.substr(end + 1);
  }
  for (const auto& [ours, theirs] : kNames) {
    if (rest.starts_with(ours)) {
      return fmt::format("{}{}{}", prefix, theirs, rest.substr(ours.size()));
    }
  }
  return {};
}

DiffusionLm built(const Result<DecoderConfig>& config, const Kind& kind, std::int64_t mask,
                  const DecoderFile& file, Precision precision) {
  if (!config) throw FormatError(config.error().message);
  if (mask < 0 || mask >= config->vocab) {
    throw FormatError(fmt::format(
        "no mask token in the vocabulary of {} ({}): a diffusion language model needs one",
        config->vocab, mask < 0 ? "mask_token_id is missing" : fmt::format("id {}", mask)));
  }
  DiffusionLm m;
  m.body = build_decoder(*config, file, precision);
  m.config = {.attention = DiffusionAttention::kBidirectional,
              .shifted = kind.shifted,
              .mask_token = static_cast<Token>(mask),
              .vocab = config->vocab,
              .outputs = config->vocab};
  return m;
}

// Path and reason of everything that is thrown inside.
template <class Load>
DiffusionLm with_path(const std::string& path, const Load& load) {
  try {
    return load();
  } catch (const FormatError& e) {
    throw FormatError(path + ": " + e.what());
  }
}

}  // namespace

bool is_published_diffusion_lm(const json& config) { return kind_of(config).has_value(); }

bool is_published_diffusion_lm(const Gguf& gguf) {
  const auto name = gguf.get<std::string_view>("general.architecture");
  return name && kind_named(*name).has_value();
}

DiffusionLm load_published_diffusion_lm(const Gguf& gguf, Precision precision) {
  return with_path(gguf.path(), [&] {
    const auto name = gguf.get<std::string_view>("general.architecture").value_or("");
    std::optional<Kind> kind = kind_named(name);
    if (!kind) {
      throw FormatError(
          fmt::format("architecture {} is not a diffusion language model; dream, llada and "
                      "llada-moe are",
                      quote(name)));
    }
    const auto mask = gguf.read_or<std::int64_t>("tokenizer.ggml.mask_token_id", kind->mask);
    const auto shifted = gguf.read_or<bool>("diffusion.shift_logits", true);
    for (const std::string& wrong : {mask ? std::string() : mask.error().message,
                                     shifted ? std::string() : shifted.error().message}) {
      if (!wrong.empty()) throw FormatError(wrong);
    }
    kind->shifted = *shifted;
    const auto find = [&](const std::string& tensor) { return gguf.find(tensor); };
    return built(parse_decoder_config(gguf, kind->family, kind->experts), *kind, *mask,
                 {Naming::kGguf, find, gguf.mapping()}, precision);
  });
}

DiffusionLm load_published_diffusion_lm(const HfConfig& config, const Safetensors& weights,
                                        const std::string& path, Precision precision) {
  return with_path(path, [&] {
    const std::optional<Kind> kind = kind_of(config.config);
    if (!kind) {
      throw FormatError(
          "config.json: not a diffusion language model; model_type Dream, llada and llada_moe are");
    }
    internal::Fields fields(config.config, "diffusion language model");
    const std::int64_t mask = fields.integer("mask_token_id", kind->experts ? kind->mask : -1);
    Result<DecoderConfig> decoder = parse_decoder_config(as_decoder_config(config.config, *kind));
    if (!decoder) throw FormatError(decoder.error().message);
    DecoderConfig sizes = *std::move(decoder);
    if (kind->experts) read_experts(fields, sizes);
    if (!fields.error().empty()) throw FormatError("config.json: " + fields.error());
    const bool llada = kind->family == Family::kLlama;
    const auto find = [&](const std::string& tensor) {
      return weights.find(llada ? llada_name(tensor) : tensor);
    };
    return built(sizes, *kind, mask, {Naming::kHuggingFace, find, weights.mapping()}, precision);
  });
}

}  // namespace forerun
