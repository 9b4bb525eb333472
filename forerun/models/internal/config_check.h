#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "forerun/models/decoder_config.h"

namespace forerun::internal {

/// What is wrong with the sizes of a config read from a file, if anything; bounds keep later
/// products far from overflow.
inline std::optional<std::string> check_sizes(const DecoderConfig& c) {
  constexpr std::int64_t kMost = 1 << 24;
  for (const std::int64_t n :
       {c.vocab, c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.intermediate, c.context}) {
    if (n <= 0 || n > kMost) {
      return fmt::format(
          "sizes are out of range: vocabulary {}, hidden {}, layers {}, heads {}, key heads {}, "
          "head dimension {}, intermediate {}, context {}",
          c.vocab, c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.intermediate, c.context);
    }
  }
  if (c.layers > 1000)
    return fmt::format("{} layers are more than this engine accepts (1000)", c.layers);
  if (c.heads % c.kv_heads != 0) {
    return fmt::format("{} query heads cannot share {} key heads evenly", c.heads, c.kv_heads);
  }
  if (c.head_dim % 2 != 0) return fmt::format("head dimension {} is odd", c.head_dim);
  if (!(c.norm_eps > 0.0 && c.norm_eps < 1.0)) return "the norm's epsilon is out of range";
  return std::nullopt;
}

}  // namespace forerun::internal
