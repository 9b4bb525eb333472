#pragma once

#include <cstddef>
#include <cstdint>

namespace forerun {

/// Classifier-free guidance of tokens: predictions without the class plus a multiple of the
/// difference that the class makes.
struct TokenGuidance {
  enum class Schedule : std::uint8_t {
    kConstant,
    kLinear,  ///< from 1 + (scale - 1) / tokens at the first token to `scale` at the last (MAR)
  };
  double scale = 1.0;  ///< 1: none, at half the cost
  Schedule schedule = Schedule::kConstant;

  bool on() const noexcept { return scale != 1.0; }
  /// At this token of an image.
  double at(std::size_t token, std::size_t tokens) const noexcept {
    if (schedule == Schedule::kConstant) return scale;
    return 1.0 + (scale - 1.0) * static_cast<double>(token + 1) / static_cast<double>(tokens);
  }
};

}  // namespace forerun
