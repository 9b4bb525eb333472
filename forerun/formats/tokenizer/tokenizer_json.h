#pragma once

#include <string_view>

#include "forerun/base/result.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun {

/// Reads a Hugging Face tokenizer: byte pair encoding with ByteLevel, Split, Digits or Metaspace
/// pre-tokenizers and NFC, Replace or Prepend normalizers (GPT-2, SmolLM, Llama 2 and 3, Qwen2,
/// Gemma).
/// @param tokenizer_json         the text of tokenizer.json
/// @param tokenizer_config_json  the text of tokenizer_config.json, or empty: names BOS, EOS and
/// padding Errors: not JSON, a part missing or of another type, a model or step that is not
/// supported (Unigram, WordPiece, ...; the message names it).
Result<TokenizerSpec> parse_tokenizer_json(std::string_view tokenizer_json,
                                           std::string_view tokenizer_config_json);

}  // namespace forerun
