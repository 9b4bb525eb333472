#include "forerun/models/feature_layers.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace forerun {

std::vector<std::int64_t> default_feature_layers(std::int64_t target_layers, std::int64_t count) {
  if (count < 1 || target_layers < 1 || (count > 1 && target_layers < 4)) {
    throw std::invalid_argument(
        fmt::format("no default choice of {} features among {} target layers; name the layers",
                    count, target_layers));
  }
  if (count == 1) return {target_layers / 2};
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) {
    const double exact =
        1.0 + static_cast<double>(i * (target_layers - 4)) / static_cast<double>(count - 1);
    // Halves to even, as in Python; std::round would give 21 where the rule gives 20.
    out.push_back(static_cast<std::int64_t>(std::nearbyint(exact)));
  }
  return out;
}

}  // namespace forerun
