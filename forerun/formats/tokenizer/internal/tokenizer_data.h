#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "forerun/formats/tokenizer/internal/added_tokens.h"
#include "forerun/formats/tokenizer/internal/merges.h"
#include "forerun/formats/tokenizer/internal/splitter.h"
#include "forerun/formats/tokenizer/internal/trie.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun::internal {

inline constexpr Token kNoToken = -1;

/// What a Tokenizer shares between its copies; never changes once made.
struct TokenizerData {
  TokenizerSpec spec;  ///< merges, added and scores are moved out of it into the tables below
  bool byte_level = false;
  bool meta_space = false;  ///< U+2581 in a token stands for a space

  std::unordered_map<std::string_view, Token> ids;  ///< by spec.tokens, the first of equal ones
  std::vector<std::string> pieces;                  ///< [vocab] the bytes each token stands for
  std::array<Token, 256>
      byte_tokens{};  ///< byte level: of each byte; else <0x00> to <0xFF>; kNoToken
  MergeTable merges;
  Splitter splitter;
  AddedTokens added, added_normalized;
  std::vector<Token> end;
  std::vector<Token> shown;  ///< control tokens that have a text all the same

  // SentencePiece
  std::vector<float> scores;
  Trie user_defined;
  std::size_t longest_piece = 0;  ///< bytes

  Token find(std::string_view token) const {
    const auto found = ids.find(token);
    return found == ids.end() ? kNoToken : found->second;
  }
  bool is(Token id, TokenType type) const {
    return spec.types[static_cast<std::size_t>(id)] == type;
  }
  bool merges_into(Token id) const {
    return is(id, TokenType::kNormal) || is(id, TokenType::kUserDefined) ||
           is(id, TokenType::kUnused);
  }
};

}  // namespace forerun::internal
