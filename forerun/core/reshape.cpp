#include "forerun/core/reshape.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

namespace forerun {
namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

void forbid_below_(std::span<float> w, float threshold) {
  for (float& x : w) x = x < threshold ? kNegInf : x;
}

void keep_top_k_(std::span<float> w, std::size_t k) {
  if (k >= w.size()) return;
  std::vector<float> copy(w.begin(), w.end());
  std::nth_element(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(k - 1), copy.end(),
                   std::greater<>());
  forbid_below_(w, copy[k - 1]);
}

// The log-weight of the last token of the nucleus. Nuclei are small, so only as much of the head as
// needed is sorted: 64 tokens, then eight times as many, and so on.
float nucleus_edge(const Categorical& law, double top_p) {
  std::vector<float> w;
  for (const float x : law.log_weights()) {
    if (x != kNegInf) w.push_back(x);
  }
  const double best = law.log_weights()[static_cast<std::size_t>(law.argmax())];
  const double p_best = law.prob(law.argmax());
  double reached = 0.0;
  std::size_t sorted = 0;
  for (std::size_t head = 64; sorted < w.size(); head *= 8) {
    const std::size_t end = std::min(head, w.size());
    std::partial_sort(w.begin() + static_cast<std::ptrdiff_t>(sorted),
                      w.begin() + static_cast<std::ptrdiff_t>(end), w.end(), std::greater<>());
    for (; sorted < end; ++sorted) {
      reached += p_best * std::exp(static_cast<double>(w[sorted]) - best);
      if (reached >= top_p) return w[sorted];
    }
  }
  return kNegInf;
}

}  // namespace

void Reshape::check() const {
  if (!(temperature >= 0.0) || std::isinf(temperature)) {
    throw std::invalid_argument("temperature must be a finite number >= 0 (0 = greedy)");
  }
  if (!(top_p > 0.0 && top_p <= 1.0)) throw std::invalid_argument("top-p must lie in (0, 1]");
  if (!(min_p >= 0.0 && min_p <= 1.0)) throw std::invalid_argument("min-p must lie in [0, 1]");
}

TokenLaw reshape_(std::span<float> logits, const Reshape& reshape) {
  if (reshape.greedy()) return PointMass{argmax(logits)};
  if (reshape.temperature != 1.0) {
    // Shifted by the maximum first, so that a tiny temperature cannot overflow to +inf.
    const float max = logits[static_cast<std::size_t>(argmax(logits))];
    const auto inverse = static_cast<float>(1.0 / reshape.temperature);
    for (float& x : logits) x = (x - max) * inverse;
    // 0 * inf, at temperatures below 1e-38
    for (float& x : logits) x = x != x ? 0.0F : x;
  }
  if (reshape.top_k > 0) keep_top_k_(logits, reshape.top_k);
  if (reshape.top_p < 1.0) forbid_below_(logits, nucleus_edge(Categorical(logits), reshape.top_p));
  if (reshape.min_p > 0.0) {
    const float max = logits[static_cast<std::size_t>(argmax(logits))];
    forbid_below_(logits, max + static_cast<float>(std::log(reshape.min_p)));
  }
  return Categorical(logits);
}

}  // namespace forerun
