#pragma once

#include <cstddef>

namespace forerun {

/// What a drafter with a state of its own has read so far of new texts.
struct Prefilled {
  std::size_t tokens = 0;
  double seconds = 0.0;
};

}  // namespace forerun
