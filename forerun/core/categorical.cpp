#include "forerun/core/categorical.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "forerun/core/internal/exp.h"
#include "forerun/core/internal/vocabulary_loops.h"

namespace forerun {
namespace {

using internal::exp_nonpositive;
using internal::Scaled;
constexpr float kNegInf = -std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 512;

double mass(std::span<const float> w, double max) noexcept {
  return internal::exp_sum(w.data(), w.size(), max);
}

double excess(const Scaled& p, const Scaled& q, std::size_t i) noexcept {
  return internal::excess_sum(p, q, i, i + 1);
}

// The index at which the running sum of weight(i) passes `goal`: block_mass(begin, end) skips whole
// blocks, then the crossing block is scanned. If rounding moves the scan past the end, the result
// is the last index of positive weight.
template <class BlockMass, class Weight>
Token crossing(std::size_t n, double goal, BlockMass block_mass, Weight weight) {
  std::size_t begin = 0;
  for (; begin < n; begin += kBlock) {
    const double m = block_mass(begin, std::min(n, begin + kBlock));
    if (m > goal) break;
    goal -= m;
  }
  const std::size_t end = std::min(n, begin + kBlock);
  for (std::size_t i = begin; i < end; ++i) {
    const double w = weight(i);
    goal -= w;
    if (goal < 0.0 && w > 0.0) return static_cast<Token>(i);
  }
  std::size_t i = end;
  while (i > 0 && !(weight(i - 1) > 0.0)) --i;
  return static_cast<Token>(i) - 1;
}

void check_sizes(const Categorical& target, const Categorical& draft) {
  if (target.size() == draft.size()) return;
  throw std::invalid_argument("couple: target and draft have different vocabularies (" +
                              std::to_string(target.size()) + " and " +
                              std::to_string(draft.size()) +
                              " tokens); cut or pad the draft's logits to the target's");
}

}  // namespace

Token argmax(std::span<const float> w) {
  const auto [best, nan] = internal::largest(w.data(), w.size());
  if (nan) {
    throw std::invalid_argument(
        "logits hold NaN: the weights or a kernel are broken; try --precision f32, or check the "
        "file");
  }
  if (best == kNegInf || best == -kNegInf) {
    throw std::invalid_argument(
        "logits hold no finite largest value: nothing can be drawn from them");
  }
  return static_cast<Token>(std::find(w.begin(), w.end(), best) - w.begin());
}

Categorical::Categorical(std::span<const float> log_weights)
    : log_weights_(log_weights), argmax_(forerun::argmax(log_weights)) {
  max_ = static_cast<double>(log_weights[static_cast<std::size_t>(argmax_)]);
}

void Categorical::take_sum() const noexcept {
  sum_ = mass(log_weights_, max_);
  log_sum_ = std::log(sum_);
}

double Categorical::prob(Token t) const noexcept { return std::exp(log_prob(t)); }

double Categorical::entropy() const noexcept {
  double weighted = 0.0;
  const std::size_t n = log_weights_.size();
  for (std::size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(log_weights_[i]) - max_;
    const double e = exp_nonpositive(x);
    if (e > 0.0) weighted += e * x;
  }
  return log_sum() - weighted / sum();
}

Token Categorical::sample(double u) const noexcept {
  const auto weight = [this](std::size_t i) {
    return exp_nonpositive(static_cast<double>(log_weights_[i]) - max_);
  };
  const auto block = [this](std::size_t begin, std::size_t end) {
    return mass(log_weights_.subspan(begin, end - begin), max_);
  };
  return crossing(size(), u * sum(), block, weight);
}

double residual_mass(const Categorical& target, const Categorical& draft, double weight) {
  check_sizes(target, draft);
  const Scaled p{target.log_weights_.data(), target.max_, weight / target.sum()};
  const Scaled q{draft.log_weights_.data(), draft.max_, 1.0 / draft.sum()};
  return internal::excess_sum(p, q, 0, target.size());
}

Token sample_residual(const Categorical& target, const Categorical& draft, double u,
                      double weight) {
  check_sizes(target, draft);
  const Scaled p{target.log_weights_.data(), target.max_, weight / target.sum()};
  const Scaled q{draft.log_weights_.data(), draft.max_, 1.0 / draft.sum()};
  const auto excess_at = [&](std::size_t i) { return excess(p, q, i); };
  const auto block = [&](std::size_t begin, std::size_t end) {
    return internal::excess_sum(p, q, begin, end);
  };
  double total = 0.0;
  for (std::size_t b = 0; b < target.size(); b += kBlock) {
    total += block(b, std::min(target.size(), b + kBlock));
  }
  // The difference of equal laws is rounding noise.
  if (!(total > 1e-15)) return target.sample(u);
  return crossing(target.size(), u * total, block, excess_at);
}

double total_variation(const Categorical& target, const Categorical& draft) {
  check_sizes(target, draft);
  double sum = 0.0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto t = static_cast<Token>(i);
    sum += std::abs(target.prob(t) - draft.prob(t));
  }
  return 0.5 * sum;
}

}  // namespace forerun
