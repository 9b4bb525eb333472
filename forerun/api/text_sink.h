#pragma once

#include <string>

#include "forerun/api/model_impl.h"
#include "forerun/api/stop_filter.h"
#include "forerun/core/sequence.h"
#include "forerun/formats/tokenizer/stream_decoder.h"
#include "forerun/text.h"

namespace forerun {

/// One sequence's outputs on their way to text.
class TextSink {
 public:
  /// @param listener  null where texts of several sequences would mix
  TextSink(const Model::Impl& model, const GenerateOptions& options, const Listener* listener)
      : model_(model),
        options_(options),
        listener_(listener),
        decoder_(model.tokenizer),
        filter_(options.stop) {}

  /// True ends the sequence.
  bool push(Token token);
  /// The sequence's result. Call it once.
  Generated finish(const TokenSequence& sequence, RunStatistics statistics);

 private:
  void emit(const std::string& piece);
  Finish finish_of(const TokenSequence& sequence) const;

  const Model::Impl& model_;
  const GenerateOptions& options_;
  const Listener* listener_;
  StreamDecoder decoder_;
  StopFilter filter_;
  std::string text_;
  bool ended_ = false;
};

}  // namespace forerun
