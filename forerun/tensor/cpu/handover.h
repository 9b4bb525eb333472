#pragma once

#include <optional>

namespace forerun {

/// How long one thread of the team waits for what another writes, by stores of two kinds: 256 lines
/// of memory that it has read before; and for the answer to a single line.
struct Handover {
  double cached = 0.0;          ///< seconds, by plain stores
  double past = 0.0;            ///< seconds, by stores past the caches
  double there_and_back = 0.0;  ///< seconds of a line to the other thread and its answer
  double all = 0.0;             ///< seconds that measuring took
  /// Between cores with a common last-level cache plain stores are sooner there. Between others a
  /// line that both have read is first taken back from the reader, which takes 10 to 30 ns a line.
  bool far() const noexcept { return past < cached; }
  /// Whether the two cores have a last-level cache in common. There and back takes 60 ns between
  /// two threads of a core, 110 to 145 ns with a common cache, 320 to 500 ns without (AMD, Zen 4
  /// and 5). Stores alone do not tell: without a common cache both ways can be as fast.
  bool common_cache() const noexcept { return there_and_back > 0.0 && there_and_back < 230e-9; }

  /// Measures it between the first and the last of `threads` threads, in about 50 us. All are zero
  /// with one thread or without such stores.
  static Handover measured(int threads);
};

/// Whether the rows of a pass on so many threads are kernel::Int8Rows::far. Measured anew from time
/// to time, as hosts move virtual processors; results are the same bits either way.
bool threads_are_far(int threads);

/// Handover::common_cache of the last and the first of so many threads, measured with the above;
/// none with one thread or without such stores.
std::optional<bool> threads_have_common_cache(int threads);

/// For tests: the answer of `threads_are_far`, or none for what is measured.
void set_threads_are_far(std::optional<bool> far);

}  // namespace forerun
