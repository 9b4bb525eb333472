#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "forerun/base/result.h"

namespace forerun {

/// Sizes of an AutoencoderKL (Rombach et al. 2022, arXiv:2112.10752).
struct VaeConfig {
  std::int64_t latent_channels = 4;
  std::vector<std::int64_t> channels;  ///< by level, that of the image's resolution first
  std::int64_t layers = 1;             ///< resnets a level: one more than this
  std::int64_t norm_groups = 32;
  double scaling_factor = 0.18215;  ///< latents are the encoder's values times this
  /// Of the encoder's levels, the finest first: attention after every resnet. Empty: none has it.
  std::vector<bool> down_attention;
  std::string other_down_block;  ///< a kind of encoder level that is not supported; empty: none

  /// Pixels a side of one latent: 8 with four levels.
  std::int64_t scale() const { return std::int64_t{1} << (channels.size() - 1); }

  bool operator==(const VaeConfig&) const = default;
};

/// From the config.json of diffusers' AutoencoderKL; absent fields have diffusers' defaults.
/// Errors: another kind of network, a mistyped field, sizes out of range, options that are not
/// supported.
Result<VaeConfig> parse_vae_config(const nlohmann::json& config);

}  // namespace forerun
