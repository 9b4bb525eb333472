#pragma once

#include <cstdint>

namespace forerun {

/// An index into a vocabulary.
using Token = std::int32_t;

}  // namespace forerun
