#include <fmt/format.h>

#include <stdexcept>

#include "forerun/base/quote.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/models/internal/hf_fields.h"

namespace forerun {
namespace {

using internal::Fields;

constexpr const char* kWhat = "Diffusion Transformer";

DitConfig read_own(Fields& f) {
  DitConfig c;
  c.depth = f.integer("depth");
  c.hidden = f.integer("hidden_size");
  c.heads = f.integer("num_heads");
  c.patch = f.integer("patch_size");
  c.input = f.integer("input_size");
  c.channels = f.integer("in_channels");
  c.classes = f.integer("num_classes");
  c.learned_sigma = f.flag("learn_sigma", false);
  const double ratio = f.number("mlp_ratio", 4.0);
  // Also keeps the product in range; check_dit_config checks the rest.
  if (!(ratio > 0.0 && ratio <= 64.0) || c.hidden < 0 || c.hidden > 1 << 20) {
    f.fail(fmt::format("an MLP of {} times the hidden size {} is out of range", ratio, c.hidden));
    return c;
  }
  c.mlp = static_cast<std::int64_t>(static_cast<double>(c.hidden) * ratio + 0.5);
  return c;
}

void expect(Fields& f, const char* key, const char* value) {
  const std::string found = f.text(key, value);
  if (found != value) {
    f.fail(fmt::format("'{}' is {}, supported is '{}'", key, quote(found), value));
  }
}

DitConfig read_diffusers(Fields& f) {
  DitConfig c;
  expect(f, "norm_type", "ada_norm_zero");
  expect(f, "activation_fn", "gelu-approximate");
  if (!f.flag("attention_bias", true)) f.fail("attention without biases is not supported");
  c.depth = f.integer("num_layers", 28);
  c.heads = f.integer("num_attention_heads", 16);
  const std::int64_t head_dim = f.integer("attention_head_dim", 72);
  if (c.heads < 1 || c.heads > 1024 || head_dim < 1 || head_dim > 1 << 16) {
    f.fail(fmt::format("{} heads of {} are out of range", c.heads, head_dim));
    return c;
  }
  c.hidden = c.heads * head_dim;
  c.mlp = 4 * c.hidden;
  c.patch = f.integer("patch_size", 2);
  c.input = f.integer("sample_size", 32);
  c.channels = f.integer("in_channels", 4);
  c.classes = f.integer("num_embeds_ada_norm", 1000);
  const std::int64_t out = f.integer("out_channels", c.channels);
  c.learned_sigma = out != c.channels;
  if (c.learned_sigma && out - c.channels != c.channels) {
    f.fail(fmt::format("{} output channels for {} of input: as many or twice as many are supported",
                       out, c.channels));
  }
  return c;
}

}  // namespace

bool is_diffusers_dit(const nlohmann::json& config) {
  Fields f(config);
  const std::string kind = f.text("_class_name", "");
  return kind == "DiTTransformer2DModel" || kind == "Transformer2DModel";
}

bool is_dit(const nlohmann::json& config) {
  Fields f(config);
  return is_diffusers_dit(config) || f.text("architecture", "") == "dit";
}

Result<DitConfig> parse_dit_config(const nlohmann::json& config, DitConventions conventions) {
  Fields f(config, kWhat);
  if (!is_dit(config)) {
    const std::string kind = f.text("_class_name", "");
    return Error{fmt::format("it describes {}, not a Diffusion Transformer",
                             kind.empty() ? "another kind of network" : "a " + quote(kind))};
  }
  DitConfig c = is_diffusers_dit(config) ? read_diffusers(f) : read_own(f);
  if (conventions == DitConventions::kDiffusers) {
    c.time_divisor = 127.0;
    c.mlp_norm_eps = f.number("norm_eps", 1e-5);
  }
  if (!f.error().empty()) return Error{f.error()};
  try {
    check_dit_config(c);
  } catch (const std::invalid_argument& e) {
    return Error{e.what()};
  }
  return c;
}

nlohmann::json dit_config_json(const DitConfig& c) {
  return {{"architecture", "dit"},
          {"depth", c.depth},
          {"hidden_size", c.hidden},
          {"num_heads", c.heads},
          {"patch_size", c.patch},
          {"input_size", c.input},
          {"in_channels", c.channels},
          {"num_classes", c.classes},
          {"mlp_ratio", static_cast<double>(c.mlp) / static_cast<double>(c.hidden)},
          {"learn_sigma", c.learned_sigma}};
}

}  // namespace forerun
