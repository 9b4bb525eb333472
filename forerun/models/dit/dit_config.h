#pragma once

#include <cstdint>

namespace forerun {

/// Sizes and conventions of a Diffusion Transformer (Peebles and Xie 2022, arXiv:2212.09748).
struct DitConfig {
  std::int64_t depth = 12, hidden = 384, heads = 6;
  std::int64_t patch = 2;     ///< side of a patch, in pixels (or latents)
  std::int64_t input = 32;    ///< side of an image, in pixels (or latents); a multiple of `patch`
  std::int64_t channels = 4;  ///< of the input
  std::int64_t classes = 1000;
  std::int64_t mlp = 1536;     ///< width inside a block's MLP
  bool learned_sigma = false;  ///< as many output channels again, for the variance

  /// The difference between the two published implementations. facebookresearch/DiT: 128 and 1e-6;
  /// diffusers: 127 and 1e-5 (its converted checkpoints were trained with the former).
  double time_divisor = 128.0;
  double mlp_norm_eps = 1e-6;

  std::int64_t side() const { return input / patch; }
  std::int64_t tokens() const { return side() * side(); }
  std::int64_t head_dim() const { return hidden / heads; }
  std::int64_t out_channels() const { return learned_sigma ? 2 * channels : channels; }
  std::int64_t values() const { return channels * input * input; }  ///< of one image

  bool operator==(const DitConfig&) const = default;
};

/// @throws std::invalid_argument  invalid or implausibly large sizes
void check_dit_config(const DitConfig& config);

}  // namespace forerun
