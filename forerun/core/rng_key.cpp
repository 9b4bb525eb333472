#include "forerun/core/rng_key.h"

#include <cmath>
#include <numbers>

namespace forerun {

void RngKey::fill_normal(Purpose purpose, std::span<float> out) const noexcept {
  for (std::size_t i = 0; i < out.size(); i += 2) {
    const auto w = words(purpose, static_cast<std::uint32_t>(i / 2));
    // 1 - u lies in (0, 1]: the logarithm stays finite.
    const double radius = std::sqrt(-2.0 * std::log1p(-unit(w[0], w[1])));
    const double angle = 2.0 * std::numbers::pi * unit(w[2], w[3]);
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace forerun
