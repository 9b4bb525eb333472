#pragma once

#include <string>

#include "forerun/formats/tokenizer/tokenizer.h"

namespace forerun {

/// Tokens to text one by one, as they are generated: whole characters only, never half of one. All
/// that it gives, in order, is Tokenizer::decode of all tokens with the same options.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, DecodeOptions options = {});

  /// The characters that `token` completes, perhaps none. Well-formed UTF-8.
  std::string push(Token token);

  /// What is left: U+FFFD for an incomplete character, else nothing. The next token starts a
  /// character.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  bool strip_next_;      // the next text begins with a space that encoding put there
  std::string pending_;  // the start of a character, 0 to 3 bytes
};

}  // namespace forerun
