#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/key_table.h"
#include "forerun/core/ngram_law.h"

namespace forerun {

/// Trigrams of one growing text. Each order is interpolated with the one below it by the number of
/// different tokens that followed the context; the lowest is uniform.
/// Source: Witten and Bell 1991, "The zero-frequency problem", method C.
class OnlineNgram final : public NgramLaw {
 public:
  /// @param vocab  ids are in [0, vocab), below 2^21
  explicit OnlineNgram(std::int64_t vocab) : vocab_(static_cast<double>(vocab)) {}

  /// Counts what is new in the text, which begins as the one before did.
  void read(std::span<const Token> text);
  std::size_t length() const noexcept { return read_; }
  std::vector<double> log_probs(Token before, Token last,
                                std::span<const Token> next) const override;
  std::vector<double> probs(Token before, Token last, std::span<const Token> next) const override;
  /// Share of the law after two tokens that comes from what followed both; 0 if nothing did.
  double evidence(Token before, Token last) const;
  /// The token that followed both of them last, and the one that followed the second last, if there
  /// are such.
  std::vector<Token> followers(Token before, Token last) const;

 private:
  struct Context {
    std::uint32_t tokens = 0, different = 0;
    Token newest = 0;
  };
  void count(std::uint64_t context, Token next);
  const Context* context_of(Token before, Token last) const;
  void interpolate(std::uint64_t context, std::span<const Token> next,
                   std::vector<double>& p) const;

  double vocab_;
  std::size_t read_ = 0;
  KeyTable<Context> contexts_;
  KeyTable<std::uint32_t> grams_;
};

}  // namespace forerun
