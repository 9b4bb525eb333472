#pragma once

#include <fmt/format.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "forerun/formats/grammar/grammar_compiler.h"
#include "forerun/formats/tokenizer/tokenizer.h"

namespace forerun::testing {

inline constexpr Token kGrammarEnd = 256;

// Tokens of one byte each, an end token, and some of several bytes.
inline Tokenizer make_byte_tokenizer(const std::vector<std::string>& control = {}) {
  TokenizerSpec spec;
  spec.kind = TokenizerSpec::Kind::kSentencePiece;
  for (int i = 0; i < 256; ++i) spec.tokens.push_back(fmt::format("<0x{:02X}>", i));
  spec.types.assign(256, TokenType::kByte);
  spec.tokens.emplace_back("</s>");
  spec.types.push_back(TokenType::kControl);
  for (const char* text : {"{\"", "\":", "\": ", "\", \"", "true", "12", "\n  ", "}}", "ab"}) {
    spec.tokens.emplace_back(text);
    spec.types.push_back(TokenType::kNormal);
  }
  for (const std::string& name : control) {
    spec.tokens.push_back(name);
    spec.types.push_back(TokenType::kControl);
  }
  spec.scores.assign(spec.tokens.size(), 0.0F);
  spec.byte_fallback = true;
  spec.eos = kGrammarEnd;
  spec.added = added_by_type(spec);
  Result<Tokenizer> tokenizer = make_tokenizer(std::move(spec));
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return *std::move(tokenizer);
}

inline const Tokenizer& byte_tokenizer() {
  static const Tokenizer made = make_byte_tokenizer();
  return made;
}

inline constexpr std::size_t kPadded = 300;  // rows of the model beyond the tokenizer's

inline const GrammarCompiler& byte_compiler() {
  static const GrammarCompiler made(byte_tokenizer(), kPadded, {kGrammarEnd});
  return made;
}

inline std::shared_ptr<const TokenGrammar> compiled(
    const Result<std::string>& ebnf, const GrammarCompiler& compiler = byte_compiler()) {
  if (!ebnf) throw std::runtime_error(ebnf.error().message);
  auto grammar = compiler.compile(*ebnf);
  if (!grammar) throw std::runtime_error(grammar.error().message);
  return *std::move(grammar);
}

inline std::vector<Token> bytes_of(const std::string& text) {
  std::vector<Token> out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

// Whether the whole text, byte by byte, and then the end is possible.
inline bool accepts(const TokenGrammar& grammar, const std::vector<Token>& tokens) {
  const auto walk = grammar.walk();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!walk->after(std::span(tokens).first(i))(tokens[i])) return false;
  }
  return walk->after(tokens)(kGrammarEnd);
}
inline bool accepts(const TokenGrammar& grammar, const std::string& text) {
  return accepts(grammar, bytes_of(text));
}

}  // namespace forerun::testing
