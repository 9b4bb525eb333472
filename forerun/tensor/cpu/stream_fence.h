#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace forerun {

/// What this thread stored past the caches becomes visible before what it stores next: such stores
/// are not ordered by a release.
inline void fence_streams() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace forerun
