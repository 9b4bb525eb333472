#pragma once

// Rounds of the draft length controller, given one by one.

#include <cstdint>
#include <vector>

#include "forerun/core/draft_length.h"

namespace forerun::rounds {

using Lengths = std::vector<std::uint32_t>;

inline Lengths plan(DraftLength& control, std::vector<SequencePlan> sequences) {
  const auto view = control.plan(sequences);
  return {view.begin(), view.end()};
}
inline void observe(DraftLength& control, std::vector<SequenceOutcome> sequences,
                    PassSeen pass = {}) {
  control.observe(sequences, pass);
}

// A controller after plain rounds of 10 ms, then `drafts` kept ones.
inline DraftLength seasoned(DraftLengthOptions options, int drafts) {
  DraftLength control(options);
  for (int i = 0; i < 10; ++i) observe(control, {{.id = 0}}, {.rows = 1, .target_seconds = 0.01});
  for (int i = 0; i < drafts; ++i) {
    observe(control, {{.id = 0, .examined = 4, .accepted = 4}},
            {.rows = 5, .target_seconds = 0.011, .drafted = 4, .drafter_seconds = 1e-4});
  }
  return control;
}

}  // namespace forerun::rounds
