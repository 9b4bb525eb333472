#pragma once

#include <string_view>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/formats/tokenizer/internal/tokenizer_data.h"

namespace forerun::internal {

/// Byte pair encoding by scores: of all neighbours that form a piece the best-scored pair merges
/// first, leftmost on ties. Characters without a piece become byte tokens, or one unknown token a
/// run.
/// @param text  well-formed UTF-8 with U+2581 for spaces
/// Source: bpe_model.cc and sentencepiece_processor.cc in google/sentencepiece.
std::vector<Token> encode_sentencepiece(const TokenizerData& data, std::string_view text);

}  // namespace forerun::internal
