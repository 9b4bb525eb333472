#include "forerun/models/markov_head.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <array>
#include <numeric>

namespace forerun {

void MarkovHead::add(Token previous, std::span<float> logits) const {
  const c10::InferenceMode no_autograd;
  at::from_blob(logits.data(), {w2.size(0)}, at::kFloat).add_(at::mv(w2, w1[previous]));
}

void MarkovHead::add(Token previous, std::span<const std::int32_t> ids,
                     std::span<float> add) const {
  const std::int64_t rank = w1.size(1);
  const float* from = w1.const_data_ptr<float>() + previous * rank;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const float* to = w2.const_data_ptr<float>() + ids[i] * rank;
    // Sums side by side, so that the loop vectorises.
    std::array<float, 16> sums{};
    std::int64_t r = 0;
    for (; r + 16 <= rank; r += 16) {
      for (std::size_t j = 0; j < sums.size(); ++j)
        sums[j] += from[r + static_cast<std::int64_t>(j)] * to[r + static_cast<std::int64_t>(j)];
    }
    for (; r < rank; ++r) sums[0] += from[r] * to[r];
    add[i] += std::accumulate(sums.begin(), sums.end(), 0.0F);
  }
}

}  // namespace forerun
