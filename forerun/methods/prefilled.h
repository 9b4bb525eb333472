#pragma once

#include <cstddef>

namespace forerun {

/// What a drafter with states of its own took in so far of texts that it had not seen grow.
struct Prefilled {
  std::size_t tokens = 0;
  double seconds = 0.0;
};

}  // namespace forerun
