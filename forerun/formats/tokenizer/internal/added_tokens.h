#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/marked_text.h"
#include "forerun/formats/tokenizer/internal/regex.h"
#include "forerun/formats/tokenizer/internal/trie.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun::internal {

/// A part of a text: an added token, or text between them.
struct Fragment {
  std::optional<Token> token;
  Range range;
};

/// Finds added tokens in a text: leftmost first, of those the longest, never overlapping, with the
/// white-space and whole-word rules of Hugging Face's AddedVocabulary.
class AddedTokens {
 public:
  struct Entry {
    std::string_view text;  ///< what to look for; only read while inserting
    AddedToken token;
  };
  static Result<AddedTokens> make(const std::vector<Entry>& entries);

  /// Fragments that cover `text`, none of them empty text.
  /// @param skip_special  special tokens are text (HF: encode_special_tokens)
  /// @param plain         nor are there any that share a byte with these
  std::vector<Fragment> split(std::string_view text, bool skip_special,
                              std::span<const TextRange> plain = {}) const;
  /// The special tokens that split finds.
  std::vector<Token> special(std::string_view text) const;
  bool has_special() const noexcept { return has_special_; }

 private:
  Fragment find(std::string_view text, std::size_t at, bool skip_special,
                std::span<const TextRange>& plain) const;
  bool touches_word(std::string_view text, Range match) const;

  Trie trie_;  // to an index in tokens_
  std::vector<AddedToken> tokens_;
  bool has_special_ = false;
  std::vector<Regex> word_;  // a letter, mark, digit, connector or joiner
};

}  // namespace forerun::internal
