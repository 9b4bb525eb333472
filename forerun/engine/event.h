#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "forerun/core/sequence_id.h"
#include "forerun/core/statistics.h"
#include "forerun/core/token.h"

#pragma GCC visibility push(default)
namespace forerun {

/// Names a request of an engine; never used again by that engine.
using RequestId = SequenceId;

/// Why a text ended.
enum class Finish : std::uint8_t { kLength, kEndToken, kStopString, kInterrupted };
std::string_view name_of(Finish finish) noexcept;

/// A generated text.
struct TextResult {
  std::string text;
  std::vector<Token> tokens;  ///< all outputs, the end token included
  RunStatistics statistics;   ///< a pass shared by several texts counts its seconds in equal parts
  double seconds = 0.0;       ///< of its rounds, without the target's prefill
  double prefill_seconds = 0.0;   ///< of the target over the prompt
  int prefill_passes = 0;         ///< passes that read a piece of the prompt
  std::size_t shared_tokens = 0;  ///< of the prompt: keys and values were there already
  Finish finish = Finish::kLength;
};

/// Finished characters of a text, whole UTF-8 ones.
struct TextPiece {
  RequestId id = 0;
  std::string text;
};

/// How a round of a text came about.
struct RoundTrace {
  std::vector<Token> drafts;
  std::vector<std::int32_t> parents;  ///< the draft that each one follows, -1 the text
  std::vector<std::int32_t> kept;     ///< drafts that are outputs, in their order
  std::vector<Token> outputs;         ///< those, and the target's own if the text went on
  double drafter_seconds = 0.0, target_seconds = 0.0;
};

/// A round of a text, if its options want the trace. The text that it finished follows.
struct RoundReport {
  RequestId id = 0;
  RoundTrace trace;
  /// By output: bytes of finished text that it added. What is held back (a part of a character, the
  /// beginning of a stop string) counts for the output that completes it.
  std::vector<std::size_t> bytes;
};

/// An output token, if log-probabilities are wanted: those of the target's softmax at temperature 1
/// without limits, in nats.
struct TokenOutput {
  RequestId id = 0;
  Token token = 0;
  double log_probability = 0.0;
  std::vector<std::pair<Token, double>> top;  ///< the likeliest tokens, in falling order
};

/// The request waits for memory; it starts, or restarts, by itself.
struct Waiting {
  RequestId id = 0;
  std::string reason;
};

struct TextFinished {
  RequestId id = 0;
  TextResult result;
};

/// The target's prediction of the finished image, from the state after `step` transitions.
struct ImagePreview {
  RequestId id = 0;
  std::size_t step = 0;
  std::vector<float> values;  ///< [channels, side, side]: of an image, or of a latent to decode
};

struct ImageFinished {
  RequestId id = 0;
  std::size_t steps = 0;  ///< transitions made
  bool complete = true;   ///< false: it was cancelled, and is still noisy
  std::vector<float> values;
  RunStatistics statistics;  ///< outputs are transitions
};

/// The request ended without a result. Other requests are not affected.
struct Failed {
  RequestId id = 0;
  std::string message;
  bool by_request = false;  ///< it asks for what cannot be had here: sent again, it fails again
};

/// What a step of an engine reports. Every event names its request.
using Event = std::variant<TextPiece, TokenOutput, RoundReport, Waiting, TextFinished, ImagePreview,
                           ImageFinished, Failed>;

}  // namespace forerun
#pragma GCC visibility pop
