#include "forerun/models/dflash/dflash_config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "forerun/base/quote.h"
#include "forerun/models/feature_layers.h"
#include "forerun/models/internal/config_check.h"
#include "forerun/models/internal/hf_fields.h"

namespace forerun {
namespace {

using internal::config_error;
using internal::Fields;
using nlohmann::json;

const char* const kDflash = "DFlash drafter";

// The sizes and numbers of a Qwen3 block, with the same names in both formats.
void read_body(Fields& f, DFlashConfig& c) {
  c.hidden = f.integer("hidden_size");
  c.intermediate = f.integer("intermediate_size");
  c.heads = f.integer("num_attention_heads");
  c.kv_heads = f.integer("num_key_value_heads", c.heads);
  c.head_dim = f.integer("head_dim", c.heads > 0 ? c.hidden / c.heads : 0);
  c.layers = f.integer("num_hidden_layers");
  c.vocab = f.integer("vocab_size");
  c.norm_eps = f.number("rms_norm_eps", 1e-6);
  const std::string activation = f.text("hidden_act", "silu");
  if (activation != "silu")
    f.fail(fmt::format("activation {} is not supported", quote(activation)));
  if (f.flag("attention_bias", false)) f.fail("'attention_bias' is not supported");

  const json* parameters = f.find("rope_parameters");
  c.rope_theta = f.number("rope_theta", parameters ? std::optional(1e4) : std::nullopt);
  double ignored = c.rope_theta;
  if (const json* scaling = f.find("rope_scaling")) {
    internal::read_rope(*scaling, f, ignored, c.rope_scaling);
  }
  if (parameters != nullptr) {
    internal::read_rope(*parameters, f, c.rope_theta, c.rope_scaling);
    if (parameters->is_object() && parameters->value("partial_rotary_factor", json(1.0)) != 1.0) {
      f.fail("a rotary embedding of part of a head is not supported");
    }
  }
  if (f.number("partial_rotary_factor", 1.0) != 1.0) {
    f.fail("a rotary embedding of part of a head is not supported");
  }
}

// The error in the sizes, if any; checked before anything is allocated by them.
std::optional<std::string> check_body(const DFlashConfig& c) {
  DecoderConfig as_decoder;
  as_decoder.vocab = c.vocab;
  as_decoder.hidden = c.hidden;
  as_decoder.layers = c.layers;
  as_decoder.heads = c.heads;
  as_decoder.kv_heads = c.kv_heads;
  as_decoder.head_dim = c.head_dim;
  as_decoder.intermediate = c.intermediate;
  as_decoder.context = 1;
  as_decoder.norm_eps = c.norm_eps;
  if (const auto bad = internal::check_sizes(as_decoder)) return bad;
  as_decoder.rope_theta = c.rope_theta;
  as_decoder.rope_scaling = c.rope_scaling;
  as_decoder.query_scale = 1.0;
  return internal::check_numbers(as_decoder);
}

std::optional<std::string> check_block(const DFlashConfig& c, std::int64_t target_layers) {
  if (c.block < 2 || c.block > 256) {
    return fmt::format("a block of {} slots; 2 to 256 are supported", c.block);
  }
  if (c.draft_vocab < 1 || c.draft_vocab > c.vocab) {
    return fmt::format("a draft vocabulary of {} inside one of {}", c.draft_vocab, c.vocab);
  }
  if (c.target_layers != target_layers) {
    return fmt::format(
        "the drafter was made for a target of {} layers, this one has {}; use the target it was "
        "trained with",
        c.target_layers, target_layers);
  }
  if (c.feature_layers.empty() || c.feature_layers.size() > 256) {
    return fmt::format("{} feature layers; 1 to 256 are supported", c.feature_layers.size());
  }
  for (const std::int64_t id : c.feature_layers) {
    // The last block is excluded: lists of hidden states end with the normed output instead.
    if (id < 0 || id > target_layers - 2) {
      return fmt::format(
          "feature layer {} (zero-based) lies outside 0 to {} of the target's {} layers; use the "
          "target the drafter was trained with",
          id, target_layers - 2, target_layers);
    }
  }
  if (c.mask_token < -1 || c.mask_token >= c.vocab) {
    return fmt::format("mask token {} lies outside the vocabulary of {}", c.mask_token, c.vocab);
  }
  if (c.conv_taps < 0 || c.conv_taps > c.block) {
    return fmt::format("convolutions over {} slots of a block of {}", c.conv_taps, c.block);
  }
  if (c.conv_group < 1 || (c.conv_taps > 0 && c.hidden % c.conv_group != 0)) {
    return fmt::format("convolutions of {} channels in groups of {}; whole groups are supported",
                       c.hidden, c.conv_group);
  }
  if (c.weight_bits != 0 && c.weight_bits != 4) {
    return fmt::format("weights of {} bits; 4 are supported", c.weight_bits);
  }
  if (c.weight_bits != 0 && !c.takes_four_bits()) {
    return "weights of 4 bits in matrices whose inputs are not multiples of 32";
  }
  return std::nullopt;
}

std::optional<std::string> check_heads(const DFlashConfig& c) {
  constexpr std::int64_t kRank = 1 << 16, kCandidates = 1024;
  if (c.markov_rank < 0 || c.markov_rank > kRank) {
    return fmt::format("a Markov head of rank {}; at most {} is supported", c.markov_rank, kRank);
  }
  if (c.selector_rank < 0 || c.selector_rank > kRank) {
    return fmt::format("a selector of rank {}; at most {} is supported", c.selector_rank, kRank);
  }
  if (c.selector_rank == 0) return std::nullopt;
  if (c.markov_rank > 0) return "a Markov head and a selector; one of them is supported";
  if (c.selector_top_k < 1 || c.selector_top_k > std::min(c.draft_vocab, kCandidates)) {
    return fmt::format("a selector among {} candidates of {} tokens; 1 to {} are supported",
                       c.selector_top_k, c.draft_vocab, std::min(c.draft_vocab, kCandidates));
  }
  return std::nullopt;
}

// Which layers have a window, and its width. As in transformers' Qwen3Config, a window counts only
// if use_sliding_window says so.
struct Windows {
  std::vector<bool> sliding;  // by the layer's type
  std::int64_t window = 0;
};
Windows read_windows(Fields& f, std::int64_t layers) {
  Windows out{std::vector<bool>(static_cast<std::size_t>(layers), false)};
  if (f.flag("use_sliding_window", false)) out.window = f.integer("sliding_window", 4096);
  if (out.window < 0) f.fail(fmt::format("a sliding window of {}", out.window));
  const json* types = f.find("layer_types");
  if (types == nullptr) {
    const std::int64_t first = f.integer("max_window_layers", 28);
    for (std::int64_t i = 0; i < layers; ++i) {
      out.sliding[static_cast<std::size_t>(i)] = out.window > 0 && i >= first;
    }
    return out;
  }
  if (!types->is_array() || types->size() != out.sliding.size()) {
    f.fail(fmt::format("'layer_types' does not list {} layers", layers));
    return out;
  }
  for (std::size_t i = 0; i < out.sliding.size(); ++i) {
    const json& type = (*types)[i];
    if (type != "full_attention" && type != "sliding_attention") {
      f.fail(fmt::format("layer type {} is not supported", printable(type.dump(), 40)));
    }
    out.sliding[i] = type == "sliding_attention";
  }
  return out;
}

std::vector<std::int64_t> read_ids(Fields& f, const char* key, std::int64_t offset) {
  std::vector<std::int64_t> out;
  const json* ids = f.find(key);
  if (ids == nullptr) return out;
  if (!ids->is_array() || ids->empty()) f.fail(fmt::format("'{}' is no list of layers", key));
  if (!ids->is_array()) return out;
  for (const json& id : *ids) {
    if (!id.is_number_integer() || id > 1'000'000 || id < -1'000'000) {
      f.fail(fmt::format("'{}' holds {}, which is no layer", key, printable(id.dump(), 40)));
      return out;
    }
    out.push_back(id.get<std::int64_t>() + offset);
  }
  return out;
}

// Keys of one file: those of dflash_config, then those of the top level.
class Nested {
 public:
  Nested(Fields& inner, Fields& outer) : inner_(inner), outer_(outer) {}
  Fields& having(const char* key) const { return inner_.find(key) ? inner_ : outer_; }

 private:
  Fields &inner_, &outer_;
};

void read_markov_type(Fields& f, DFlashConfig& c) {
  const std::string type = f.text("markov_head_type", "vanilla");
  if (c.markov_rank > 0 && type != "vanilla" && type != "gated") {
    f.fail(fmt::format("a Markov head of type {} is not supported; vanilla and gated are",
                       quote(type)));
  }
  c.markov_gated = c.markov_rank > 0 && type == "gated";
}

void read_zlab(const json& inner_object, Fields& outer, DFlashConfig& c) {
  Fields inner(inner_object, kDflash);
  const Nested both(inner, outer);
  const Windows windows = read_windows(outer, c.layers);
  std::optional<bool> causal;
  if (outer.find("is_causal")) causal = outer.flag("is_causal", false);
  for (const bool sliding : windows.sliding) {
    c.attention.push_back(
        {.window = sliding ? windows.window : 0, .causal = causal.value_or(sliding)});
  }
  c.target_layers = outer.integer("num_target_layers", c.target_layers);
  c.block = both.having("block_size").integer("block_size", 16);
  Fields& of_ids = both.having("target_layer_ids");
  c.feature_layers = read_ids(of_ids, "target_layer_ids", 0);
  if (!of_ids.find("target_layer_ids")) {
    if (c.target_layers < 4) return outer.fail("'target_layer_ids' is missing");
    c.feature_layers = default_feature_layers(c.target_layers, c.layers);
  }
  const auto number = [&](const char* key, double otherwise) {
    return both.having(key).number(key, otherwise);
  };
  const auto integer = [&](const char* key, std::int64_t otherwise) {
    return both.having(key).integer(key, otherwise);
  };
  c.mask_token = integer("mask_token_id", -1);
  c.conv_taps = integer("conv_kernel_size", 0);
  c.conv_group = integer("conv_group_size", c.conv_group);
  c.selector_rank = integer("selector_rank", 0);
  c.selector_top_k = integer("selector_top_k", c.selector_top_k);
  c.embedding_scale = number("input_embedding_scale", 1.0);
  c.output_multiplier = number("output_multiplier", 1.0);
  c.final_softcap = number("final_logit_softcapping", 0.0);
  // Our additions to z-lab's keys.
  c.draft_vocab = inner.integer("draft_vocab_size", c.vocab);
  c.predicts_next = inner.flag("sample_from_anchor", false);
  c.slot_state = inner.flag("slot_state", false);
  c.weight_bits = inner.integer("weight_bits", 0);
  c.markov_rank = inner.integer("markov_rank", 0);
  read_markov_type(inner, c);
  c.confidence = inner.flag("enable_confidence_head", false);
  c.confidence_sees_markov = inner.flag("confidence_head_with_markov", true);
  if (!inner.error().empty()) outer.fail("dflash_config: " + inner.error());
}

void read_speculators(Fields& outer, Fields& body, DFlashConfig& c) {
  const std::string type = outer.text("speculators_model_type", std::nullopt);
  const bool dspark = type == "dspark", second = type == "dflash2";
  if (type != "dflash" && !dspark && !second) {
    return outer.fail(fmt::format(
        "speculators_model_type {} is not supported; dflash, dflash2 and dspark are", quote(type)));
  }
  const Windows windows = read_windows(body, c.layers);
  const bool both_ways = outer.flag("sliding_window_non_causal", second);
  for (const bool sliding : windows.sliding) {
    c.attention.push_back(
        {.window = sliding ? windows.window : 0, .causal = sliding && !both_ways});
  }
  if (const json* hidden = outer.find("target_hidden_size"); hidden && *hidden != c.hidden) {
    outer.fail(fmt::format("a target of hidden size {} for a drafter of {} is not supported",
                           printable(hidden->dump(), 40), c.hidden));
  }
  c.block = outer.integer("block_size", 8);
  // Their ids name the hidden state that enters a block; ours the block that it leaves.
  c.feature_layers = read_ids(outer, "aux_hidden_state_layer_ids", -1);
  if (!outer.find("aux_hidden_state_layer_ids")) {
    const std::int64_t n = c.target_layers;
    c.feature_layers = {1, n / 2 - 1, n - 4};
  }
  c.mask_token = outer.integer("mask_token_id", -1);
  c.draft_vocab = outer.integer("draft_vocab_size", 32000);
  if (second) {
    c.conv_taps = outer.integer("conv_kernel_size", 2);
    c.conv_group = outer.integer("conv_group_size", c.conv_group);
    c.selector_rank = outer.integer("selector_rank", 256);
    c.selector_top_k = outer.integer("selector_top_k", c.selector_top_k);
  }
  c.predicts_next = outer.flag("sample_from_anchor", dspark);
  if (!dspark) return;
  c.markov_rank = outer.integer("markov_rank", 256);
  read_markov_type(outer, c);
  c.confidence = outer.flag("enable_confidence_head", true);
  c.confidence_sees_markov = outer.flag("confidence_head_with_markov", true);
}

bool names_architecture(const json& config, const char* name) {
  const auto found = config.find("architectures");
  return found != config.end() && found->is_array() &&
         std::find(found->begin(), found->end(), name) != found->end();
}

}  // namespace

bool describes_dflash(const json& config) {
  return config.contains("speculators_model_type") || config.contains("dflash_config") ||
         names_architecture(config, "DFlashDraftModel") ||
         names_architecture(config, "DFlash2DraftModel");
}

Result<DFlashConfig> parse_dflash_config(const json& config, std::int64_t target_layers) {
  if (!config.is_object()) return config_error("not an object");
  const bool second = names_architecture(config, "DFlash2DraftModel");
  Fields outer(config, kDflash);
  const json* layer_config = outer.find("transformer_layer_config");
  const bool speculators = outer.find("speculators_model_type") != nullptr;
  const json* nested = outer.find("dflash_config");
  if (speculators ? !(layer_config && layer_config->is_object())
                  : !nested && !second && !names_architecture(config, "DFlashDraftModel")) {
    return config_error(
        "this is no DFlash drafter; expected one of forerun train dflash or of z-lab "
        "(dflash_config), or one of speculators (transformer_layer_config)");
  }
  DFlashConfig c;
  c.target_layers = target_layers;
  Fields body(speculators ? *layer_config : config, kDflash);
  read_body(body, c);
  if (!body.error().empty()) return config_error(body.error());
  if (const auto bad = check_body(c)) return config_error(*bad);
  if (speculators) {
    read_speculators(outer, body, c);
    if (!body.error().empty()) return config_error(body.error());
  } else {
    read_zlab(nested ? *nested : json::object(), outer, c);
  }
  if (!outer.error().empty()) return config_error(outer.error());
  if (second && c.conv_taps == 0 && c.selector_rank == 0) {
    return config_error("a DFlash2 drafter has a 'conv_kernel_size' or a 'selector_rank'");
  }
  if (const auto bad = check_block(c, target_layers)) return config_error(*bad);
  if (const auto bad = check_heads(c)) return config_error(*bad);
  const auto finite = [](double x) { return x > -1e30 && x < 1e30; };  // false for NaN
  if (!finite(c.embedding_scale) || !finite(c.output_multiplier) || !(c.final_softcap >= 0.0)) {
    return config_error("a scale of embeddings or logits is out of range");
  }
  return c;
}

json dflash_config_json(const DFlashConfig& c) {
  std::int64_t window = 0;
  bool plain = true, none_causal = true, all_causal = true;  // is_causal absent, false, true
  std::vector<std::string> types;
  for (const LayerAttention& a : c.attention) {
    if (a.window > 0 && window > 0 && a.window != window) {
      throw std::invalid_argument("dflash: layers of different windows cannot be written");
    }
    window = std::max(window, a.window);
    plain = plain && a.causal == (a.window > 0);
    none_causal = none_causal && !a.causal;
    all_causal = all_causal && a.causal;
    types.push_back(a.window > 0 ? "sliding_attention" : "full_attention");
  }
  if (!plain && !none_causal && !all_causal) {
    throw std::invalid_argument("dflash: this mix of causal layers cannot be written");
  }
  json inner = {{"block_size", c.block}, {"target_layer_ids", c.feature_layers}};
  if (c.mask_token >= 0) inner["mask_token_id"] = c.mask_token;
  if (c.embedding_scale != 1.0) inner["input_embedding_scale"] = c.embedding_scale;
  if (c.output_multiplier != 1.0) inner["output_multiplier"] = c.output_multiplier;
  if (c.final_softcap > 0.0) inner["final_logit_softcapping"] = c.final_softcap;
  if (c.draft_vocab != c.vocab) inner["draft_vocab_size"] = c.draft_vocab;
  if (c.predicts_next) inner["sample_from_anchor"] = true;
  if (c.slot_state) inner["slot_state"] = true;
  if (c.weight_bits > 0) inner["weight_bits"] = c.weight_bits;
  if (c.conv_taps > 0) {
    inner["conv_kernel_size"] = c.conv_taps;
    inner["conv_group_size"] = c.conv_group;
  }
  if (c.selector_rank > 0) {
    inner["selector_rank"] = c.selector_rank;
    inner["selector_top_k"] = c.selector_top_k;
  }
  if (c.markov_rank > 0) inner["markov_rank"] = c.markov_rank;
  if (c.markov_gated) inner["markov_head_type"] = "gated";
  if (c.confidence) {
    inner["enable_confidence_head"] = true;
    inner["confidence_head_with_markov"] = c.confidence_sees_markov && c.markov_rank > 0;
  }
  const bool second = c.conv_taps > 0 || c.selector_rank > 0;
  json out = {{"architectures", {second ? "DFlash2DraftModel" : "DFlashDraftModel"}},
              {"model_type", "qwen3"},
              {"hidden_size", c.hidden},
              {"intermediate_size", c.intermediate},
              {"num_attention_heads", c.heads},
              {"num_key_value_heads", c.kv_heads},
              {"head_dim", c.head_dim},
              {"num_hidden_layers", c.layers},
              {"vocab_size", c.vocab},
              {"num_target_layers", c.target_layers},
              {"hidden_act", "silu"},
              {"attention_bias", false},
              {"rms_norm_eps", c.norm_eps},
              {"rope_theta", c.rope_theta},
              {"layer_types", types},
              {"tie_word_embeddings", false},
              {"dtype", "bfloat16"},
              {"block_size", c.block},
              {"dflash_config", inner}};
  if (c.rope_scaling.kind != RopeScaling::Kind::kNone) {
    out["rope_scaling"] = internal::rope_scaling_json(c.rope_scaling);
  }
  if (window > 0) {
    out["use_sliding_window"] = true;
    out["sliding_window"] = window;
  }
  if (!plain) out["is_causal"] = all_causal;
  return out;
}

}  // namespace forerun
