#include "forerun/core/apply_sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "forerun/core/internal/vocabulary_loops.h"
#include "forerun/core/sampling_params.h"

namespace forerun {
namespace {

constexpr double kLeastTopP = 1e-9;  // for 0: the likeliest token alone, and ties

constexpr float kRemoved = -std::numeric_limits<float>::infinity();

void forbid_below_(std::span<float> w, float threshold) {
  for (float& x : w) x = x < threshold ? kRemoved : x;
}

void keep_top_k_(std::span<float> w, std::size_t k) {
  if (k >= w.size()) return;
  std::vector<float> copy(w.begin(), w.end());
  std::nth_element(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(k - 1), copy.end(),
                   std::greater<>());
  forbid_below_(w, copy[k - 1]);
}

// Log-weights of the likeliest tokens, down to `depth` nats below the first.
std::vector<float> head_of(const Categorical& law, float depth) {
  const float floor = law.log_weights()[static_cast<std::size_t>(law.argmax())] - depth;
  std::vector<float> head;
  for (const float x : law.log_weights()) {
    if (x >= floor && x != kRemoved) head.push_back(x);
  }
  return head;
}

// The log-weight at which the probabilities of `head`, sorted, reach top_p; -inf if they do not.
float edge_within(std::vector<float> head, const Categorical& law, double top_p) {
  std::sort(head.begin(), head.end(), std::greater<>());
  const double best = head.front();
  const double p_best = law.prob(law.argmax());
  double reached = 0.0;
  for (const float w : head) {
    reached += p_best * std::exp(static_cast<double>(w) - best);
    if (reached >= top_p) return w;
  }
  return kRemoved;
}

// The log-weight of the last token of the nucleus. Nuclei are usually small, so increasing heads
// are tried; the whole vocabulary is sorted only if needed.
float nucleus_edge(const Categorical& law, double top_p) {
  for (const float depth : {4.0F, 8.0F, 16.0F}) {
    const float edge = edge_within(head_of(law, depth), law, top_p);
    if (edge != kRemoved) return edge;
  }
  return edge_within(head_of(law, std::numeric_limits<float>::infinity()), law, top_p);
}

}  // namespace

void SamplingParams::check() const {
  if (!(temperature >= 0.0) || std::isinf(temperature)) {
    throw std::invalid_argument("temperature must be a finite number >= 0 (0 = greedy)");
  }
  if (!(top_p >= 0.0 && top_p <= 1.0)) throw std::invalid_argument("top-p must lie in [0, 1]");
  if (!(min_p >= 0.0 && min_p <= 1.0)) throw std::invalid_argument("min-p must lie in [0, 1]");
}

TokenLaw apply_sampling_(std::span<float> logits, const SamplingParams& sampling) {
  sampling.check();
  const Token best = argmax(logits);  // rejects NaN before sorting
  if (sampling.greedy()) return PointMass{best};
  if (sampling.temperature != 1.0) {
    // Shifted by the maximum first, so that a tiny temperature does not overflow to +inf; in
    // double, so that a huge one does not round the factor to 0 and make 0 * -inf of a forbidden
    // token.
    const float max = logits[static_cast<std::size_t>(best)];
    const double inverse = 1.0 / sampling.temperature;
    internal::scale_logits(logits.data(), logits.size(), max, inverse);  // NaN, 0 * inf, is 0
  }
  if (sampling.top_k > 0) keep_top_k_(logits, sampling.top_k);
  if (sampling.top_p < 1.0)
    forbid_below_(logits, nucleus_edge(Categorical(logits), std::max(sampling.top_p, kLeastTopP)));
  if (sampling.min_p > 0.0) {
    const float max = logits[static_cast<std::size_t>(argmax(logits))];
    forbid_below_(logits, max + static_cast<float>(std::log(sampling.min_p)));
  }
  return Categorical(logits);
}

}  // namespace forerun
