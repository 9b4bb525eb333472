#include "forerun/engine/token_output.h"

#include "forerun/core/likeliest.h"
#include "forerun/core/log_sum_exp.h"

namespace forerun {

TokenOutput token_output(RequestId id, Token token, std::span<const float> logits,
                         std::size_t count) {
  const double all = log_sum_exp(logits);
  const auto log_probability = [&](Token t) {
    return static_cast<double>(logits[static_cast<std::size_t>(t)]) - all;
  };
  TokenOutput out{.id = id, .token = token, .log_probability = log_probability(token), .top = {}};
  for (const Token likely : likeliest(logits, count)) {
    out.top.emplace_back(likely, log_probability(likely));
  }
  return out;
}

}  // namespace forerun
