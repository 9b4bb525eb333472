#include "forerun/models/internal/family_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "forerun/base/quote.h"

namespace forerun::internal {

using nlohmann::json;

namespace {

// The rope dictionary of newer files, or that of older ones.
json rope_fields(const Fields& f) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* found = f.find(key);
    if (found != nullptr && found->is_object()) return *found;
  }
  return json::object();
}

// The factors depend on the model's context, never on a text, as in llama.cpp and vLLM;
// transformers takes the short ones while a text is no longer than the original context.
void read_longrope_fields(const json& rope, Fields& f, DecoderConfig& c) {
  RopeScaling& s = c.rope_scaling;
  s.kind = RopeScaling::Kind::kLongRope;
  Fields r(rope);
  const double original = f.number("original_max_position_embeddings", 4096.0);
  s.original_context = r.number("original_max_position_embeddings", original);
  const auto context = static_cast<double>(c.context);
  const double factor = r.number("factor", context / s.original_context);
  const double usual =
      factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(s.original_context));
  s.attention_factor = r.number("attention_factor", usual);
  s.longer = context > s.original_context;
  const auto list = [&](const char* key) {
    const json* found = r.find(key);
    const auto count = static_cast<std::size_t>(c.rotated() / 2);
    if (found == nullptr || !found->is_array() || found->size() != count ||
        !std::all_of(found->begin(), found->end(), [](const json& x) { return x.is_number(); })) {
      f.fail(fmt::format("'{}' of the rope scaling does not list {} numbers", key, count));
      return std::vector<double>(count, 1.0);
    }
    return found->get<std::vector<double>>();
  };
  s.short_factors = list("short_factor");
  s.long_factors = list("long_factor");
  if (!r.error().empty()) f.fail("rope scaling: " + r.error());
}

}  // namespace

void read_layer_types(const json& types, Fields& f, DecoderConfig& c) {
  if (!types.is_array() || types.size() != c.sliding.size()) {
    f.fail(fmt::format("'layer_types' does not list {} layers", c.layers));
    return;
  }
  for (std::size_t i = 0; i < c.sliding.size(); ++i) {
    const json& type = types[i];
    if (type != "full_attention" && type != "sliding_attention") {
      f.fail(fmt::format("layer type {} is not supported", printable(type.dump(), 40)));
    }
    c.sliding[i] = type == "sliding_attention";
  }
}

// The list says 1 of layers that rotate. Source: transformers' configuration_smollm3.py.
void read_smollm3(Fields& f, DecoderConfig& c) {
  const auto layers = static_cast<std::size_t>(c.layers);
  c.no_rope.assign(layers, false);
  if (const json* list = f.find("no_rope_layers")) {
    const auto is_flag = [](const json& x) { return x.is_boolean() || x == 0 || x == 1; };
    if (!list->is_array() || list->size() != layers ||
        !std::all_of(list->begin(), list->end(), is_flag)) {
      return f.fail(fmt::format("'no_rope_layers' does not list a 0 or a 1 for {} layers", layers));
    }
    for (std::size_t i = 0; i < layers; ++i) {
      c.no_rope[i] = (*list)[i] == 0 || (*list)[i] == false;
    }
  } else {
    const std::int64_t interval = f.integer("no_rope_layer_interval", 4);
    if (interval <= 0) return f.fail("'no_rope_layer_interval' must be positive");
    for (std::size_t i = 0; i < layers; ++i) {
      c.no_rope[i] = (static_cast<std::int64_t>(i) + 1) % interval == 0;
    }
  }
  c.sliding.assign(layers, false);
  c.window = f.flag("use_sliding_window", false) ? f.integer("sliding_window", 0) : 0;
  if (c.window < 0) return f.fail("'sliding_window' is negative");
  if (c.window == 0) return;
  c.sliding = c.no_rope;
  if (const json* types = f.find("layer_types")) read_layer_types(*types, f, c);
}

void describe_smollm3(json& out, const DecoderConfig& c) {
  out["architectures"] = {"SmolLM3ForCausalLM"};
  out["model_type"] = kSmolLm3;
  for (const bool none : c.no_rope) out["no_rope_layers"].push_back(none ? 0 : 1);
  out["use_sliding_window"] = c.window > 0;
}

void read_granite(Fields& f, DecoderConfig& c) {
  c.embedding_scale = f.number("embedding_multiplier", 1.0);
  c.residual_scale = f.number("residual_multiplier", 1.0);
  c.query_scale = f.number("attention_multiplier", 1.0);
  c.logit_divisor = f.number("logits_scaling", 1.0);
}

bool is_granite(const DecoderConfig& c) {
  const double usual = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  return c.family == Family::kLlama && (c.embedding_scale != 1.0 || c.residual_scale != 1.0 ||
                                        c.logit_divisor != 1.0 || c.query_scale != usual);
}

void describe_granite(json& out, const DecoderConfig& c) {
  out["architectures"] = {"GraniteForCausalLM"};
  out["model_type"] = kGranite;
  out["embedding_multiplier"] = c.embedding_scale;
  out["residual_multiplier"] = c.residual_scale;
  out["attention_multiplier"] = c.query_scale;
  out["logits_scaling"] = c.logit_divisor;
}

void read_part_of_a_head(double otherwise, Fields& f, DecoderConfig& c) {
  const json rope = rope_fields(f);
  Fields inner(rope);
  const double part =
      inner.number("partial_rotary_factor", f.number("partial_rotary_factor", otherwise));
  if (!inner.error().empty()) f.fail("rope parameters: " + inner.error());
  if (!(part > 0.0 && part <= 1.0)) {
    return f.fail(fmt::format("'partial_rotary_factor' is {}, not above 0 and at most 1", part));
  }
  c.rotary_dim = static_cast<std::int64_t>(static_cast<double>(c.head_dim) * part);
  if (c.rotary_dim < 2) return f.fail("'partial_rotary_factor' leaves nothing to rotate");
  if (c.rotary_dim == c.head_dim) c.rotary_dim = 0;
}

void describe_part_of_a_head(json& out, const DecoderConfig& c) {
  if (c.rotary_dim == 0 && !c.rotates_half()) return;
  out["partial_rotary_factor"] = static_cast<double>(c.rotated()) / static_cast<double>(c.head_dim);
}

// Source: transformers' configuration_phi3.py, which takes "su" and "yarn" of older files for
// longrope.
void read_phi3(Fields& f, DecoderConfig& c) {
  read_part_of_a_head(1.0, f, c);
  const json rope = rope_fields(f);
  Fields r(rope);
  c.rope_theta = c.local_rope_theta = r.number("rope_theta", f.number("rope_theta", 1e4));
  std::string type = r.text("rope_type", "");
  if (type.empty()) type = r.text("type", "default");
  if (!r.error().empty()) return f.fail("rope scaling: " + r.error());
  if (type == "longrope" || type == "su" || type == "yarn") {
    read_longrope_fields(rope, f, c);
  } else if (type != "default") {
    f.fail(fmt::format("rope scaling {} is not supported for phi3; longrope is", quote(type)));
  }
  c.window = f.integer("sliding_window", 0);
  if (c.window < 0) return f.fail("'sliding_window' is negative");
  if (c.window >= c.context) c.window = 0;  // nothing is out of its reach
  c.sliding.assign(static_cast<std::size_t>(c.layers), c.window > 0);
}

// Null is no cap.
void read_gemma2_caps(const json& config, Fields& f, DecoderConfig& c) {
  const auto cap = [&](const char* key, double usual) {
    return f.number(key, config.contains(key) ? 0.0 : usual);
  };
  c.attention_softcap = cap("attn_logit_softcapping", 50.0);
  c.logit_softcap = cap("final_logit_softcapping", 30.0);
}

void read_olmo3_windows(Fields& f, DecoderConfig& c) {
  c.window = f.integer("sliding_window", 4096);
  if (c.window <= 0) return f.fail("'sliding_window' must be positive");
  c.sliding.clear();
  for (std::int64_t i = 0; i < c.layers; ++i) c.sliding.push_back((i + 1) % 4 != 0);
  if (const json* types = f.find("layer_types")) read_layer_types(*types, f, c);
}

// Values that files leave out are those of transformers' GptOssConfig.
void read_gpt_oss(Fields& f, DecoderConfig& c) {
  if (f.find("rope_scaling") == nullptr && f.find("rope_parameters") == nullptr) {
    return f.fail("'rope_scaling' is missing");
  }
  c.clamp = {.slope = f.number("swiglu_alpha", 1.702), .limit = f.number("swiglu_limit", 7.0)};
  if (!f.flag("attention_bias", true)) f.fail("'attention_bias' must be true");
  c.window = f.integer("sliding_window", 128);
  if (c.window <= 0) return f.fail("'sliding_window' must be positive");
  c.sliding.assign(static_cast<std::size_t>(c.layers), false);
  for (std::size_t i = 0; i < c.sliding.size(); ++i) c.sliding[i] = i % 2 == 0;
  if (const json* types = f.find("layer_types")) read_layer_types(*types, f, c);
}

}  // namespace forerun::internal
