#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "forerun/api/text_sink.h"
#include "forerun/core/sequence.h"
#include "forerun/methods/any_drafter.h"
#include "forerun/methods/text/decoder_target.h"
#include "forerun/text.h"

namespace forerun {

using TextRound = Round<TokenSequence, TokenDraft, VerifiedTokens>;

/// Sees every round of a run.
using RoundObserver = std::function<void(const TextRound&)>;

/// What Generation is made of, with an observer of its own: what generate, certify, bench and
/// distill share.
class TextRun {
 public:
  /// @param requests  of the prompts, distinct; empty: counted from options.request
  TextRun(Model target, Drafter drafter, std::span<const std::vector<Token>> prompts,
          GenerateOptions options, Listener listener, RoundObserver observer = {},
          std::span<const std::uint32_t> requests = {});
  TextRun(const TextRun&) = delete;
  TextRun& operator=(const TextRun&) = delete;

  /// As Generation::advance.
  bool advance(std::size_t outputs);
  std::size_t outputs() const noexcept { return whole_.outputs; }
  /// As Generation::finish.
  std::vector<Generated> finish();

 private:
  void watch(const TextRound& round);
  void count(const TextRound& round);

  Model model_;
  Drafter drafter_;
  GenerateOptions options_;
  Listener listener_;
  RoundObserver observer_;
  std::vector<std::unique_ptr<TextSink>> sinks_;
  std::vector<TokenSequence> sequences_;
  DecoderTarget verifier_;
  AnyDrafter proposer_;
  std::vector<RunStatistics> statistics_;  // by sequence
  RunStatistics whole_;
  double prefilled_ = 0.0, learning_ = 0.0;  // seconds
};

}  // namespace forerun
