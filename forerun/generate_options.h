#pragma once

/// How texts are generated.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/core/logit_changes.h"
#include "forerun/core/rule.h"
#include "forerun/core/sampling_params.h"
#include "forerun/core/statistics.h"

#pragma GCC visibility push(default)
namespace forerun {

struct GenerateOptions {
  SamplingParams sampling;  ///< temperature 0 (greedy), top-k, top-p, min-p
  LogitChanges changes;     ///< bias and penalties, before those: part of the target's law
  /// At temperature 0 every rule keeps the target's choice. By default a text depends on its seed,
  /// not on the drafter.
  Rule rule = Rule::kSharedNoise;
  std::uint32_t max_draft = 15;  ///< drafts a round at most
  bool fixed_draft = false;      ///< always draft that many, even if it is slower
  std::uint32_t max_tokens = 256;
  std::uint64_t seed = 0;
  /// Separates generations of one seed. Random numbers depend on seed, request and position: give
  /// every turn of a conversation its own request (chat counts them). Otherwise a turn with a
  /// trimmed history uses the numbers of earlier turns again.
  std::uint32_t request = 0;
  std::vector<std::string> stop;  ///< strings that end the text and are cut from it
  bool ignore_end = false;        ///< continue after end-of-sequence tokens
  /// Keep the rounds of the first text; in an engine: report every round.
  bool trace = false;
  std::uint32_t batch_size = 0;  ///< texts of a batch at a time, 0 = all: a finished one makes room

  /// The outputs have the target's law, whatever the drafter.
  bool exact() const { return is_exact(rule) || sampling.greedy(); }
  /// The text is that of plain decoding with the same seed, whatever the drafter.
  bool deterministic() const { return sampling.greedy() || rule == Rule::kSharedNoise; }
};

/// Called between rounds and with every piece of finished text.
struct Listener {
  std::function<void(std::string_view)> on_text;  ///< complete UTF-8 characters only
  std::function<void(const RunStatistics&)> on_round;
  /// Asked between rounds, and between the passes over a long prompt; false ends the generation
  /// cleanly.
  std::function<bool()> go_on;
};

}  // namespace forerun
#pragma GCC visibility pop
