#include "forerun/methods/tree/slot_candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace forerun {
namespace {

constexpr std::size_t kPiece = 32;

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

// Keeps the largest `most` of the indices, ties by index. @return  what the others weigh
double keep_largest(std::vector<std::int32_t>& ids, std::span<const float> logits, float best,
                    std::size_t most) {
  double rest = 0.0;
  if (ids.size() <= most) return rest;
  const auto value = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(ids.begin(), end, ids.end(), [&](std::int32_t a, std::int32_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  });
  for (auto id = end; id != ids.end(); ++id) {
    rest += std::exp(static_cast<double>(value(*id) - best));
  }
  ids.erase(end, ids.end());
  return rest;
}

// As many values are at least as large; minus infinity if there are fewer.
float nth_largest(std::vector<float> x, std::size_t n) {
  if (n > x.size()) return -std::numeric_limits<float>::infinity();
  const auto at = x.begin() + static_cast<std::ptrdiff_t>(n) - 1;
  std::nth_element(x.begin(), at, x.end(), std::greater<>());
  return *at;
}

float least_of(float best, double temperature, float within) {
  return best - within * static_cast<float>(std::max(1.0, temperature));
}

}  // namespace

SlotCandidates slot_candidates(std::span<const float> logits, double temperature,
                               SlotCandidates::Bounds bounds) {
  std::vector<float> maxima;
  maxima.reserve(logits.size() / kPiece + 1);
  for (std::size_t i = 0; i < logits.size(); i += kPiece) {
    maxima.push_back(largest(logits.subspan(i, std::min(kPiece, logits.size() - i))));
  }
  const float best = largest(maxima);
  const float least =
      std::max(least_of(best, temperature, bounds.within),
               std::min(least_of(best, temperature, SlotCandidates::kDrafted.within),
                        nth_largest(maxima, bounds.most)));
  SlotCandidates out{.ids = at_least(logits, maxima, least)};
  const double rest = 1e-12 + keep_largest(out.ids, logits, best, bounds.most);
  for (const std::int32_t id : out.ids) out.logits.push_back(logits[static_cast<std::size_t>(id)]);
  out.rest = std::log(rest) + static_cast<double>(best);
  return out;
}

SlotCandidates slot_candidates(const SlotCandidates& shortlist, std::span<const float> logits,
                               double temperature) {
  SlotCandidates out;
  if (logits.empty()) return out;
  const float best = *std::max_element(logits.begin(), logits.end());
  const float least = least_of(best, temperature, SlotCandidates::kDrafted.within);
  std::vector<std::int32_t> kept;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) kept.push_back(static_cast<std::int32_t>(i));
  }
  const double rest = std::exp(shortlist.rest - static_cast<double>(best)) +
                      keep_largest(kept, logits, best, SlotCandidates::kDrafted.most);
  for (const std::int32_t i : kept) {
    out.ids.push_back(shortlist.ids[static_cast<std::size_t>(i)]);
    out.logits.push_back(shortlist.logits[static_cast<std::size_t>(i)]);
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
