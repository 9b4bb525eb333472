#pragma once

#include <cstdint>

namespace forerun {

/// Transformations of a law before it is sampled or coupled. Exactness is relative to the
/// transformed law; a drafter that samples transforms its law alike. Applied in this order, as in
/// Hugging Face.
struct SamplingParams {
  double temperature = 0.0;  ///< logits are divided by it; 0 = greedy
  std::uint32_t top_k = 0;   ///< keep the k most likely tokens, and ties with the last; 0 = all
  double top_p = 1.0;  ///< keep the fewest most likely tokens whose probabilities reach p, and ties
                       ///< with the last
  double min_p = 0.0;  ///< drop tokens less likely than min_p times the likeliest

  bool greedy() const noexcept { return temperature == 0.0; }
  /// @throws std::invalid_argument  temperature < 0, top_p outside [0, 1], min_p outside [0, 1],
  /// NaN
  void check() const;
};

}  // namespace forerun
