#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/config_check.h"

namespace forerun {
namespace {

using nlohmann::json;

// Reads fields of a config.json; the first missing or mistyped one is remembered and ends the
// parse.
class Fields {
 public:
  explicit Fields(const json& config) : config_(config) {}

  std::int64_t integer(const char* key) { return integer(key, std::nullopt); }
  std::int64_t integer(const char* key, std::optional<std::int64_t> otherwise) {
    const json* v = find(key);
    const bool fits = v != nullptr && v->is_number_integer() &&
                      !(v->is_number_unsigned() && v->get<std::uint64_t>() > INT64_MAX);
    if (fits) return v->get<std::int64_t>();
    return fallback<std::int64_t>(key, v, "an integer", otherwise);
  }
  double number(const char* key, std::optional<double> otherwise) {
    const json* v = find(key);
    if (v != nullptr && v->is_number()) return v->get<double>();
    return fallback<double>(key, v, "a number", otherwise);
  }
  bool flag(const char* key, bool otherwise) {
    const json* v = find(key);
    if (v != nullptr && v->is_boolean()) return v->get<bool>();
    return fallback<bool>(key, v, "true or false", otherwise);
  }
  std::string text(const char* key, std::optional<std::string> otherwise) {
    const json* v = find(key);
    if (v != nullptr && v->is_string()) return v->get<std::string>();
    return fallback<std::string>(key, v, "a string", otherwise);
  }
  /// The value if it is there and not null.
  const json* find(const char* key) const {
    if (!config_.is_object()) return nullptr;
    const auto it = config_.find(key);
    return it == config_.end() || it->is_null() ? nullptr : &*it;
  }
  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }

 private:
  template <class T>
  T fallback(const char* key, const json* found, const char* wanted, std::optional<T> otherwise) {
    if (found != nullptr) {
      fail(
          fmt::format("'{}' is {} where {} is expected", key, found->dump().substr(0, 40), wanted));
    } else if (!otherwise) {
      fail(fmt::format("'{}' is missing; the file does not describe a supported decoder", key));
    }
    return otherwise.value_or(T{});
  }

  const json& config_;
  std::string error_;
};

std::optional<Family> family_of(const std::string& type) {
  if (type == "llama") return Family::kLlama;
  if (type == "qwen2") return Family::kQwen2;
  if (type == "qwen3") return Family::kQwen3;
  if (type == "gemma3_text" || type == "gemma3") return Family::kGemma3;
  return std::nullopt;
}

// One rope dictionary: "rope_scaling" of older files, "rope_parameters" of newer ones.
void read_rope(const json& rope, Fields& errors, double& theta, RopeScaling& scaling) {
  if (!rope.is_object()) return errors.fail("the rope parameters are no object");
  Fields f(rope);
  theta = f.number("rope_theta", theta);
  std::string type = f.text("rope_type", "");
  if (type.empty()) type = f.text("type", "default");
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
    scaling.factor = f.number("factor", std::nullopt);
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::kLlama3;
    scaling.factor = f.number("factor", std::nullopt);
    scaling.low_freq_factor = f.number("low_freq_factor", std::nullopt);
    scaling.high_freq_factor = f.number("high_freq_factor", std::nullopt);
    scaling.original_context = f.number("original_max_position_embeddings", std::nullopt);
  } else if (type != "default") {
    errors.fail(
        fmt::format("rope scaling '{}' is not supported; default, linear and llama3 are", type));
  }
  if (!f.error().empty()) errors.fail("rope parameters: " + f.error());
}

void read_ropes(Fields& f, DecoderConfig& c) {
  c.rope_theta = f.number("rope_theta", c.gemma() ? 1e6 : 1e4);
  c.local_rope_theta = c.gemma() ? f.number("rope_local_base_freq", 10000.0) : c.rope_theta;
  if (const json* scaling = f.find("rope_scaling")) {
    double ignored = c.rope_theta;
    read_rope(*scaling, f, ignored, c.rope_scaling);
  }
  const json* parameters = f.find("rope_parameters");
  if (parameters == nullptr) return;
  if (parameters->is_object() && parameters->contains("full_attention")) {
    read_rope((*parameters)["full_attention"], f, c.rope_theta, c.rope_scaling);
    RopeScaling local;
    read_rope(parameters->value("sliding_attention", json::object()), f, c.local_rope_theta, local);
    if (local.kind != RopeScaling::Kind::kNone)
      f.fail("rope scaling of sliding layers is not supported");
  } else {
    read_rope(*parameters, f, c.rope_theta, c.rope_scaling);
    if (!c.gemma()) c.local_rope_theta = c.rope_theta;
  }
}

void read_windows(Fields& f, DecoderConfig& c) {
  c.sliding.assign(static_cast<std::size_t>(c.layers), false);
  const bool used = c.gemma() || f.flag("use_sliding_window", false);
  c.window = f.integer("sliding_window", c.gemma() ? 4096 : 0);
  if (!used || c.window <= 0) {
    c.window = 0;
    return;
  }
  if (const json* types = f.find("layer_types")) {
    if (!types->is_array() || types->size() != c.sliding.size()) {
      f.fail(fmt::format("'layer_types' does not list {} layers", c.layers));
      return;
    }
    for (std::size_t i = 0; i < c.sliding.size(); ++i) {
      const json& type = (*types)[i];
      if (type != "full_attention" && type != "sliding_attention") {
        f.fail(fmt::format("layer type {} is not supported", type.dump().substr(0, 40)));
      }
      c.sliding[i] = type == "sliding_attention";
    }
  } else if (c.gemma()) {
    const std::int64_t pattern = f.integer("sliding_window_pattern", 6);
    if (pattern <= 0) return f.fail("'sliding_window_pattern' must be positive");
    for (std::int64_t i = 0; i < c.layers; ++i) {
      c.sliding[static_cast<std::size_t>(i)] = (i + 1) % pattern != 0;
    }
  } else {
    const std::int64_t first = f.integer("max_window_layers", c.layers);
    for (std::int64_t i = 0; i < c.layers; ++i) c.sliding[static_cast<std::size_t>(i)] = i >= first;
  }
}

}  // namespace

Result<DecoderConfig> parse_decoder_config(const json& config) {
  if (config.is_object() && config.contains("text_config") && !config.contains("hidden_size")) {
    return Error{"config.json: this is a multimodal model; only text models are supported"};
  }
  Fields f(config);
  const std::string type = f.text("model_type", std::nullopt);
  const auto family = family_of(type);
  if (!family) {
    return Error{f.error().empty()
                     ? fmt::format("config.json: model_type '{}' is not supported; llama, qwen2, "
                                   "qwen3 and gemma3_text are",
                                   type)
                     : "config.json: " + f.error()};
  }
  DecoderConfig c;
  c.family = *family;
  c.vocab = f.integer("vocab_size");
  c.hidden = f.integer("hidden_size");
  c.layers = f.integer("num_hidden_layers");
  c.heads = f.integer("num_attention_heads");
  c.kv_heads = f.integer("num_key_value_heads", c.heads);
  const std::int64_t even = c.heads > 0 ? c.hidden / c.heads : 0;
  c.head_dim = f.integer("head_dim", c.gemma() ? 256 : even);
  c.intermediate = f.integer("intermediate_size");
  c.context = f.integer("max_position_embeddings");
  c.norm_eps = f.number("rms_norm_eps", 1e-6);
  c.tied_head = f.flag("tie_word_embeddings", c.gemma());
  c.activation = c.gemma() ? Activation::kGeluTanh : Activation::kSilu;
  const std::string act = f.text(c.gemma() ? "hidden_activation" : "hidden_act",
                                 c.gemma() ? "gelu_pytorch_tanh" : "silu");
  if (act != (c.gemma() ? "gelu_pytorch_tanh" : "silu")) {
    f.fail(fmt::format("activation '{}' is not supported for {}", act, type));
  }
  if (const auto bad = internal::check_sizes(c)) f.fail(*bad);
  if (!f.error().empty()) return Error{"config.json: " + f.error()};
  const double scale_of =
      c.gemma() ? f.number("query_pre_attn_scalar", 256.0) : static_cast<double>(c.head_dim);
  c.query_scale = 1.0 / std::sqrt(scale_of);
  if (c.gemma()) {
    c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
    c.attention_softcap = f.number("attn_logit_softcapping", 0.0);
    c.logit_softcap = f.number("final_logit_softcapping", 0.0);
    if (f.flag("use_bidirectional_attention", false)) {
      f.fail("an embedding model with bidirectional attention cannot generate");
    }
  }
  read_ropes(f, c);
  read_windows(f, c);
  if (const auto bad = internal::check_numbers(c)) f.fail(*bad);
  if (!f.error().empty()) return Error{"config.json: " + f.error()};
  return c;
}

}  // namespace forerun
