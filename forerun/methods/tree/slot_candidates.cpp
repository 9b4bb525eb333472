#include "forerun/methods/tree/slot_candidates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "forerun/core/block_maxima.h"
#include "forerun/core/log_sum_exp.h"

namespace forerun {
namespace {

constexpr std::size_t kBlock = 16;

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
  std::vector<Entry> out;
  each_at_least(logits, maxima, kBlock, least, [&](std::size_t i) {
    out.push_back({logits[i], static_cast<std::int32_t>(i)});
  });
  return out;
}

// Appends the values in [least, below).
void append_between(std::span<const float> logits, float least, float below,
                    std::vector<float>& out) {
  std::size_t n = out.size();
  out.resize(n + logits.size() + 1);
  for (const float x : logits) {  // without branches, which would be taken at random
    out[n] = x;
    n += static_cast<std::size_t>(x >= least && x < below);
  }
  out.resize(n);
}

// Keeps the largest `most` of the entries, ties by index; moves the values of the others.
void keep_largest(std::vector<Entry>& entries, std::size_t most, std::vector<float>& others) {
  if (entries.size() <= most) return;
  const auto end = entries.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(entries.begin(), end, entries.end(), larger);
  for (auto e = end; e != entries.end(); ++e) others.push_back(e->value);
  entries.erase(end, entries.end());
}

// What they weigh together beside the likeliest, at a temperature.
double weight_of(std::vector<float> values, float best, double temperature) {
  if (values.empty()) return 0.0;
  for (float& x : values) x = static_cast<float>(static_cast<double>(x - best) / temperature);
  return std::exp(log_sum_exp(values));
}

// As a logit.
double rest_of(double weight, float best, double temperature) {
  return temperature * std::log(weight) + static_cast<double>(best);
}

float least_of(float best, double temperature, float within) {
  return best - within * static_cast<float>(std::max(1.0, temperature));
}

}  // namespace

SlotCandidates slot_candidates(std::span<const float> logits, double temperature,
                               SlotCandidates::Bounds bounds) {
  const std::vector<float> maxima = block_maxima(logits, kBlock);
  const float best = largest(maxima);
  const float nth = nth_largest(maxima, bounds.most);
  const float least =
      std::max(least_of(best, temperature, bounds.within),
               std::min(least_of(best, temperature, SlotCandidates::kDrafted.within), nth));
  // As many as are kept are at least `nth`; the rest only counts.
  std::vector<Entry> kept = at_least(logits, maxima, std::max(least, nth));
  std::vector<float> others;
  if (nth > least) append_between(logits, least, nth, others);
  keep_largest(kept, bounds.most, others);
  SlotCandidates out;
  for (const Entry& e : kept) {
    out.ids.push_back(e.id);
    out.logits.push_back(e.value);
  }
  out.rest = rest_of(1e-12 + weight_of(std::move(others), best, temperature), best, temperature);
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
  std::vector<float> others;
  keep_largest(kept, SlotCandidates::kDrafted.most, others);
  for (const Entry& e : kept) {
    const auto i = static_cast<std::size_t>(e.id);
    out.ids.push_back(shortlist.ids[i]);
    out.logits.push_back(shortlist.logits[i]);
  }
  const double rest = std::exp((shortlist.rest - static_cast<double>(best)) / temperature);
  out.rest = rest_of(rest + weight_of(std::move(others), best, temperature), best, temperature);
  return out;
}

std::vector<double> log_laws(const SlotCandidates& of, std::span<const float> logits,
                             double temperature) {
  std::vector<double> out;
  if (logits.empty()) return out;
  const double best = static_cast<double>(largest(logits));
  double sum = std::exp((of.rest - best) / temperature);
  for (const float x : logits) sum += std::exp((static_cast<double>(x) - best) / temperature);
  for (const float x : logits) {
    out.push_back((static_cast<double>(x) - best) / temperature - std::log(sum));
  }
  return out;
}

}  // namespace forerun
