#include "forerun/models/candidate_selector.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "forerun/core/likeliest.h"
#include "forerun/models/int8_block.h"
#include "forerun/models/internal/dot.h"

namespace forerun {

CandidateSelector::CandidateSelector(const at::Tensor& predecessors, const at::Tensor& successors,
                                     std::int64_t top_k)
    : predecessors_(plain_values(predecessors)),
      successors_(plain_values(successors)),
      top_k_(static_cast<std::size_t>(top_k)) {}

std::vector<std::int32_t> CandidateSelector::candidates(std::span<const float> logits) const {
  std::vector<Token> out = likeliest(logits, top_k_);
  if (out.size() < top_k_) return {};
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
