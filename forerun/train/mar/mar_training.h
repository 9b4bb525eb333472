#pragma once

#include <cstdint>
#include <string>

namespace forerun {

/// A transformer over image tokens with a diffusion head, and its training. Plain
/// values: part of the public API.
struct MarTraining {
  std::int64_t depth = 4, hidden = 192, heads = 4;
  std::int64_t head_blocks = 3, head_width = 256;
  std::int64_t patch = 4;  ///< side of a token's patch, in pixels
  /// Side of the images: smaller ones are padded with their first pixel's value; 0: the data's own.
  std::int64_t side = 0;
  /// The published form (models/mar/mar_masked.h): tokens are drawn in any order, several a pass;
  /// it takes no drafter. `depth` blocks read the known tokens, `decoder_depth` all.
  bool masked = false;
  std::int64_t decoder_depth = 0;  ///< masked form; 0: as many as `depth`
  std::int64_t buffer = 0;         ///< rows of the class, masked form; 0: a quarter of the tokens
  bool scattered = false;  ///< tokens in an order in which successive ones are seldom neighbours
  bool joint = false;      ///< the head is modulated as published, not by a sum (mar_config.h)
  std::int64_t draws = 4;  ///< noises of a token in a step, of one time
  double drop = 0.1;       ///< share of the images without their class, for guidance
  bool flip = true;        ///< half of the images flipped, left and right
  double noise = 0.1;      ///< added to tokens of spread 1: a constant background has no density
  /// Folder of an autoencoder: tokens are patches of its latents, and `patch` counts latents.
  /// Empty: of pixels.
  std::string vae;
  std::string init;  ///< folder of a network to continue from, with its sizes; empty: at random
};

/// A draft for such a network: a smaller one of the same tokens that also learns what its target
/// predicts.
struct CspdTraining {
  std::int64_t depth = 2, hidden = 96, heads = 4;
  std::int64_t head_blocks = 2, head_width = 128;
  /// Share of the loss that is the distance to the target's prediction from the same noisy token
  /// and the same tokens before it; the rest is the distance to the data.
  double distill = 0.9;
  std::int64_t draws = 4;
  double drop = 0.1;
  bool flip = true;
  std::string vae;  ///< as the target's
  std::string init;
};

}  // namespace forerun
