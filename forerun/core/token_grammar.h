#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "forerun/core/token.h"

namespace forerun {

/// The tokens that may come next under a grammar. A view.
class AllowedTokens {
 public:
  AllowedTokens() = default;
  /// @param words  bit t % 32 of word t / 32 is set if token t may come next
  explicit AllowedTokens(std::span<const std::uint32_t> words) : words_(words) {}

  /// Nothing is known: the outputs have left the grammar, so that none of them will be kept.
  bool unknown() const noexcept { return words_.empty(); }
  /// No token may come next.
  bool none() const noexcept {
    return std::all_of(words_.begin(), words_.end(), [](std::uint32_t w) { return w == 0; });
  }
  bool operator()(Token token) const noexcept {
    const auto t = static_cast<std::size_t>(token);
    return t / 32 < words_.size() && ((words_[t / 32] >> (t % 32)) & 1U) != 0;
  }

 private:
  std::span<const std::uint32_t> words_;
};

/// A place in a grammar that moves with the outputs.
class GrammarWalk {
 public:
  virtual ~GrammarWalk() = default;
  /// The tokens that may follow these outputs of the text; valid until the next call. Fast where
  /// the outputs begin as those of the last call did.
  virtual AllowedTokens after(std::span<const Token> outputs) = 0;
};

/// The texts that a request allows, in tokens of one vocabulary. Does not change; may be used from
/// several threads.
class TokenGrammar {
 public:
  virtual ~TokenGrammar() = default;
  virtual std::unique_ptr<GrammarWalk> walk() const = 0;
};

}  // namespace forerun
