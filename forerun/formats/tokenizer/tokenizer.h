#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/core/token.h"
#include "forerun/formats/marked_text.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun {

namespace internal {
struct TokenizerData;
}

/// Whether text that looks like a special token ("<|im_end|>") is that token or just text.
enum class Special : std::uint8_t { kText, kParse };

struct DecodeOptions {
  bool control = false;  ///< write control tokens out ("<|im_end|>") instead of leaving them out
  bool start_of_text =
      false;  ///< the tokens begin a text: drop the space that encoding put before it
};

/// Text to tokens and back, with the ids that the Hugging Face and SentencePiece libraries give.
/// A handle: copies are cheap, share everything and may be used from many threads at once.
class Tokenizer {
 public:
  /// The tokens of `text`, nothing added. Bytes that are not UTF-8 are first replaced by U+FFFD,
  /// one for each maximal subpart, as Python's bytes.decode('utf-8', errors='replace') does.
  /// Control and unknown tokens are found with Special::kParse only, user-defined ones always.
  /// @throws std::runtime_error  of a hostile tokenizer.json: the pattern that splits words gave
  /// up, or the normalizer makes far more text than it was given
  std::vector<Token> encode(std::string_view text, Special special = Special::kText) const;

  /// As encode with Special::kParse, save that special tokens are found only outside of what is
  /// `plain`. Words and merges go across its borders.
  /// @param text  UTF-8
  /// @throws std::invalid_argument  bytes that are not UTF-8
  std::vector<Token> encode(const MarkedText& text) const;

  /// As encode, with BOS before and EOS after where the model wants them and the text has none
  /// there.
  std::vector<Token> encode_prompt(std::string_view text, Special special = Special::kText) const;

  /// The text of `tokens`; invalid UTF-8 becomes U+FFFD, one for each maximal subpart, and ids
  /// outside the vocabulary count as empty. (Hugging Face gives one U+FFFD for each byte token of a
  /// run that is not UTF-8 as a whole; on well-formed text both agree.)
  std::string decode(std::span<const Token> tokens, const DecodeOptions& options = {}) const;

  /// The bytes a token stands for, perhaps a part of a character; empty for ids outside the
  /// vocabulary.
  std::string_view piece(Token token) const noexcept;
  /// How the vocabulary file writes a token: "Ġthe", "▁the", "<0x0A>", "<|im_end|>".
  std::string_view name(Token token) const noexcept;
  /// The token that the vocabulary file writes as `name`.
  std::optional<Token> token(std::string_view name) const;

  std::size_t vocab_size() const noexcept;
  bool is_control(Token token) const noexcept;
  std::optional<Token> bos() const noexcept;
  std::optional<Token> eos() const noexcept;
  std::optional<Token> pad() const noexcept;
  std::optional<Token> unknown() const noexcept;
  bool add_bos() const noexcept;
  bool add_eos() const noexcept;
  /// Tokens that end an answer: EOS, the spec's `end`, and control tokens of well-known names;
  /// rising.
  std::span<const Token> end_tokens() const noexcept;
  bool is_end(Token token) const noexcept;

 private:
  friend Result<Tokenizer> make_tokenizer(TokenizerSpec spec);
  friend class StreamDecoder;
  explicit Tokenizer(std::shared_ptr<const internal::TokenizerData> data)
      : data_(std::move(data)) {}
  bool strips_space() const noexcept;

  std::shared_ptr<const internal::TokenizerData> data_;
};

/// Errors: parts of different sizes, ids or merges outside the vocabulary, a `pre` or pattern that
/// is not supported (the message lists what is).
Result<Tokenizer> make_tokenizer(TokenizerSpec spec);

}  // namespace forerun
