#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/categorical.h"
#include "forerun/core/rng_key.h"

namespace forerun::support {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

/// A categorical law together with the weights it views. Movable: the weights stay on the heap.
class OwnedLaw {
 public:
  explicit OwnedLaw(std::vector<float> log_weights)
      : weights_(std::move(log_weights)), law_(weights_) {}
  OwnedLaw(const OwnedLaw&) = delete;
  OwnedLaw& operator=(const OwnedLaw&) = delete;
  OwnedLaw(OwnedLaw&&) noexcept = default;
  OwnedLaw& operator=(OwnedLaw&&) noexcept = default;

  const Categorical& law() const noexcept { return law_; }
  operator const Categorical&() const noexcept { return law_; }
  std::size_t size() const noexcept { return weights_.size(); }

 private:
  std::vector<float> weights_;
  Categorical law_;
};

inline std::vector<float> log_weights_of(std::span<const double> probabilities) {
  std::vector<float> w;
  for (const double p : probabilities) {
    w.push_back(p > 0.0 ? static_cast<float>(std::log(p)) : kForbidden);
  }
  return w;
}

inline OwnedLaw law_of(std::vector<double> probabilities) {
  return OwnedLaw(log_weights_of(probabilities));
}

/// Normal log-weights of standard deviation `spread`.
inline std::vector<float> random_weights(std::uint64_t seed, std::size_t vocab, float spread) {
  std::vector<float> w(vocab);
  RngKey{.seed = seed}.fill_normal(Purpose::kDraft, w);
  for (float& x : w) x *= spread;
  return w;
}

inline OwnedLaw random_law(std::uint64_t seed, std::size_t vocab, float spread = 1.0F) {
  return OwnedLaw(random_weights(seed, vocab, spread));
}

/// [vocab] probabilities straight from the definition, in long double.
inline std::vector<double> exact_probabilities(std::span<const float> log_weights) {
  long double max = log_weights[0];
  for (const float w : log_weights) max = std::max(max, static_cast<long double>(w));
  long double sum = 0.0L;
  for (const float w : log_weights) sum += std::exp(static_cast<long double>(w) - max);
  std::vector<double> p;
  for (const float w : log_weights) {
    p.push_back(static_cast<double>(std::exp(static_cast<long double>(w) - max) / sum));
  }
  return p;
}

inline std::vector<double> exact_probabilities(const Categorical& law) {
  return exact_probabilities(law.log_weights());
}

/// The law of `tries` calls of `draw(i)`, as counts.
template <class Draw>
std::vector<std::size_t> counts_of(std::size_t cells, std::uint32_t tries, Draw draw) {
  std::vector<std::size_t> counts(cells, 0);
  for (std::uint32_t i = 0; i < tries; ++i) ++counts.at(static_cast<std::size_t>(draw(i)));
  return counts;
}

/// Five standard errors of a frequency of expectation `p`: exceeded by chance below 1e-6.
inline double five_sigma(double p, double n) { return 5.0 * std::sqrt(p * (1.0 - p) / n); }

}  // namespace forerun::support
