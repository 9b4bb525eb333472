#include "forerun/engine/token_output.h"

#include <algorithm>
#include <vector>

#include "forerun/core/log_sum_exp.h"

namespace forerun {

TokenOutput token_output(RequestId id, Token token, std::span<const float> logits,
                         std::size_t count) {
  const double all = log_sum_exp(logits);
  const auto log_probability = [&](Token t) {
    return static_cast<double>(logits[static_cast<std::size_t>(t)]) - all;
  };
  TokenOutput out{.id = id, .token = token, .log_probability = log_probability(token), .top = {}};
  if (count == 0) return out;
  std::vector<Token> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Token>(i);
  const auto n = static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](Token a, Token b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    out.top.emplace_back(order[static_cast<std::size_t>(i)],
                         log_probability(order[static_cast<std::size_t>(i)]));
  }
  return out;
}

}  // namespace forerun
