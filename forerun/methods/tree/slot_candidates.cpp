#include "forerun/methods/tree/slot_candidates.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "forerun/core/block_maxima.h"
#include "forerun/core/log_sum_exp.h"

namespace forerun {
namespace {

constexpr std::size_t kBlock = kWeighedBlock;

struct Entry {  // values beside their indices: partitioning reads nothing else
  float value;
  std::int32_t id;
};

bool larger(const Entry& a, const Entry& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

// The values that are at least as large.
std::vector<Entry> at_least(std::span<const float> logits, std::span<const float> maxima,
                            float least) {
  const auto blocks =
      std::count_if(maxima.begin(), maxima.end(), [&](float m) { return m >= least; });
  const auto room =
      std::make_unique_for_overwrite<Entry[]>(static_cast<std::size_t>(blocks) * kBlock + 1);
  std::size_t n = 0;
  for (std::size_t b = 0; b < maxima.size(); ++b) {
    if (!(maxima[b] >= least)) continue;
    const std::size_t end = std::min(logits.size(), (b + 1) * kBlock);
    for (std::size_t i = b * kBlock; i < end; ++i) {
      room[n] = {logits[i], static_cast<std::int32_t>(i)};
      n += static_cast<std::size_t>(logits[i] >= least);  // a branch would be taken at random
    }
  }
  return {room.get(), room.get() + n};
}

// A value that `most` of the row's reach and few others. Of a short row most blocks have one of the
// largest values and their maxima exclude little: then it is cut into more pieces than blocks.
float near_nth_value(std::span<const float> logits, std::span<const float> maxima, float best,
                     float range, std::size_t most) {
  const std::size_t pieces = 4 * most;
  if (maxima.size() >= pieces || logits.size() < 2 * pieces) {
    return near_nth_largest(maxima, best, range, most);
  }
  return near_nth_largest(strided_maxima(logits, pieces), best, range, most);
}

// Keeps the largest `most` of the entries, ties by index.
// @return  what the others weigh beside the likeliest, at a temperature
double keep_largest(std::vector<Entry>& entries, std::size_t most, float best, double temperature) {
  if (entries.size() <= most) return 0.0;
  const auto end = entries.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(entries.begin(), end, entries.end(), larger);
  std::vector<float> others;
  others.reserve(entries.size() - most);
  for (auto e = end; e != entries.end(); ++e) {
    others.push_back(static_cast<float>(static_cast<double>(e->value - best) / temperature));
  }
  entries.erase(end, entries.end());
  return std::exp(log_sum_exp(others));
}

// As a logit.
double rest_of(double weight, float best, double temperature) {
  return temperature * std::log(weight) + static_cast<double>(best);
}

float least_of(float best, double temperature, float within) {
  return best - within * static_cast<float>(std::max(1.0, temperature));
}

// each(how far a candidate is behind the likeliest, its weight beside it), in nats and in order.
// @return  the weight of all tokens
template <class Each>
double weigh_candidates(const SlotCandidates& of, std::span<const float> logits, double temperature,
                        const Each& each) {
  if (logits.empty()) return 1.0;
  const auto best = static_cast<double>(largest(logits));
  double sum = std::exp((of.rest - best) / temperature);
  for (const float x : logits) {
    const double behind = (static_cast<double>(x) - best) / temperature, weight = std::exp(behind);
    each(behind, weight);
    sum += weight;
  }
  return sum;
}

}  // namespace

SlotCandidates slot_candidates(std::span<const float> logits, double temperature,
                               SlotCandidates::Bounds bounds) {
  const std::vector<float> maxima = block_maxima(logits, kBlock);
  const float best = largest(maxima);
  SlotCandidates out;
  if (!std::isfinite(best)) return out;
  const float drafted = least_of(best, temperature, SlotCandidates::kDrafted.within);
  const float furthest = std::min(drafted, least_of(best, temperature, bounds.within));
  // As many as are kept are at least this; the rest only counts.
  const float nth = near_nth_value(logits, maxima, best, best - furthest, bounds.most);
  const float least = std::max(furthest, std::min(drafted, nth));
  std::vector<Entry> kept = at_least(logits, maxima, std::max(least, nth));
  double others = keep_largest(kept, bounds.most, best, temperature);
  if (nth > least) {
    others +=
        weight_between(logits, maxima, best, static_cast<float>(1.0 / temperature), least, nth);
  }
  for (const Entry& e : kept) {
    out.ids.push_back(e.id);
    out.logits.push_back(e.value);
  }
  out.rest = rest_of(1e-12 + others, best, temperature);
  return out;
}

SlotCandidates slot_candidates(const SlotCandidates& shortlist, std::span<const float> logits,
                               double temperature) {
  SlotCandidates out;
  if (logits.empty()) return out;
  const float best = largest(logits);
  const float least = least_of(best, temperature, SlotCandidates::kDrafted.within);
  std::vector<Entry> kept;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) kept.push_back({logits[i], static_cast<std::int32_t>(i)});
  }
  const double others = keep_largest(kept, SlotCandidates::kDrafted.most, best, temperature);
  for (const Entry& e : kept) {
    const auto i = static_cast<std::size_t>(e.id);
    out.ids.push_back(shortlist.ids[i]);
    out.logits.push_back(shortlist.logits[i]);
  }
  const double rest = std::exp((shortlist.rest - static_cast<double>(best)) / temperature);
  out.rest = rest_of(rest + others, best, temperature);
  return out;
}

std::vector<double> laws(const SlotCandidates& of, std::span<const float> logits,
                         double temperature) {
  std::vector<double> out;
  out.reserve(logits.size());
  const double sum = weigh_candidates(of, logits, temperature,
                                      [&](double, double weight) { out.push_back(weight); });
  for (double& p : out) p /= sum;
  return out;
}

std::vector<double> log_laws(const SlotCandidates& of, std::span<const float> logits,
                             double temperature) {
  std::vector<double> out;
  out.reserve(logits.size());
  const double log_sum = std::log(weigh_candidates(
      of, logits, temperature, [&](double behind, double) { out.push_back(behind); }));
  for (double& p : out) p -= log_sum;
  return out;
}

}  // namespace forerun
