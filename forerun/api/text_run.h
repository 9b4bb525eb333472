#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "forerun/engine/text_runner.h"
#include "forerun/text.h"

namespace forerun {

/// Sees every round of a run; the index is the text's place in the round.
using RoundObserver = std::function<void(const TextRound&, std::size_t)>;

/// A batch of texts with the same options: what generate, certify, bench and distill share. A loop
/// over the steps of a TextRunner.
class TextRun {
 public:
  /// @param requests  of the prompts, distinct; empty: counted from options.request
  TextRun(Model target, Drafter drafter, std::span<const std::vector<Token>> prompts,
          GenerateOptions options, Listener listener, const RoundObserver& observer = {},
          std::span<const std::uint32_t> requests = {});
  TextRun(const TextRun&) = delete;
  TextRun& operator=(const TextRun&) = delete;

  /// As Generation::advance.
  bool advance(std::size_t outputs);
  std::size_t outputs() const noexcept { return whole_.outputs; }
  /// As Generation::finish.
  std::vector<Generated> finish();

 private:
  void take(std::vector<Event>& events);

  Model model_;
  GenerateOptions options_;
  Listener listener_;
  bool keeps_law_;
  std::shared_ptr<TextDrafter> drafter_;
  TextRunner runner_;
  std::vector<Generated> results_;
  RunStatistics whole_;
  TextTrace trace_;  // of the first text
};

}  // namespace forerun
