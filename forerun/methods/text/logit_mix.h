#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// A law that is not the target's: the logits of a verified row are mixed with those of a companion
/// row that predicts the same output. Source: TiDAR, arXiv:2511.08923, "trust" in AR or diffusion.
struct LogitMix {
  double own = 1.0;  ///< share of the verified row's, in [0, 1]; the rest is the companion's
  /// By step of the draft (0 the text, i the drafted token i - 1): which of CompanionRows::scored,
  /// or -1: not mixed. Empty: nothing is mixed.
  std::vector<std::int32_t> companions;
};

/// own * logits + (1 - own) * other. A token that `other` forbids is forbidden.
/// @param logits, other  [vocab] float32
inline void mix_logits_(std::span<float> logits, std::span<const float> other, double own) {
  const auto rest = static_cast<float>(1.0 - own), share = static_cast<float>(own);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = share == 0.0F ? other[i]  // times minus infinity is no number
                              : share * logits[i] + (rest == 0.0F ? 0.0F : rest * other[i]);
  }
}

}  // namespace forerun
