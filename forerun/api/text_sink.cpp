#include "forerun/api/text_sink.h"

#include <utility>

namespace forerun {

bool TextSink::push(Token token) {
  if (!options_.ignore_end && model_.end_tokens.contains(token)) {
    ended_ = true;
    return true;
  }
  emit(filter_.push(decoder_.push(token)));
  return filter_.stopped();
}

Generated TextSink::finish(const TokenSequence& sequence, RunStatistics statistics) {
  emit(filter_.push(decoder_.flush()));
  emit(filter_.flush());
  Generated out;
  out.text = text_;
  out.tokens.assign(sequence.outputs().begin(), sequence.outputs().end());
  out.statistics = std::move(statistics);
  out.seconds = out.statistics.seconds.total();
  out.finish = finish_of(sequence);
  out.rule = options_.rule;
  out.exact = options_.exact();
  out.seed = options_.seed;
  return out;
}

void TextSink::emit(const std::string& piece) {
  text_ += piece;
  if (listener_ != nullptr && listener_->on_text && !piece.empty()) listener_->on_text(piece);
}

Finish TextSink::finish_of(const TokenSequence& sequence) const {
  if (ended_) return Finish::kEndToken;
  if (filter_.stopped()) return Finish::kStopString;
  return sequence.done() ? Finish::kLength : Finish::kInterrupted;
}

}  // namespace forerun
