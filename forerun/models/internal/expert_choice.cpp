#include "forerun/models/internal/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace forerun::internal {
namespace {

// The places of the largest values, of which there are at least as many as `out` takes; of equal
// ones the first. NaN is larger than nothing.
void find_largest(std::span<const float> values, std::span<std::int32_t> out) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t at = kept;
    while (at > 0 && values[i] > values[static_cast<std::size_t>(out[at - 1])]) --at;
    if (at == out.size()) continue;
    kept = std::min(kept + 1, out.size());
    std::copy_backward(out.begin() + static_cast<std::ptrdiff_t>(at),
                       out.begin() + static_cast<std::ptrdiff_t>(kept - 1),
                       out.begin() + static_cast<std::ptrdiff_t>(kept));
    out[at] = static_cast<std::int32_t>(i);
  }
}

}  // namespace

void ExpertChoice::start(std::int64_t rows) {
  if (decides_by_scores()) return;
  const auto n = static_cast<std::size_t>(rows);
  choices_.room_for(n * static_cast<std::size_t>(c_.experts));
  sums_.room_for(n * static_cast<std::size_t>(c_.routing.groups));
  groups_.resize(n * static_cast<std::size_t>(c_.routing.groups_used));
}

void ExpertChoice::choose(std::int64_t row, std::span<float> logits,
                          std::span<const float> correction, std::span<std::int32_t> chosen,
                          std::span<float> shares) {
  const bool sigmoid = c_.routing.sigmoid;
  const float most = *std::max_element(logits.begin(), logits.end());
  float sum = 0.0F;
  for (float& x : logits) {  // NaN, if one is
    x = sigmoid ? 1.0F / (1.0F + std::exp(-x)) : std::exp(x - most);
    sum += x;
  }
  find_largest(choice(row, logits, correction), chosen);
  float used = 0.0F;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    shares[i] = logits[static_cast<std::size_t>(chosen[i])];
    used += shares[i];
  }
  constexpr auto kNoZero = static_cast<float>(ExpertRouting::kNoZero);
  const float all = sigmoid ? 1.0F : sum, own = sigmoid ? used + kNoZero : used;
  for (float& share : shares) share /= c_.norm_topk_prob ? own : all;
  if (c_.routing.scale == 1.0) return;
  for (float& share : shares) share *= static_cast<float>(c_.routing.scale);
}

// What decides: the scores, corrected, of likely groups alone.
std::span<const float> ExpertChoice::choice(std::int64_t row, std::span<const float> scores,
                                            std::span<const float> correction) {
  if (decides_by_scores()) return scores;
  const std::span<float> out(choices_.data() + row * c_.experts, scores.size());
  std::copy(scores.begin(), scores.end(), out.begin());
  std::transform(correction.begin(), correction.end(), out.begin(), out.begin(), std::plus<>());
  if (c_.routing.groups > 1) keep_likely_groups(row, out);
  return out;
}

// Source: DeepSeek-V3, arXiv:2412.19437; transformers' modeling_glm4_moe.py.
void ExpertChoice::keep_likely_groups(std::int64_t row, std::span<float> choice) {
  const auto groups = static_cast<std::size_t>(c_.routing.groups);
  const auto used = static_cast<std::size_t>(c_.routing.groups_used);
  const auto at = static_cast<std::size_t>(row);
  const std::size_t each = choice.size() / groups;
  const std::span<float> sums(sums_.data() + at * groups, groups);
  for (std::size_t g = 0; g < groups; ++g) {
    const std::span<const float> own = choice.subspan(g * each, each);
    std::int32_t two[2] = {};
    find_largest(own, two);
    sums[g] = own[static_cast<std::size_t>(two[0])] + own[static_cast<std::size_t>(two[1])];
  }
  const std::span<std::int32_t> likely = std::span(groups_).subspan(at * used, used);
  find_largest(sums, likely);
  for (std::size_t g = 0; g < groups; ++g) {
    if (std::find(likely.begin(), likely.end(), static_cast<std::int32_t>(g)) != likely.end()) {
      continue;
    }
    std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(g * each), each,
                -std::numeric_limits<float>::infinity());
  }
}

}  // namespace forerun::internal
