#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forerun/core/sequence.h"
#include "forerun/core/statistics.h"
#include "forerun/engine/text_request.h"
#include "forerun/engine/text_stream.h"
#include "forerun/tensor/kv_cache.h"

namespace forerun {

/// A text of an engine, from its request to its end.
struct Text {
  Text(const TextModel& model, TextRequest r, RequestId own, std::size_t budget)
      : id(own),
        request(std::move(r)),
        stream(model, request),
        sequence(
            request.seed, request.request, request.prompt, budget,
            [this](Token t) { return stream.push(t); }, request.settings, own) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  /// Tokens that the target has to read before the newest one: its draft's pass reads that.
  std::int64_t unread() const {
    return static_cast<std::int64_t>(sequence.tokens().size()) - 1 - cache->length();
  }

  RequestId id;
  TextRequest request;
  TextStream stream;
  TokenSequence sequence;
  std::optional<KvCache> cache;  ///< while it runs
  RunStatistics statistics;
  double prefill_seconds = 0.0, learning_seconds = 0.0;
  int prefill_passes = 0;
  std::size_t shared = 0;
  /// A text that reads more of the same beginning: it is taken over once so many positions are
  /// there.
  struct Awaited {
    RequestId id = 0;
    std::int64_t positions = 0;  ///< 0: none is waited for
  } awaited;
  /// Where others begin to differ: of recurrent layers the state there is worth keeping, so no
  /// piece of the prompt goes beyond it. 0: nowhere.
  std::int64_t split = 0;
  bool prompt_read = false;
  bool waits = false;  ///< said to wait
};

}  // namespace forerun
