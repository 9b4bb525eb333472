#include "forerun/models/dit/dit_rows.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "forerun/models/ddpm_schedule.h"

namespace forerun {

at::Tensor guided(const at::Tensor& halves, const Guidance& g) {
  at::Tensor with = halves[0];
  if (!g.on()) return with;
  at::Tensor stretched = halves[1] + (with - halves[1]) * g.scale;
  const std::int64_t channels = with.size(0);
  if (g.channels == 0 || g.channels == channels) return stretched;
  return at::cat(
      {stretched.narrow(0, 0, g.channels), with.narrow(0, g.channels, channels - g.channels)});
}

void check_rows(const DitConfig& c, const DitRows& rows) {
  const at::IntArrayRef s = rows.states.sizes();
  const auto n = static_cast<std::size_t>(s.empty() ? 0 : s[0]);
  if (s.size() != 4 || s[1] != c.channels || s[2] != c.input || s[3] != c.input ||
      rows.times.size() != n || rows.labels.size() != n) {
    throw std::invalid_argument(fmt::format(
        "DiT: states of [{}], {} times, {} labels; expected [rows, {}, {}, {}] and one of each",
        fmt::join(s, ", "), rows.times.size(), rows.labels.size(), c.channels, c.input, c.input));
  }
  const auto outside = [](std::span<const std::int64_t> x, std::int64_t most) {
    return std::ranges::any_of(x, [&](std::int64_t v) { return v < 0 || v > most; });
  };
  if (outside(rows.labels, c.classes)) {
    throw std::invalid_argument(fmt::format("DiT: labels run from 0 to {}, and {} stands for none",
                                            c.classes - 1, c.classes));
  }
  if (outside(rows.times, DdpmSchedule::kTrained - 1)) {
    throw std::invalid_argument(
        fmt::format("DiT: times run from 0 to {}", DdpmSchedule::kTrained - 1));
  }
}

}  // namespace forerun
