#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// What an entry of a vocabulary is; numbered as in GGUF's tokenizer.ggml.token_type.
enum class TokenType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

/// An entry that is looked for in the text before anything else. Its text is tokens[id].
struct AddedToken {
  Token id;
  bool special = false;      ///< ignored where text is not to be parsed for special tokens
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space after it along
  bool single_word = false;  ///< only where no letter, mark, digit or '_' touches it
  bool normalized = false;   ///< looked for in the normalised text
};

/// Steps that change the text, in Hugging Face's words.
struct Nfc {};
struct Replace {
  std::string from, to;
};
struct Prepend {
  std::string text;
};
using NormalizeStep = std::variant<Nfc, Replace, Prepend>;

/// Steps that cut the text into the words that merging never crosses, in Hugging Face's words.
struct Split {
  enum class Keep : std::uint8_t { kIsolated, kRemoved, kWithPrevious, kWithNext, kContiguous };
  std::string pattern;
  bool is_regex = true;  ///< else `pattern` is looked for as it stands
  Keep keep = Keep::kIsolated;
  bool invert = false;  ///< the pattern describes the words instead of what lies between them
};
struct Digits {
  bool individual = true;
};
struct ByteLevel {
  bool add_prefix_space = false;
  bool use_regex = true;  ///< cut by GPT-2's pattern
};
struct Metaspace {
  enum class PrependTo : std::uint8_t { kNone, kFirst, kEvery };
  std::string replacement = "\u2581";
  PrependTo prepend = PrependTo::kEvery;
  bool split = true;
};
using SplitStep = std::variant<Split, Digits, ByteLevel, Metaspace>;

/// All that a tokenizer is made from, as plain data; see make_tokenizer.
struct TokenizerSpec {
  enum class Kind : std::uint8_t {
    kMerges,        ///< byte pair encoding by a ranked list of merges
    kSentencePiece  ///< byte pair encoding by scores (SentencePiece; GGUF's model "llama")
  };
  Kind kind = Kind::kMerges;

  std::vector<std::string>
      tokens;  ///< [vocab] as written in the file: byte-level texts in GPT-2's alphabet
  std::vector<TokenType> types;   ///< [vocab]
  std::vector<AddedToken> added;  ///< GGUF does not list them: added_by_type
  std::vector<float> scores;      ///< [vocab], kSentencePiece

  /// kMerges: left and right, best first; each, and both together, are in `tokens`.
  std::vector<std::pair<std::string, std::string>> merges;
  std::string
      pre;  ///< GGUF's tokenizer.ggml.pre; not empty: the three below are taken from its table
  std::vector<NormalizeStep> normalize;
  std::vector<SplitStep> split;
  bool ignore_merges = false;  ///< a word that is in the vocabulary is not merged but taken whole
  bool byte_fallback = false;  ///< characters outside the vocabulary become tokens <0x00> to <0xFF>
  std::optional<Token> missing;  ///< for other characters outside it; none: those are left out
  bool fuse_missing = false;     ///< neighbouring ones become one `missing`

  bool add_space_prefix = false;  ///< kSentencePiece: text is encoded as if a space came before it
  bool strip_space = false;       ///< decoding from the start of a text drops one leading space

  bool add_bos = false, add_eos = false;
  std::optional<Token> bos, eos, unknown, pad;
  std::vector<Token>
      end;  ///< further tokens that end an answer, besides eos and those known by name
};

/// The added tokens of a vocabulary that only has types: control and unknown ones are special,
/// user-defined ones are not. SentencePiece finds its user-defined ones itself.
std::vector<AddedToken> added_by_type(const TokenizerSpec& spec);

/// Drops the tokens from id `rows` on if all of them are added ones: a model without rows for them
/// (Gemma 3 1B has none for its family's pictures) neither reads nor writes them, and text that
/// spells them is ordinary text. With any other token there, nothing changes.
void drop_added_from(TokenizerSpec& spec, std::size_t rows);

}  // namespace forerun
