#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "forerun/engine/event.h"
#include "forerun/engine/stop_filter.h"
#include "forerun/engine/text_request.h"
#include "forerun/formats/tokenizer/stream_decoder.h"

namespace forerun {

/// The tokens of one text on their way to characters: stops at end tokens and stop strings.
class TextStream {
 public:
  TextStream(const TextModel& model, const TextRequest& request)
      : end_tokens_(request.ignore_end ? nullptr : &model.end_tokens),
        decoder_(model.tokenizer),
        filter_(request.stop) {}

  /// True ends the text.
  bool push(Token token);
  /// The characters that are complete since the last call.
  std::string take() { return std::exchange(fresh_, {}); }
  /// By token since the last call: bytes of complete characters that it added.
  std::vector<std::size_t> take_bytes() { return std::exchange(bytes_, {}); }
  /// Ends the text: incomplete characters and withheld beginnings of stop strings are added.
  /// @param complete  all outputs that were allowed are there
  Finish finish(bool complete);
  const std::string& text() const noexcept { return text_; }

 private:
  void add(const std::string& piece);

  const std::unordered_set<Token>* end_tokens_;
  StreamDecoder decoder_;
  StopFilter filter_;
  std::string text_, fresh_;
  std::vector<std::size_t> bytes_;
  bool ended_ = false;
};

}  // namespace forerun
