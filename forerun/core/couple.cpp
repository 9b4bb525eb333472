#include "forerun/core/couple.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

void check_id(const Categorical& law, Token t, const char* who) {
  if (t < 0 || static_cast<std::size_t>(t) >= law.size()) {
    throw std::invalid_argument(std::string(who) + ": drafted token " + std::to_string(t) +
                                " lies outside the vocabulary of " + std::to_string(law.size()));
  }
}

}  // namespace

double log_ratio(const Categorical& target, const Categorical& draft, Token drafted) {
  check_id(target, drafted, "couple");
  // Here and not only in the residual: a kept draft must not skip the check.
  if (draft.size() != target.size()) {
    throw std::invalid_argument("couple: target and draft have different vocabularies (" +
                                std::to_string(target.size()) + " and " +
                                std::to_string(draft.size()) +
                                " tokens); cut or pad the draft's logits to the target's");
  }
  const double log_q = draft.log_prob(drafted);
  if (std::isinf(log_q)) {
    throw std::invalid_argument(
        "couple: the draft's law gives the drafted token probability 0; hand over the law it was "
        "sampled from, or a PointMass if it was not sampled");
  }
  return target.log_prob(drafted) - log_q;
}

Coupled<Token> couple(const Categorical& target, const Categorical& draft, Token drafted,
                      const RngKey& key) {
  // Strict: at u = 0 a token the target forbids (p = 0) must still be rejected.
  const bool accepted = key.uniform(Purpose::kAccept) < std::exp(log_ratio(target, draft, drafted));
  if (accepted) return {drafted, true};
  return {sample_residual(target, draft, key.uniform(Purpose::kResidual)), false};
}

Coupled<Token> couple(const Categorical& target, PointMass draft, const RngKey& key) {
  check_id(target, draft.token, "couple");
  const Token y = target.sample(key.uniform(Purpose::kTarget));
  return {y, y == draft.token};
}

Coupled<Token> couple(PointMass target, PointMass draft) noexcept {
  return {target.token, target.token == draft.token};
}

Coupled<Token> couple_shared_noise(const Categorical& target, Token drafted, const RngKey& key) {
  check_id(target, drafted, "couple_shared_noise");
  const Token y = sample_shared_noise(target, key).token;
  return {y, y == drafted};
}

Coupled<Token> couple_typical(const Categorical& target, Token drafted, const RngKey& key,
                              double epsilon, double delta) {
  check_id(target, drafted, "couple_typical");
  const double threshold = std::min(epsilon, delta * std::exp(-target.entropy()));
  if (target.prob(drafted) > threshold) return {drafted, true};
  return {target.sample(key.uniform(Purpose::kTarget)), false};
}

Coupled<Token> couple_ratio_on_search(const Categorical& target, const Categorical& draft,
                                      Token drafted, const RngKey& key) {
  return couple(target, draft, drafted, key);
}

}  // namespace forerun
