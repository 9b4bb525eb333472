#pragma once

#include <cstddef>
#include <span>
#include <variant>

#include "forerun/core/token.h"

namespace forerun {

/// A value that was chosen, not sampled: from lookup, argmax or search.
struct PointMass {
  Token token = 0;
};

/// A law over token ids, given by float log-weights and normalised in double.
/// A view: the weights must outlive it, unchanged. The sum over all of them is taken when it is
/// first needed (shared noise never does), so not from two threads at once.
class Categorical {
 public:
  /// @param log_weights  [vocab] float32, natural log, up to a common offset; -inf forbids a token
  /// @throws std::invalid_argument  empty, NaN or +inf inside, or every token forbidden
  explicit Categorical(std::span<const float> log_weights);

  std::size_t size() const noexcept { return log_weights_.size(); }
  std::span<const float> log_weights() const noexcept { return log_weights_; }
  Token argmax() const noexcept { return argmax_; }
  double log_prob(Token t) const noexcept {
    // The maximum first: a large common offset must not absorb log(sum).
    return (static_cast<double>(log_weights_[static_cast<std::size_t>(t)]) - max_) - log_sum();
  }
  double prob(Token t) const noexcept;
  /// Entropy in nats.
  double entropy() const noexcept;
  /// The token at which the cumulative probability passes `u` in [0, 1); never one of probability
  /// 0.
  Token sample(double u) const noexcept;

 private:
  friend Token sample_residual(const Categorical&, const Categorical&, double, double);
  friend double residual_mass(const Categorical&, const Categorical&, double);
  std::span<const float> log_weights_;
  // Of exp(weight - max), which is at least 1.
  double sum() const noexcept {
    if (sum_ == 0.0) take_sum();
    return sum_;
  }
  double log_sum() const noexcept {
    if (sum_ == 0.0) take_sum();
    return log_sum_;
  }
  void take_sum() const noexcept;

  double max_ = 0.0;  // largest log-weight
  mutable double sum_ = 0.0, log_sum_ = 0.0;
  Token argmax_ = 0;
};

/// A token from (weight * target - draft)+ normalised, at cumulative `u` in [0, 1). If rounding
/// leaves no difference, a token from `target`: the branch has then no mass.
/// @param weight  0 to 1
/// @throws std::invalid_argument  vocabularies of different sizes
Token sample_residual(const Categorical& target, const Categorical& draft, double u,
                      double weight = 1.0);

/// Sum over tokens of (weight * target - draft)+.
/// @throws std::invalid_argument  vocabularies of different sizes
double residual_mass(const Categorical& target, const Categorical& draft, double weight);

/// Probability that a maximal coupling rejects (total variation): 1/2 * sum |target - draft|.
/// @throws std::invalid_argument  vocabularies of different sizes
double total_variation(const Categorical& target, const Categorical& draft);

/// A conditional of the next token. Greedy decoding (temperature 0) makes it a point mass.
using TokenLaw = std::variant<PointMass, Categorical>;

/// The most likely token of [vocab] float32 log-weights, the lowest id among equals.
/// @throws std::invalid_argument  empty, NaN inside, or every token forbidden
Token argmax(std::span<const float> log_weights);

}  // namespace forerun
