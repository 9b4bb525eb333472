#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace forerun {

/// How a model's publisher recommends to draw texts; nothing where the model's files do not say.
struct RecommendedSampling {
  std::optional<double> temperature;   ///< 0: greedy
  std::optional<std::uint32_t> top_k;  ///< 0: all
  std::optional<double> top_p, min_p, repetition_penalty;
  std::optional<std::uint32_t> max_tokens;  ///< of an answer; none() does not look at it
  std::string file;                         ///< the name of the file that says so; "": none does

  bool none() const noexcept {
    return !temperature && !top_k && !top_p && !min_p && !repetition_penalty;
  }
};

}  // namespace forerun
