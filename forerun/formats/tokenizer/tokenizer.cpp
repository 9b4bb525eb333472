#include "forerun/formats/tokenizer/tokenizer.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "forerun/base/utf8.h"
#include "forerun/formats/tokenizer/internal/byte_alphabet.h"
#include "forerun/formats/tokenizer/internal/normalizer.h"
#include "forerun/formats/tokenizer/internal/sentencepiece.h"
#include "forerun/formats/tokenizer/internal/tokenizer_data.h"
#include "forerun/formats/tokenizer/stream_decoder.h"

namespace forerun {
namespace {

using internal::Fragment;
using internal::kNoToken;
using internal::TokenizerData;

void append(std::vector<Token>& out, const std::vector<Token>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

// The tokens that a word's merging starts from: of its bytes, or of its characters.
std::vector<Token> symbols_of(const TokenizerData& data, std::string_view word) {
  std::vector<Token> out;
  out.reserve(word.size());
  bool after_missing = false;
  while (!word.empty()) {
    const std::size_t size = data.byte_level ? 1 : first_char(word).size;
    const std::string_view symbol = word.substr(0, size);
    word.remove_prefix(size);
    const auto byte_token = [&](char c) { return data.byte_tokens[static_cast<unsigned char>(c)]; };
    const Token id = data.byte_level ? byte_token(symbol.front()) : data.find(symbol);
    if (id != kNoToken) {
      out.push_back(id);
      after_missing = false;
    } else if (!data.byte_level && data.spec.byte_fallback &&
               std::all_of(symbol.begin(), symbol.end(),
                           [&](char c) { return byte_token(c) != kNoToken; })) {
      for (const char c : symbol) out.push_back(byte_token(c));
      after_missing = false;
    } else {
      const bool fused = after_missing && data.spec.fuse_missing;
      if (data.spec.missing && !fused) out.push_back(*data.spec.missing);
      after_missing = true;
    }
  }
  return out;
}

std::vector<Token> encode_word(const TokenizerData& data, std::string_view word) {
  if (data.spec.ignore_merges) {
    const Token id =
        data.byte_level ? data.find(internal::to_byte_alphabet(word)) : data.find(word);
    if (id != kNoToken) return {id};
  }
  return internal::apply_merges(symbols_of(data, word), data.merges);
}

std::string normalized(std::string text, const std::vector<NormalizeStep>& steps) {
  Result<std::string> out = internal::normalized(std::move(text), steps);
  if (!out) throw FormatError("tokenizer: " + out.error().message);
  return *std::move(out);
}

// Text between added tokens, by merges.
std::vector<Token> encode_text(const TokenizerData& data, std::string_view text, bool skip_special,
                               bool at_start) {
  const std::string normal = normalized(std::string(text), data.spec.normalize);
  std::vector<Token> out;
  for (const Fragment& f : data.added_normalized.split(normal, skip_special)) {
    if (f.token) {
      out.push_back(*f.token);
      continue;
    }
    const std::string_view part =
        std::string_view(normal).substr(f.range.begin, f.range.end - f.range.begin);
    for (const std::string& word : data.splitter.words(part, at_start && f.range.begin == 0)) {
      append(out, encode_word(data, word));
    }
  }
  return out;
}

std::vector<Token> encode_scored(const TokenizerData& data, std::string_view text) {
  std::string prefixed(data.spec.add_space_prefix ? " " : "");
  prefixed += text;
  return internal::encode_sentencepiece(data,
                                        normalized(std::move(prefixed), {Replace{" ", "\u2581"}}));
}

// Whether special tokens that are looked for after normalization would be found in what is plain,
// or across its borders. Places do not outlive normalization: the tokens of the whole text are
// compared with those of the rest alone.
bool plain_is_special(const TokenizerData& data, std::string_view text, internal::Range range,
                      std::span<const TextRange> plain) {
  const auto special = [&](std::size_t begin, std::size_t end) {
    return data.added_normalized.special(
        normalized(std::string(text.substr(begin, end - begin)), data.spec.normalize));
  };
  std::vector<Token> own;
  std::size_t done = range.begin;
  for (const TextRange& r : plain) {
    if (r.end <= range.begin || r.begin >= range.end) continue;
    append(own, special(done, std::max(done, r.begin)));
    done = std::min(r.end, range.end);
  }
  append(own, special(done, range.end));
  return own != special(range.begin, range.end);
}

std::vector<Token> encode_fragments(const TokenizerData& data, std::string_view text,
                                    bool skip_special, std::span<const TextRange> plain) {
  std::vector<Token> out;
  for (const Fragment& f : data.added.split(text, skip_special, plain)) {
    const std::string_view part = text.substr(f.range.begin, f.range.end - f.range.begin);
    if (f.token) {
      out.push_back(*f.token);
    } else if (data.spec.kind == TokenizerSpec::Kind::kSentencePiece) {
      append(out, encode_scored(data, part));
    } else {
      const bool skip = skip_special || (!plain.empty() && data.added_normalized.has_special() &&
                                         plain_is_special(data, text, f.range, plain));
      append(out, encode_text(data, part, skip, f.range.begin == 0));
    }
  }
  return out;
}

}  // namespace

std::vector<Token> Tokenizer::encode(std::string_view bytes, Special special) const {
  return encode_fragments(*data_, replace_invalid_utf8(bytes), special == Special::kText, {});
}

std::vector<Token> Tokenizer::encode(const MarkedText& text) const {
  if (!is_valid_utf8(text.text)) {
    throw std::invalid_argument("tokenizer: marked text that is not UTF-8: replace invalid bytes");
  }
  return encode_fragments(*data_, text.text, false, text.plain);
}

std::vector<Token> Tokenizer::encode_prompt(std::string_view text, Special special) const {
  std::vector<Token> out = encode(text, special);
  if (add_bos() && (out.empty() || out.front() != *bos())) out.insert(out.begin(), *bos());
  if (add_eos() && (out.empty() || out.back() != *eos())) out.push_back(*eos());
  return out;
}

std::string Tokenizer::decode(std::span<const Token> tokens, const DecodeOptions& options) const {
  StreamDecoder decoder(*this, options);
  std::string out;
  for (const Token token : tokens) out += decoder.push(token);
  return out + decoder.flush();
}

std::string_view Tokenizer::piece(Token token) const noexcept {
  return token >= 0 && static_cast<std::size_t>(token) < vocab_size()
             ? std::string_view(data_->pieces[static_cast<std::size_t>(token)])
             : std::string_view();
}

std::string_view Tokenizer::name(Token token) const noexcept {
  return token >= 0 && static_cast<std::size_t>(token) < vocab_size()
             ? std::string_view(data_->spec.tokens[static_cast<std::size_t>(token)])
             : std::string_view();
}

std::optional<Token> Tokenizer::token(std::string_view name) const {
  const Token id = data_->find(name);
  return id == kNoToken ? std::nullopt : std::optional<Token>(id);
}

std::size_t Tokenizer::vocab_size() const noexcept { return data_->spec.tokens.size(); }

bool Tokenizer::is_control(Token token) const noexcept {
  return token >= 0 && static_cast<std::size_t>(token) < vocab_size() &&
         data_->is(token, TokenType::kControl) &&
         std::find(data_->shown.begin(), data_->shown.end(), token) == data_->shown.end();
}

std::optional<Token> Tokenizer::bos() const noexcept { return data_->spec.bos; }
std::optional<Token> Tokenizer::eos() const noexcept { return data_->spec.eos; }
std::optional<Token> Tokenizer::pad() const noexcept { return data_->spec.pad; }
std::optional<Token> Tokenizer::unknown() const noexcept { return data_->spec.unknown; }
bool Tokenizer::add_bos() const noexcept { return data_->spec.add_bos; }
bool Tokenizer::add_eos() const noexcept { return data_->spec.add_eos; }
bool Tokenizer::strips_space() const noexcept { return data_->spec.strip_space; }
std::span<const Token> Tokenizer::end_tokens() const noexcept { return data_->end; }

bool Tokenizer::is_end(Token token) const noexcept {
  return std::binary_search(data_->end.begin(), data_->end.end(), token);
}

}  // namespace forerun
