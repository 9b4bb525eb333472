#include "forerun/formats/tokenizer/stream_decoder.h"

#include <utility>

#include "forerun/base/utf8.h"

namespace forerun {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(options),
      strip_next_(options.start_of_text && tokenizer_.strips_space()) {}

std::string StreamDecoder::push(Token token) {
  if (tokenizer_.is_control(token)) {
    if (!options_.control) return {};
    return flush() + std::string(tokenizer_.piece(token));
  }
  std::string_view piece = tokenizer_.piece(token);
  if (!piece.empty() && std::exchange(strip_next_, false) && piece.front() == ' ')
    piece.remove_prefix(1);
  pending_ += piece;
  const std::size_t cut = cut_suffix(pending_);
  std::string out =
      replace_invalid_utf8(std::string_view(pending_).substr(0, pending_.size() - cut));
  pending_.erase(0, pending_.size() - cut);
  return out;
}

std::string StreamDecoder::flush() {
  const std::string out = replace_invalid_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace forerun
