#pragma once

#include <cmath>
#include <cstddef>
#include <variant>

#include "forerun/core/couple.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/rule.h"
#include "forerun/core/token_rule.h"

namespace forerun::support {

// Couplings with known biases: the negative controls of the statistical tests.

/// After a rejection it draws from the target instead of the residual.
inline Coupled<Token> resample_from_target(const Categorical& target, const Categorical& draft,
                                           Token drafted, const RngKey& key) {
  const double ratio = std::exp(target.log_prob(drafted) - draft.log_prob(drafted));
  if (key.uniform(Purpose::kAccept) < ratio) return {drafted, true};
  return {target.sample(key.uniform(Purpose::kResidual)), false};
}

inline Coupled<Token> keep_every_draft(const Categorical&, const Categorical&, Token drafted,
                                       const RngKey&) {
  return {drafted, true};
}

/// A coupling of two categoricals as used by the loop; `draw` is the exact one.
template <auto kCouple>
struct RuleOf {
  Coupled<Token> couple(const TokenLaw& target, const TokenDraft& draft, std::size_t step,
                        const RngKey& key) const {
    return kCouple(std::get<Categorical>(target), draft.laws[step], draft.tokens[step], key);
  }
  Token draw(const TokenLaw& target, const RngKey& key) const {
    return std::get<Categorical>(target).sample(key.uniform(Purpose::kTarget));
  }
};

}  // namespace forerun::support
