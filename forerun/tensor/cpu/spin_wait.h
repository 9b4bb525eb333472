#pragma once

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace forerun {

inline void relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Pauses of 10 ns to 40 ns each: about 50 us before the core is yielded.
constexpr int kSpins = 2000;

/// Waits for another thread that is expected within microseconds.
template <class Ready>
void wait_until(Ready ready) noexcept {
  for (int i = 0; !ready(); ++i) {
    if (i < kSpins) {
      relax();
    } else {
      sched_yield();
    }
  }
}

}  // namespace forerun
