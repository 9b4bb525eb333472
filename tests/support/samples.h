#pragma once

#include <algorithm>
#include <cstdint>

namespace forerun::support {

/// Sanitizers look at memory, where one draw is as good as another, and a draw takes ten times as
/// long under them. Laws are judged by the tests without.
#ifdef FORERUN_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Draws of a statistical test: `n`; under the sanitizers a twentieth of them, but `least` if that
/// is more and `n` is not less. A test's bounds follow from what is returned. `least` is how many a
/// negative control needs to tell the wrong law.
constexpr std::uint32_t samples(std::uint32_t n, std::uint32_t least = 1) {
  return kSanitized ? std::max(n / 20, std::min(n, least)) : n;
}

}  // namespace forerun::support
