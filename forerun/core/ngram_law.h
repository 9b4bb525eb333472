#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// A law of the next token given the two before it.
class NgramLaw {
 public:
  virtual ~NgramLaw() = default;
  static constexpr Token kNoToken = -1;

  /// log P(token | before, last) in nats, finite, of each of `next`.
  /// @param before  kNoToken: `last` begins the text
  virtual std::vector<double> log_probs(Token before, Token last,
                                        std::span<const Token> next) const = 0;
  /// P(token | before, last) of each of `next`.
  virtual std::vector<double> probs(Token before, Token last, std::span<const Token> next) const {
    std::vector<double> p = log_probs(before, last, next);
    for (double& x : p) x = std::exp(x);
    return p;
  }
  double log_prob(Token before, Token last, Token next) const {
    return log_probs(before, last, {&next, 1})[0];
  }
};

}  // namespace forerun
