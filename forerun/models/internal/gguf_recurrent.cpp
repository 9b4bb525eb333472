#include "forerun/models/internal/gguf_recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "forerun/models/internal/recurrent_fields.h"

namespace forerun::internal {
namespace {

constexpr const char* kKeyHeads = "attention.head_count_kv";

bool is_list(const Gguf& gguf, const std::string& key) {
  const GgufValue* value = gguf.find_value(key);
  return value != nullptr && std::holds_alternative<GgufArray>(*value);
}

// A number for every layer: the same for all that have attention.
void read_key_heads(const Gguf& gguf, GgufKeys& k, DecoderConfig& c) {
  const std::string key = k.full(kKeyHeads);
  const auto heads = gguf.read<std::vector<std::int64_t>>(key);
  if (!heads) return k.fail(heads.error().message);
  if (heads->size() != static_cast<std::size_t>(c.layers)) {
    return k.fail(fmt::format("{} lists {} layers of {}", key, heads->size(), c.layers));
  }
  c.kv_heads = *std::max_element(heads->begin(), heads->end());
  for (const std::int64_t n : *heads) {
    if (n != 0 && n != c.kv_heads) {
      return k.fail(fmt::format("{} is {} and {}: layers of different sizes are not supported", key,
                                n, c.kv_heads));
    }
    c.recurrent_layers.push_back(n == 0);
  }
}

void check(GgufKeys& k, DecoderConfig& c) {
  if (!k.error().empty()) return;
  if (const auto bad = check_recurrent(c)) return k.fail(*bad);
  drop_unused_recurrent(c);
}

// Beta and decay of Qwen3-Next are of one key head after the other; in earlier files all of a
// recurrent layer's inputs are.
void read_order(const Gguf& gguf, const GgufKeys& k, DecoderConfig& c) {
  RecurrentConfig& r = c.recurrent;
  r.tiled = k.architecture() != "qwen3next";
  r.rates_by_heads = !r.tiled;
  const auto first = std::find(c.recurrent_layers.begin(), c.recurrent_layers.end(), true);
  const std::string joined =
      fmt::format("blk.{}.ssm_in.weight", first - c.recurrent_layers.begin());
  r.by_heads = !r.tiled && gguf.find(joined) != nullptr;
}

bool are_out_of_range(std::int64_t layers) { return layers < 1 || layers > 1000; }

}  // namespace

void read_lfm2_layers(const Gguf& gguf, GgufKeys& k, DecoderConfig& c) {
  if (k.integer("attention.sliding_window", 0) != 0) {
    return k.fail(k.full("attention.sliding_window") + " is not supported");
  }
  c.recurrent.kind = RecurrentConfig::Kind::kShortConv;
  c.recurrent.taps = k.integer("shortconv.l_cache");
  if (!is_list(gguf, k.full(kKeyHeads))) {  // all layers have attention
    c.kv_heads = k.integer(kKeyHeads);
    return check(k, c);
  }
  if (are_out_of_range(c.layers)) return;  // refused with the other sizes
  read_key_heads(gguf, k, c);
  check(k, c);
}

void read_qwen35_layers(const Gguf& gguf, GgufKeys& k, DecoderConfig& c) {
  RecurrentConfig& r = c.recurrent;
  r.kind = RecurrentConfig::Kind::kGatedDelta;
  r.taps = k.integer("ssm.conv_kernel");
  r.key_heads = k.integer("ssm.group_count");
  r.key_dim = k.integer("ssm.state_size");
  r.value_heads = k.integer("ssm.time_step_rank");
  const std::int64_t width = k.integer("ssm.inner_size");
  if (!k.error().empty()) return;
  if (r.value_heads < 1 || width % r.value_heads != 0) {
    return k.fail(fmt::format("{} is {}, not a width of {} value heads", k.full("ssm.inner_size"),
                              width, r.value_heads));
  }
  r.value_dim = width / r.value_heads;
  const std::int64_t interval = k.integer("full_attention_interval", 4);
  if (interval < 1) return k.fail(k.full("full_attention_interval") + " must be positive");
  if (are_out_of_range(c.layers)) return;  // refused with the other sizes
  // As Ollama wrote it: none in recurrent layers.
  const bool listed = is_list(gguf, k.full(kKeyHeads));
  if (listed) {
    read_key_heads(gguf, k, c);
  } else {
    c.kv_heads = k.integer(kKeyHeads, c.heads);
  }
  c.unread_layers = k.integer("nextn_predict_layers", 0);
  if (c.unread_layers < 0 || c.unread_layers >= c.layers) {
    return k.fail(fmt::format("{} of {} layers predict further tokens", c.unread_layers, c.layers));
  }
  c.layers -= c.unread_layers;
  for (std::int64_t i = 0; !listed && i < c.layers; ++i) {
    c.recurrent_layers.push_back((i + 1) % interval != 0);
  }
  c.recurrent_layers.resize(static_cast<std::size_t>(c.layers));
  read_order(gguf, k, c);
  check(k, c);
}

}  // namespace forerun::internal
