#pragma once

#include <cstdint>
#include <vector>

namespace forerun {

/// Configuration of Medusa heads.
struct MedusaConfig {
  std::int64_t hidden = 0;         ///< the target's
  std::int64_t vocab = 0;          ///< rows of the target's embedding
  std::int64_t target_layers = 0;  ///< blocks of the target
  /// Zero-based ids of the target's blocks whose output (the residual stream) is a feature, in the
  /// order of fc's column blocks.
  std::vector<std::int64_t> feature_layers;
  std::int64_t width = 0;         ///< of the trunk
  std::int64_t intermediate = 0;  ///< of the trunk's MLP
  std::int64_t heads = 0;         ///< head k predicts the token k + 1 places after the newest
  std::int64_t draft_vocab = 0;   ///< tokens it can draft; == vocab if not reduced
  std::int64_t markov_rank = 0;   ///< 0 = no Markov head
  double norm_eps = 1e-6;
  /// Matrices that a pass reads whole are trained to be rounded to so many bits: 4, in groups of 32
  /// (four_bit_weights.h), or 0: they are not.
  std::int64_t weight_bits = 0;

  std::int64_t features() const noexcept {
    return static_cast<std::int64_t>(feature_layers.size());
  }
  /// Floats of a position's features.
  std::int64_t feature_width() const noexcept { return features() * hidden; }
  /// Inputs of fc: the features, and the embedding of the newest token.
  std::int64_t inputs() const noexcept { return feature_width() + hidden; }
  /// Whether matrices have whole groups of 32 inputs, as weights of 4 bits need.
  bool takes_four_bits() const noexcept {
    return hidden % 32 == 0 && width % 32 == 0 && intermediate % 32 == 0;
  }
};

}  // namespace forerun
