#include "forerun/engine/text_stream.h"

namespace forerun {

bool TextStream::push(Token token) {
  if (end_tokens_ != nullptr && end_tokens_->contains(token)) {
    ended_ = true;
    bytes_.push_back(0);
    return true;
  }
  const std::size_t before = text_.size();
  add(filter_.push(decoder_.push(token)));
  bytes_.push_back(text_.size() - before);
  return filter_.stopped();
}

Finish TextStream::finish(bool complete) {
  add(filter_.push(decoder_.flush()));
  add(filter_.flush());
  if (ended_) return Finish::kEndToken;
  if (filter_.stopped()) return Finish::kStopString;
  return complete ? Finish::kLength : Finish::kInterrupted;
}

void TextStream::add(const std::string& piece) {
  text_ += piece;
  fresh_ += piece;
}

std::string_view name_of(Finish finish) noexcept {
  switch (finish) {
    case Finish::kLength:
      return "length";
    case Finish::kEndToken:
      return "end-token";
    case Finish::kStopString:
      return "stop-string";
    case Finish::kInterrupted:
      return "interrupted";
  }
  return "?";
}

}  // namespace forerun
