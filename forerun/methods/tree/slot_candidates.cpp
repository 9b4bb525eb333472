#include "forerun/methods/tree/slot_candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace forerun {
namespace {

constexpr std::size_t kPiece = 128;

// Several maxima side by side, so that the loop vectorises.
float largest(std::span<const float> x) {
  std::array<float, 16> most;
  most.fill(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + most.size() <= x.size(); i += most.size()) {
    for (std::size_t j = 0; j < most.size(); ++j) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
  }
  float out = *std::max_element(most.begin(), most.end());
  for (; i < x.size(); ++i) out = std::max(out, x[i]);
  return out;
}

// Tokens that are at least as likely, in order. Most pieces of a row hold none, and one comparison
// with their maximum tells.
std::vector<std::int32_t> at_least(std::span<const float> logits, std::span<const float> maxima,
                                   float least) {
  std::vector<std::int32_t> ids;
  for (std::size_t piece = 0; piece < maxima.size(); ++piece) {
    if (!(maxima[piece] >= least)) continue;
    const std::size_t end = std::min(logits.size(), (piece + 1) * kPiece);
    for (std::size_t i = piece * kPiece; i < end; ++i) {
      if (logits[i] >= least) ids.push_back(static_cast<std::int32_t>(i));
    }
  }
  return ids;
}

}  // namespace

SlotCandidates slot_candidates(std::span<const float> logits, double temperature) {
  std::vector<float> maxima;
  maxima.reserve(logits.size() / kPiece + 1);
  for (std::size_t i = 0; i < logits.size(); i += kPiece) {
    maxima.push_back(largest(logits.subspan(i, std::min(kPiece, logits.size() - i))));
  }
  const float best = largest(maxima);
  const float least =
      best - SlotCandidates::kWithin * static_cast<float>(std::max(1.0, temperature));
  SlotCandidates out{.ids = at_least(logits, maxima, least)};
  const auto weight = [&](std::int32_t id) {
    return std::exp(static_cast<double>(logits[static_cast<std::size_t>(id)] - best));
  };
  double rest = 1e-12;  // of those too small to matter
  if (out.ids.size() > SlotCandidates::kMost) {
    std::nth_element(out.ids.begin(), out.ids.begin() + SlotCandidates::kMost, out.ids.end(),
                     [&](std::int32_t a, std::int32_t b) {
                       const auto x = logits[static_cast<std::size_t>(a)],
                                  y = logits[static_cast<std::size_t>(b)];
                       return x != y ? x > y : a < b;
                     });
    for (std::size_t i = SlotCandidates::kMost; i < out.ids.size(); ++i) rest += weight(out.ids[i]);
    out.ids.resize(SlotCandidates::kMost);
  }
  out.rest = std::log(rest) + static_cast<double>(best);
  return out;
}

std::vector<double> log_laws(const SlotCandidates& of, std::span<const float> logits,
                             double temperature) {
  std::vector<double> out;
  if (logits.empty()) return out;
  const double best = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = std::exp((of.rest - best) / temperature);
  for (const float x : logits) sum += std::exp((static_cast<double>(x) - best) / temperature);
  for (const float x : logits) {
    out.push_back((static_cast<double>(x) - best) / temperature - std::log(sum));
  }
  return out;
}

}  // namespace forerun
