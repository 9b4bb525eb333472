#include "forerun/models/dit/dit_config.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace forerun {

void check_dit_config(const DitConfig& c) {
  const auto need = [](bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument("DiT: " + what);
  };
  const auto within = [&](const char* name, std::int64_t value, std::int64_t most) {
    need(value >= 1 && value <= most, fmt::format("{} is {}, expected 1 to {}", name, value, most));
  };
  within("depth", c.depth, 1024);
  within("hidden size", c.hidden, 1 << 16);
  within("heads", c.heads, 1024);
  within("patch size", c.patch, 256);
  within("input size", c.input, 4096);
  within("channels", c.channels, 1024);
  within("classes", c.classes, 1 << 20);
  within("MLP width", c.mlp, 1 << 18);
  need(c.hidden % c.heads == 0,
       fmt::format("hidden size {} is no multiple of {} heads", c.hidden, c.heads));
  need(c.hidden % 4 == 0, fmt::format("hidden size {} is no multiple of 4, which the position "
                                      "embedding needs",
                                      c.hidden));
  need(c.input % c.patch == 0,
       fmt::format("input size {} is no multiple of the patch size {}", c.input, c.patch));
  need(c.tokens() <= 1 << 16, fmt::format("{} patches are too many", c.tokens()));
  need(c.tokens() * c.hidden <= 1 << 24,
       fmt::format("{} patches of {} numbers are too many: at most 2^24 numbers", c.tokens(),
                   c.hidden));
  need(c.time_divisor > 1.0 && c.mlp_norm_eps > 0.0, "time divisor or epsilon out of range");
}

}  // namespace forerun
