#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/key_table.h"
#include "forerun/core/ngram_key.h"
#include "forerun/core/ngram_law.h"

namespace forerun {

/// A law of up to three tokens with back-off weights, as ARPA files hold it: a trigram that is not
/// listed has the weight of its first two tokens and the probability of the last two; a bigram
/// likewise. A token that is not listed at all counts as kUnknown.
class BackoffNgram final : public NgramLaw {
 public:
  static constexpr int kMostOrder = 3;
  /// What stands before a text, at its end, and for tokens that were never seen. Other ids are
  /// below.
  static constexpr Token kBegin = ngram_key::kMostTokens - 1, kEnd = kBegin - 1,
                         kUnknown = kBegin - 2;
  static constexpr double kNever = -100.0;  ///< log10 of what a law without kUnknown never lists
  struct Weights {
    float log10_p = 0.0F;
    float log10_backoff = 0.0F;  ///< 0: nothing longer begins so
  };

  /// False: it is listed already.
  bool add(std::span<const Token> gram, const Weights& weights);
  const Weights* find(std::span<const Token> gram) const noexcept;
  /// N-grams listed of an order, 1 to 3.
  std::size_t size(int order) const noexcept { return sizes_[static_cast<std::size_t>(order - 1)]; }
  /// The largest id listed but for the three above; -1: none.
  Token largest() const noexcept { return largest_; }
  /// Those of an order by rising tokens.
  std::vector<std::vector<Token>> grams(int order) const;

  /// kNoToken stands for kBegin.
  std::vector<double> log_probs(Token before, Token last,
                                std::span<const Token> next) const override;

 private:
  Token known(Token token) const noexcept;
  double backoff(std::uint64_t gram) const noexcept;

  KeyTable<Weights> grams_;
  std::array<std::size_t, kMostOrder> sizes_{};
  Token largest_ = -1;
};

}  // namespace forerun
