#pragma once

#include <torch/csrc/stable/c/shim.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>

namespace forerun {

/** Calls f(begin, end) for disjoint pieces of [begin, end) on ATen's threads, pieces of at least
`grain` unless all is less. Within another such call, and with one thread, it is one call here.

at::parallel_for is inlined into its caller, where it is a loop on one thread unless OpenMP is
compiled in. This calls the one inside libtorch, which has the threads that ATen's operators use.

What f throws is thrown here after all pieces have ended, of several one. f must not depend on how
the range is cut. */
template <class F>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const F& f) {
#ifdef __SANITIZE_THREAD__
  // The sanitizer does not see how OpenMP's threads wait for each other.
  if (begin < end) f(begin, end);
#else
  struct Call {
    const F& f;
    std::mutex mutex;
    std::exception_ptr failed;
  } call{f, {}, {}};
  const auto piece = [](std::int64_t first, std::int64_t last, void* context) {
    auto& c = *static_cast<Call*>(context);
    try {
      c.f(first, last);
    } catch (...) {
      const std::lock_guard lock(c.mutex);
      c.failed = std::current_exception();
    }
  };
  const bool started = torch_parallel_for(begin, end, grain, piece, &call) == AOTI_TORCH_SUCCESS;
  if (call.failed) std::rethrow_exception(call.failed);
  if (!started) throw std::runtime_error("libtorch could not run a loop on its threads");
#endif
}

}  // namespace forerun
