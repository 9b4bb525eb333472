#include "forerun/models/internal/recurrent_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forerun/base/quote.h"
#include "forerun/models/internal/expert_fields.h"

namespace forerun::internal {
namespace {

using nlohmann::json;

void read_kinds(const json& types, const char* recurrent, Fields& f, DecoderConfig& c) {
  if (!types.is_array() || types.size() != c.recurrent_layers.size()) {
    return f.fail(fmt::format("'layer_types' does not list {} layers", c.layers));
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != recurrent) {
      return f.fail(fmt::format("layer type {} is not supported", printable(types[i].dump(), 40)));
    }
    c.recurrent_layers[i] = types[i] == recurrent;
  }
}

// Source: transformers' configuration_lfm2.py.
void read_lfm2_layers(Fields& f, DecoderConfig& c) {
  c.recurrent.taps = f.integer("conv_L_cache", 3);
  if (const json* types = f.find("layer_types")) return read_kinds(*types, "conv", f, c);
  const json* attention = f.find("full_attn_idxs");
  if (attention == nullptr) return;
  if (!attention->is_array()) return f.fail("'full_attn_idxs' is not a list of layers");
  c.recurrent_layers.assign(c.recurrent_layers.size(), true);
  for (const json& i : *attention) {
    if (!i.is_number_integer() || i < 0 || i >= c.layers) {
      return f.fail(fmt::format("'full_attn_idxs' names {}, which is not one of {} layers",
                                printable(i.dump(), 40), c.layers));
    }
    c.recurrent_layers[i.get<std::size_t>()] = false;
  }
}

// Source: transformers' configuration_qwen3_5.py.
void read_qwen35_layers(Fields& f, DecoderConfig& c) {
  RecurrentConfig& r = c.recurrent;
  r.taps = f.integer("linear_conv_kernel_dim", 4);
  r.key_heads = f.integer("linear_num_key_heads", 16);
  r.key_dim = f.integer("linear_key_head_dim", 128);
  r.value_heads = f.integer("linear_num_value_heads", 32);
  r.value_dim = f.integer("linear_value_head_dim", 128);
  r.by_heads = r.rates_by_heads = f.text("model_type", "") == kQwen3Next;
  if (const json* types = f.find("layer_types")) {
    return read_kinds(*types, "linear_attention", f, c);
  }
  const std::int64_t interval = f.integer("full_attention_interval", 4);
  if (interval <= 0) return f.fail("'full_attention_interval' must be positive");
  for (std::int64_t i = 0; i < c.layers; ++i) {
    c.recurrent_layers[static_cast<std::size_t>(i)] = (i + 1) % interval != 0;
  }
}

}  // namespace

bool is_lfm2(const std::string& type) { return type == kLfm2 || type == kLfm2Moe; }

bool is_qwen35(const std::string& type) {
  return type == kQwen35 || type == kQwen35Moe || type == kQwen3Next;
}

void read_lfm2_sizes(Fields& f, bool mlp, DecoderConfig& c) {
  c.norm_eps = f.number("norm_eps", 1e-5);
  c.tied_head = f.flag("tie_embedding", f.flag("tie_word_embeddings", true));
  if (!mlp) return;
  std::int64_t width = f.integer("block_ff_dim", f.integer("intermediate_size", 12288));
  if (f.flag("block_auto_adjust_ff_dim", true)) {
    const std::int64_t multiple = f.integer("block_multiple_of", 256);
    const double by = f.number("block_ffn_dim_multiplier", 1.0);
    if (multiple <= 0 || multiple > 1 << 24 || width < 0 || width > 1 << 24 || !(by > 0.0) ||
        by > 1000.0) {
      return f.fail("'block_multiple_of' or 'block_ffn_dim_multiplier' is out of range");
    }
    const std::int64_t part = 2 * width / 3;
    width = static_cast<std::int64_t>(by * static_cast<double>(part));
    width = (width + multiple - 1) / multiple * multiple;
  }
  c.intermediate = width;
}

void read_recurrent_layers(Fields& f, DecoderConfig& c) {
  const bool lfm2 = c.family == Family::kLfm2;
  c.recurrent.kind = lfm2 ? RecurrentConfig::Kind::kShortConv : RecurrentConfig::Kind::kGatedDelta;
  c.recurrent_layers.assign(static_cast<std::size_t>(c.layers), false);
  c.sliding.assign(static_cast<std::size_t>(c.layers), false);
  if (lfm2) {
    read_lfm2_layers(f, c);
  } else {
    read_qwen35_layers(f, c);
  }
  if (const auto bad = check_recurrent(c)) return f.fail(*bad);
  drop_unused_recurrent(c);
}

void drop_unused_recurrent(DecoderConfig& c) {
  if (c.recurrent_count() > 0) return;
  c.recurrent = {};
  c.recurrent_layers.clear();
}

std::optional<std::string> check_recurrent(const DecoderConfig& c) {
  const RecurrentConfig& r = c.recurrent;
  if (r.none()) return std::nullopt;
  if (c.recurrent_count() == c.layers) return "no layer has attention: not supported";
  if (r.taps < 2 || r.taps > 16) {
    return fmt::format("a convolution over {} rows is not supported (2 to 16 are)", r.taps);
  }
  if (r.kind == RecurrentConfig::Kind::kShortConv) return std::nullopt;
  constexpr std::int64_t kMost = 1 << 12;
  for (const std::int64_t n : {r.key_heads, r.key_dim, r.value_heads, r.value_dim}) {
    if (n > 0 && n <= kMost) continue;
    return fmt::format(
        "sizes of recurrent layers are out of range: {} key heads of {}, {} value "
        "heads of {}",
        r.key_heads, r.key_dim, r.value_heads, r.value_dim);
  }
  constexpr std::int64_t kMostState = 1 << 24;  // of a layer; published models have a million
  if (r.key_dim * r.value_width() > kMostState) {
    return fmt::format("sizes of recurrent layers are out of range: {} matrices of {} by {}",
                       r.value_heads, r.key_dim, r.value_dim);
  }
  if (r.value_heads % r.key_heads != 0) {
    return fmt::format("{} value heads cannot share {} key heads evenly", r.value_heads,
                       r.key_heads);
  }
  if (r.value_dim % 16 != 0) {
    return fmt::format("value heads of {} are not supported: multiples of 16 are", r.value_dim);
  }
  return std::nullopt;
}

}  // namespace forerun::internal
