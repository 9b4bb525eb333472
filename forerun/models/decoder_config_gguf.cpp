#include "forerun/models/decoder_config_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/dequantize.h"
#include "forerun/models/internal/config_check.h"
#include "forerun/models/internal/gguf_experts.h"
#include "forerun/models/internal/gguf_keys.h"
#include "forerun/models/internal/gguf_recurrent.h"

namespace forerun {
namespace {

using Keys = internal::GgufKeys;

std::optional<Family> family_of(std::string_view architecture) {
  if (architecture == "llama" || architecture == "smollm3" || architecture == "granite" ||
      architecture == "granitemoe") {
    return Family::kLlama;
  }
  if (architecture == "qwen2" || architecture == "qwen2moe") return Family::kQwen2;
  if (architecture == "qwen3" || architecture == "qwen3moe") return Family::kQwen3;
  if (architecture == "gemma3") return Family::kGemma3;
  if (architecture == "gpt-oss") return Family::kGptOss;
  if (architecture == "gemma2") return Family::kGemma2;
  if (architecture == "phi3") return Family::kPhi3;
  if (architecture == "olmo2") return Family::kOlmo2;  // OLMo 3 too
  if (architecture == "glm4") return Family::kGlm4;
  if (architecture == "olmoe") return Family::kOlmoe;
  if (architecture == "glm4moe") return Family::kGlm4Moe;
  if (architecture == "ernie4_5-moe") return Family::kErnie45Moe;
  if (architecture == "lfm2" || architecture == "lfm2moe") return Family::kLfm2;
  if (architecture == "qwen35" || architecture == "qwen35moe" || architecture == "qwen3next") {
    return Family::kQwen35;
  }
  return std::nullopt;
}

// The attention factor of a Hugging Face folder, which replaces YaRN's own temperature, is stored
// as yarn_attn_factor; attn_factor multiplies either. Source of the keys: gguf-py's constants.py,
// of what they mean: convert_hf_to_gguf.py and llama-context.cpp in ggml-org/llama.cpp, which
// itself computes without yarn_attn_factor.
void read_yarn(Keys& k, DecoderConfig& c) {
  RopeScaling& s = c.rope_scaling;
  s.kind = RopeScaling::Kind::kYarn;
  s.factor = k.number("rope.scaling.factor", 1.0);
  s.original_context =
      static_cast<double>(k.integer("rope.scaling.original_context_length", c.context));
  s.beta_fast = k.number("rope.scaling.yarn_beta_fast", 32.0);
  s.beta_slow = k.number("rope.scaling.yarn_beta_slow", 1.0);
  const double own = s.factor > 1.0 ? 0.1 * std::log(s.factor) + 1.0 : 1.0;
  const double more = k.number("rope.scaling.attn_factor", 1.0);
  // Earlier files of OLMo 3 have the folder's factor under the other name.
  const bool whole = c.family == Family::kOlmo2 && !k.has("rope.scaling.yarn_attn_factor") &&
                     k.has("rope.scaling.attn_factor");
  s.attention_factor = whole ? more : k.number("rope.scaling.yarn_attn_factor", own) * more;
  s.truncate = c.family != Family::kGptOss;  // as published; llama.cpp truncates there too
  for (const auto& [key, plain] : {std::pair("rope.scaling.yarn_ext_factor", 1.0),
                                   std::pair("rope.scaling.yarn_log_multiplier", 0.0)}) {
    const double value = k.number(key, plain);
    if (value != plain) k.fail(fmt::format("{} is {}, only {} is supported", key, value, plain));
  }
}

// What a file without a type means, and files before the type had; 0 is none. Source:
// llama-model.cpp in ggml-org/llama.cpp.
void read_linear(Keys& k, DecoderConfig& c) {
  const double factor = k.number("rope.scaling.factor", k.number("rope.scale_linear", 0.0));
  if (factor == 0.0) return;
  c.rope_scaling = {.kind = RopeScaling::Kind::kLinear, .factor = factor};
  if (!(factor > 0.0)) k.fail("rope.scaling.factor must be positive");
}

// Phi-3's factors of a short and of a long context. Source: conversion/phi.py in
// ggml-org/llama.cpp.
void read_longrope(const Gguf& gguf, Keys& k, DecoderConfig& c) {
  RopeScaling& s = c.rope_scaling;
  const auto factors = [&](const char* name) {
    std::vector<float> out(static_cast<std::size_t>(c.rotated() / 2));
    const TensorView* view = gguf.find(name);
    if (view == nullptr || view->shape != std::vector<std::int64_t>{c.rotated() / 2}) {
      k.fail(fmt::format("tensor '{}' does not hold {} factors", name, out.size()));
    } else {
      dequantize(view->dtype, view->bytes, out);
    }
    return std::vector<double>(out.begin(), out.end());
  };
  s.kind = RopeScaling::Kind::kLongRope;
  s.original_context =
      static_cast<double>(k.integer("rope.scaling.original_context_length", c.context));
  s.attention_factor = k.number("rope.scaling.attn_factor", 1.0);
  s.longer = static_cast<double>(c.context) > s.original_context;
  s.short_factors = factors("rope_factors_short.weight");
  s.long_factors = factors("rope_factors_long.weight");
}

void read_rope(const Gguf& gguf, Keys& k, DecoderConfig& c) {
  c.rope_theta = k.number("rope.freq_base", 10000.0);
  c.local_rope_theta =
      c.family == Family::kGemma3 ? k.number("rope.freq_base_swa", 10000.0) : c.rope_theta;
  for (const char* factors : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (gguf.find(factors) != nullptr) return read_longrope(gguf, k, c);
  }
  if (c.family == Family::kPhi3 &&
      k.integer("rope.scaling.original_context_length", c.context) < c.context) {
    return k.fail("tensor 'rope_factors_long.weight' is missing");
  }
  const std::string scaling = k.text("rope.scaling.type", "linear");
  if (scaling == "linear") {
    read_linear(k, c);
  } else if (scaling == "yarn") {
    read_yarn(k, c);
  } else if (scaling != "none") {
    k.fail(
        fmt::format("rope scaling {} is not supported; none, linear and yarn are, and Llama-3's "
                    "stored factors",
                    quote(scaling)));
  }
  if (const TensorView* factors = gguf.find("rope_freqs.weight")) {
    const auto half = static_cast<std::size_t>(c.rotated() / 2);
    if (factors->shape != std::vector<std::int64_t>{c.rotated() / 2}) {
      return k.fail(fmt::format("tensor 'rope_freqs.weight' does not hold {} factors", half));
    }
    c.rope_factors.resize(half);
    dequantize(factors->dtype, factors->bytes, c.rope_factors);
    for (const float f : c.rope_factors) {
      if (!(f > 0.0F))
        return k.fail("tensor 'rope_freqs.weight' holds a factor that is not positive");
    }
  }
}

// Of so many layers the last one has no window, where the file does not say it.
std::int64_t usual_pattern(Family family) {
  switch (family) {
    case Family::kGemma3:
      return 6;
    case Family::kGemma2:
    case Family::kGptOss:
      return 2;
    default:
      return 4;
  }
}

void read_windows(const Gguf& gguf, Keys& k, DecoderConfig& c) {
  c.sliding.assign(static_cast<std::size_t>(c.layers), false);
  const bool everywhere = c.family == Family::kPhi3;
  if (!c.gemma() && !everywhere && c.family != Family::kOlmo2 && c.family != Family::kGptOss) {
    return;
  }
  c.window = k.integer("attention.sliding_window", c.family == Family::kGemma2 ? 4096 : 0);
  if (c.window < 0) return k.fail("attention.sliding_window is negative");
  if (everywhere && c.window >= c.context) c.window = 0;  // nothing is out of its reach
  if (c.window == 0) return;
  if (everywhere) return c.sliding.assign(static_cast<std::size_t>(c.layers), true);
  const std::string key = k.full("attention.sliding_window_pattern");
  if (const auto flags = gguf.get<std::vector<bool>>(key)) {
    if (flags->size() != c.sliding.size()) {
      return k.fail(fmt::format("{} does not list {} layers", key, c.layers));
    }
    c.sliding = *flags;
    return;
  }
  const std::int64_t pattern =
      k.integer("attention.sliding_window_pattern", usual_pattern(c.family));
  if (pattern <= 0) return k.fail(fmt::format("{} must be positive", key));
  for (std::int64_t i = 0; i < c.layers; ++i) {
    c.sliding[static_cast<std::size_t>(i)] = (i + 1) % pattern != 0;
  }
}

void read_sizes(const Gguf& gguf, Keys& k, DecoderConfig& c, bool experts) {
  const TensorView* embedding = gguf.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return k.fail("tensor 'token_embd.weight' is missing: no embedding, no vocabulary");
  }
  c.vocab = embedding->shape[0];
  c.hidden = k.integer("embedding_length");
  c.layers = k.integer("block_count");
  c.heads = k.integer("attention.head_count");
  if (c.family == Family::kLfm2) {
    internal::read_lfm2_layers(gguf, k, c);
  } else if (c.family == Family::kQwen35) {
    internal::read_qwen35_layers(gguf, k, c);
  } else {
    c.kv_heads = k.integer("attention.head_count_kv", c.heads);
  }
  c.head_dim = k.integer("attention.key_length", c.heads > 0 ? c.hidden / c.heads : 0);
  if (experts) {
    internal::read_experts(gguf, k, c);
  } else {
    c.intermediate = k.integer("feed_forward_length");
  }
  c.context = k.integer("context_length");
  c.norm_eps = k.number("attention.layer_norm_rms_epsilon", 1e-6);
  const std::int64_t rotated = k.integer("rope.dimension_count", c.head_dim);
  const bool part = c.family == Family::kPhi3 || c.usual_rotation() > 0.0;
  if (rotated != c.head_dim && (!part || rotated <= 0 || rotated > c.head_dim)) {
    k.fail("a rotary embedding of part of a head is not supported");
  }
  c.rotary_dim = rotated == c.head_dim ? 0 : rotated;
  if (k.integer("attention.value_length", c.head_dim) != c.head_dim) {
    k.fail("values of another width than keys are not supported");
  }
  if (const auto bad = internal::check_sizes(c)) k.fail(*bad);
}

bool must_have_experts(Family family, std::string_view architecture) {
  return family == Family::kGptOss || family == Family::kOlmoe || family == Family::kGlm4Moe ||
         family == Family::kErnie45Moe || architecture == "qwen2moe" ||
         architecture == "granitemoe" || architecture == "lfm2moe" || architecture == "qwen35moe" ||
         architecture == "qwen3next";
}

// The error of a file with layers or rotations that are not supported; else empty.
std::string unknown_parts(const Gguf& gguf, std::string_view architecture) {
  const std::string layers = fmt::format("{}.nextn_predict_layers", architecture);
  const bool qwen35 = architecture == "qwen35" || architecture == "qwen35moe";
  const bool read = architecture == "glm4moe" || architecture == "qwen3next" || qwen35;
  if (!read && gguf.get<std::int64_t>(layers).value_or(0) != 0) {
    return layers + ": layers that predict further tokens are not supported";
  }
  const std::string sections = fmt::format("{}.rope.dimension_sections", architecture);
  const auto sizes = gguf.get<std::vector<std::int32_t>>(sections);
  // A text has one position, by which all of them rotate.
  if (!qwen35 && sizes &&
      std::any_of(sizes->begin(), sizes->end(), [](std::int32_t n) { return n != 0; })) {
    return sections + ": rotations by several positions are not supported";
  }
  return "";
}

}  // namespace

Result<DecoderConfig> parse_decoder_config(const Gguf& gguf) {
  const Result<std::string_view> architecture = gguf.read<std::string_view>("general.architecture");
  if (!architecture) return architecture.error();
  const auto family = family_of(*architecture);
  if (!family) {
    return Error{
        fmt::format("architecture {} is not supported; llama, smollm3, granite, granitemoe, qwen2, "
                    "qwen2moe, qwen3, qwen3moe, gpt-oss, gemma2, gemma3, phi3, olmo2, olmoe, "
                    "glm4, glm4moe, ernie4_5-moe, lfm2, lfm2moe, qwen35, qwen35moe and qwen3next "
                    "are",
                    quote(*architecture))};
  }
  if (const std::string more = unknown_parts(gguf, *architecture); !more.empty()) {
    return Error{more};
  }
  // Mixtral's files are Llama's with experts.
  const std::string count = fmt::format("{}.expert_count", *architecture);
  const auto experts = gguf.read_or<std::int64_t>(count, 0);
  if (!experts) return experts.error();
  const bool must = must_have_experts(*family, *architecture);
  if (must && *experts == 0) return Error{count + " is missing"};
  if (*experts != 0 && !must && *family != Family::kLlama && *family != Family::kQwen3) {
    return Error{count + " is not supported"};
  }
  Result<DecoderConfig> parsed = parse_decoder_config(gguf, *family, *experts != 0);
  if (!parsed) return parsed;
  DecoderConfig c = *std::move(parsed);
  // These do it always, others where the file says it.
  const bool always = c.family == Family::kLlama || c.family == Family::kQwen3 ||
                      c.family == Family::kGptOss || c.family == Family::kErnie45Moe ||
                      c.family == Family::kLfm2 || c.family == Family::kQwen35;
  const auto norm =
      gguf.read_or<bool>(fmt::format("{}.expert_weights_norm", *architecture), always);
  if (!norm) return norm.error();
  c.norm_topk_prob = c.experts > 0 && (always || *norm);
  // The file does not say it. Source: llama-model.cpp in ggml-org/llama.cpp.
  for (std::int64_t i = 0; *architecture == "smollm3" && i < c.layers; ++i) {
    c.no_rope.push_back((i + 1) % 4 == 0);
  }
  if (*architecture != "granite" && *architecture != "granitemoe") return c;
  Keys k(gguf, std::string(*architecture));
  c.embedding_scale = k.number("embedding_scale", 1.0);
  c.residual_scale = k.number("residual_scale", 1.0);
  c.logit_divisor = k.number("logit_scale", 1.0);
  if (const auto bad = internal::check_numbers(c)) k.fail(*bad);
  if (!k.error().empty()) return Error{k.error()};
  return c;
}

Result<DecoderConfig> parse_decoder_config(const Gguf& gguf, Family family, bool experts) {
  const Result<std::string_view> architecture = gguf.read<std::string_view>("general.architecture");
  if (!architecture) return architecture.error();
  Keys k(gguf, std::string(*architecture));
  DecoderConfig c(family);
  read_sizes(gguf, k, c, experts);
  if (!k.error().empty()) return Error{k.error()};
  read_rope(gguf, k, c);
  read_windows(gguf, k, c);
  if (c.gemma()) {
    c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
    const bool second = c.family == Family::kGemma2;
    c.attention_softcap = k.number("attn_logit_softcapping", second ? 50.0 : 0.0);
    c.logit_softcap = k.number("final_logit_softcapping", second ? 30.0 : 0.0);
  }
  // Only Gemma 2 27B and Gemma 3 27B scale by hidden / heads; their files show it by their depth.
  const bool deep_gemma = c.gemma() && c.layers == (c.family == Family::kGemma3 ? 62 : 46);
  const double width = deep_gemma ? static_cast<double>(c.hidden) / static_cast<double>(c.heads)
                                  : static_cast<double>(c.head_dim);
  c.query_scale = k.number("attention.scale", 1.0 / std::sqrt(width));
  if (const auto bad = internal::check_numbers(c)) k.fail(*bad);
  c.tied_head = gguf.find("output.weight") == nullptr;
  if (!k.error().empty()) return Error{k.error()};
  return c;
}

}  // namespace forerun
