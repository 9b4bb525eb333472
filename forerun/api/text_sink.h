#pragma once

#include <string>

#include "forerun/api/model_impl.h"
#include "forerun/api/stop_filter.h"
#include "forerun/core/lane.h"
#include "forerun/forerun.h"
#include "forerun/formats/tokenizer/stream_decoder.h"

namespace forerun {

/// One lane's outputs on their way to text.
class TextSink {
 public:
  /// @param listener  null where texts of several lanes would mix
  TextSink(const Model::Impl& model, const GenerateOptions& options, const Listener* listener)
      : model_(model),
        options_(options),
        listener_(listener),
        decoder_(model.tokenizer),
        filter_(options.stop) {}

  /// True ends the lane.
  bool push(Token token);
  /// The lane's result. Call it once.
  Generated finish(const TokenLane& lane, RunStatistics statistics);

 private:
  void emit(const std::string& piece);
  Finish finish_of(const TokenLane& lane) const;

  const Model::Impl& model_;
  const GenerateOptions& options_;
  const Listener* listener_;
  StreamDecoder decoder_;
  StopFilter filter_;
  std::string text_;
  bool ended_ = false;
};

}  // namespace forerun
