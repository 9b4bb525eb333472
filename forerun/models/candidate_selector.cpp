#include "forerun/models/candidate_selector.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "forerun/core/block_maxima.h"
#include "forerun/models/int8_block.h"
#include "forerun/models/internal/dot.h"

namespace forerun {

CandidateSelector::CandidateSelector(const at::Tensor& predecessors, const at::Tensor& successors,
                                     std::int64_t top_k)
    : predecessors_(plain_values(predecessors)),
      successors_(plain_values(successors)),
      top_k_(static_cast<std::size_t>(top_k)) {}

std::vector<std::int32_t> CandidateSelector::candidates(std::span<const float> logits) const {
  constexpr std::size_t kBlock = 16;
  const std::vector<float> maxima = block_maxima(logits, kBlock);
  const float least = nth_largest(maxima, top_k_);  // at least so many are as large
  std::vector<std::int32_t> out;
  for (std::size_t block = 0; block < maxima.size(); ++block) {
    if (!(maxima[block] >= least)) continue;
    const std::size_t end = std::min(logits.size(), (block + 1) * kBlock);
    for (std::size_t i = block * kBlock; i < end; ++i) {
      if (logits[i] >= least) out.push_back(static_cast<std::int32_t>(i));
    }
  }
  if (out.size() < top_k_) return {};
  const auto larger = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto end = out.begin() + static_cast<std::ptrdiff_t>(top_k_);
  if (end != out.end()) std::nth_element(out.begin(), end, out.end(), larger);
  out.erase(end, out.end());
  std::sort(out.begin(), out.end());
  return out;
}

void CandidateSelector::add(Token previous, std::span<const float> state,
                            std::span<const std::int32_t> ids, std::span<float> add) const {
  const std::size_t rank = state.size();
  const float* from =
      predecessors_.const_data_ptr<float>() + static_cast<std::size_t>(previous) * rank;
  thread_local std::vector<float> context;
  context.assign(state.begin(), state.end());
  for (std::size_t i = 0; i < rank; ++i) context[i] *= from[i];
  const float* to = successors_.const_data_ptr<float>();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    add[i] += internal::dot(context, to + static_cast<std::size_t>(ids[i]) * rank);
  }
}

void CandidateSelector::select(Token previous, std::span<const float> state,
                               std::span<float> logits) const {
  const std::vector<std::int32_t> ids = candidates(logits);
  if (ids.empty()) return;
  std::vector<float> scores;
  for (const std::int32_t id : ids) scores.push_back(logits[static_cast<std::size_t>(id)]);
  add(previous, state, ids, scores);
  std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    logits[static_cast<std::size_t>(ids[i])] = scores[i];
  }
}

}  // namespace forerun
