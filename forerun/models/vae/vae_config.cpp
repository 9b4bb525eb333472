#include "forerun/models/vae/vae_config.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "forerun/base/quote.h"
#include "forerun/models/internal/hf_fields.h"

namespace forerun {
namespace {

using internal::config_error;
using internal::Fields;
using nlohmann::json;

constexpr const char* kVae = "image decoder";

void read_channels(Fields& f, VaeConfig& c) {
  const json* list = f.find("block_out_channels");
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > 8) {
    return f.fail("'block_out_channels' is no list of 1 to 8 widths");
  }
  for (const json& width : *list) {
    if (!width.is_number_integer() || width < 1 || width > 1 << 14) {
      return f.fail(fmt::format("'block_out_channels' holds {}, which is no width",
                                printable(width.dump(), 40)));
    }
    c.channels.push_back(width.get<std::int64_t>());
  }
}

void refuse_other_blocks(Fields& f, const VaeConfig& c) {
  const json* types = f.find("up_block_types");
  if (types == nullptr) return;
  if (!types->is_array() || types->size() != c.channels.size()) {
    return f.fail(fmt::format("'up_block_types' does not list {} levels", c.channels.size()));
  }
  for (const json& type : *types) {
    if (type != "UpDecoderBlock2D") {
      return f.fail(
          fmt::format("a block of type {} is not supported; UpDecoderBlock2D is",
                      quote(type.is_string() ? type.get<std::string>() : type.dump(), 40)));
    }
  }
}

// What is unknown here matters to the encoder alone.
void read_down_blocks(Fields& f, VaeConfig& c) {
  const json* types = f.find("down_block_types");
  if (types == nullptr) return;
  if (!types->is_array() || types->size() != c.channels.size()) {
    return f.fail(fmt::format("'down_block_types' does not list {} levels", c.channels.size()));
  }
  for (const json& type : *types) {
    c.down_attention.push_back(type == "AttnDownEncoderBlock2D");
    if (!c.down_attention.back() && type != "DownEncoderBlock2D") {
      c.other_down_block = quote(type.is_string() ? type.get<std::string>() : type.dump(), 40);
    }
  }
}

// Unsupported options of later networks (shifted or normalised latents, no 1x1 convolution, no
// attention).
void refuse_options(Fields& f) {
  const std::string act = f.text("act_fn", "silu");
  if (act != "silu") f.fail(fmt::format("activation {} is not supported; silu is", quote(act)));
  if (f.integer("out_channels", 3) != 3) f.fail("'out_channels' other than 3 is not supported");
  if (f.number("shift_factor", 0.0) != 0.0) f.fail("'shift_factor' is not supported");
  for (const char* key : {"latents_mean", "latents_std"}) {
    if (f.find(key) != nullptr) f.fail(fmt::format("'{}' is not supported", key));
  }
  for (const char* key : {"use_post_quant_conv", "mid_block_add_attention"}) {
    if (!f.flag(key, true)) f.fail(fmt::format("'{}': false is not supported", key));
  }
}

std::optional<std::string> check_sizes(const VaeConfig& c) {
  if (c.latent_channels < 1 || c.latent_channels > 1024) {
    return fmt::format("{} latent channels; 1 to 1024 are supported", c.latent_channels);
  }
  if (c.layers < 1 || c.layers > 64) {
    return fmt::format("{} layers a block; 1 to 64 are supported", c.layers);
  }
  for (const std::int64_t width : c.channels) {
    if (c.norm_groups < 1 || width % c.norm_groups != 0) {
      return fmt::format("{} channels cannot be normed in {} groups", width, c.norm_groups);
    }
  }
  if (!std::isfinite(1.0 / c.scaling_factor) || !(c.scaling_factor > 0.0)) {
    return fmt::format("a scaling factor of {}; it must be positive", c.scaling_factor);
  }
  return std::nullopt;
}

}  // namespace

Result<VaeConfig> parse_vae_config(const json& config) {
  if (!config.is_object()) return config_error("not an object");
  Fields f(config, kVae);
  const std::string kind = f.text("_class_name", "AutoencoderKL");
  if (f.error().empty() && kind != "AutoencoderKL") {
    return config_error(
        fmt::format("this describes a {}; an AutoencoderKL is expected", quote(kind)));
  }
  VaeConfig c;
  read_channels(f, c);
  refuse_other_blocks(f, c);
  read_down_blocks(f, c);
  refuse_options(f);
  c.latent_channels = f.integer("latent_channels", c.latent_channels);
  c.layers = f.integer("layers_per_block", c.layers);
  c.norm_groups = f.integer("norm_num_groups", c.norm_groups);
  c.scaling_factor = f.number("scaling_factor", c.scaling_factor);
  if (!f.error().empty()) return config_error(f.error());
  if (const auto bad = check_sizes(c)) return config_error(*bad);
  return c;
}

}  // namespace forerun
