#include "forerun/models/mar/mar_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace forerun {
namespace {

void check(bool holds, const std::string& otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

bool is_order(const std::vector<std::int64_t>& order, std::int64_t tokens) {
  if (static_cast<std::int64_t>(order.size()) != tokens) return false;
  std::vector<bool> seen(order.size());
  for (const std::int64_t place : order) {
    if (place < 0 || place >= tokens || seen[static_cast<std::size_t>(place)]) return false;
    seen[static_cast<std::size_t>(place)] = true;
  }
  return true;
}

void check_calibration(const MarCalibration& c) {
  check(c.times.size() == c.errors.size(),
        fmt::format("a calibration of {} times and {} errors", c.times.size(), c.errors.size()));
  for (std::size_t i = 0; i < c.times.size(); ++i) {
    check(c.times[i] >= 0 && c.times[i] < 1000 && (i == 0 || c.times[i - 1] < c.times[i]),
          "the times of the calibration must rise, from 0 to 999");
    check(std::isfinite(c.errors[i]) && c.errors[i] > 0.0,
          "the errors of the calibration must be positive");
  }
}

}  // namespace

double MarCalibration::error_at(std::int64_t time) const {
  const auto after = std::lower_bound(times.begin(), times.end(), time);
  if (after == times.begin()) return errors.front();
  if (after == times.end()) return errors.back();
  const auto i = static_cast<std::size_t>(after - times.begin());
  const double share =
      static_cast<double>(time - times[i - 1]) / static_cast<double>(times[i] - times[i - 1]);
  return std::exp((1.0 - share) * std::log(errors[i - 1]) + share * std::log(errors[i]));
}

void check_mar_config(const MarConfig& c) {
  constexpr std::int64_t kMost = 1 << 16;
  for (const std::int64_t n : {c.side, c.channels, c.patch, c.classes, c.hidden, c.heads, c.mlp,
                               c.depth, c.head_width, c.head_blocks}) {
    check(n >= 1 && n <= kMost,
          fmt::format("sizes are out of range: side {}, channels {}, patch {}, classes {}, hidden "
                      "{}, heads {}, MLP {}, depth {}, head width {}, head blocks {}",
                      c.side, c.channels, c.patch, c.classes, c.hidden, c.heads, c.mlp, c.depth,
                      c.head_width, c.head_blocks));
  }
  check(c.side % c.patch == 0,
        fmt::format("images of side {} are not whole patches of {}", c.side, c.patch));
  check(c.tokens() <= 4096, fmt::format("{} tokens; at most 4096 are supported", c.tokens()));
  check(c.dim() <= 4096, fmt::format("tokens of {} values; at most 4096 are supported", c.dim()));
  check(c.hidden % c.heads == 0,
        fmt::format("width {} is no multiple of {} heads", c.hidden, c.heads));
  check(c.depth <= 1000 && c.head_blocks <= 1000, "more than 1000 blocks");
  const bool masked = c.form == MarForm::kMasked;
  check(masked
            ? c.decoder_depth >= 1 && c.decoder_depth <= 1000 && c.buffer >= 1 && c.buffer <= 4096
            : c.decoder_depth == 0 && c.buffer == 0,
        fmt::format("{} decoder blocks and {} buffer rows: the masked form has some, the causal "
                    "one none",
                    c.decoder_depth, c.buffer));
  check(c.order.empty() || (!masked && is_order(c.order, c.tokens())),
        fmt::format("the order is not one of the {} patches", c.tokens()));
  check(std::isfinite(c.mean) && std::isfinite(c.scale) && c.scale > 0.0 &&
            std::isfinite(c.noise) && c.noise >= 0.0,
        fmt::format("a token of mean {}, scale {} and noise {} is out of range", c.mean, c.scale,
                    c.noise));
  check(std::isfinite(c.x0_low) && std::isfinite(c.x0_high) && c.x0_low <= c.x0_high,
        fmt::format("the bounds of x_0, {} and {}, are out of range", c.x0_low, c.x0_high));
  check_calibration(c.calibration);
}

std::string why_other_tokens(const MarConfig& a, const MarConfig& b) {
  if (a.form != b.form) return "one is causal, the other masked";
  if (a.side != b.side || a.channels != b.channels || a.patch != b.patch) {
    return fmt::format(
        "it has tokens of {} x {} x {} in images of {}, the other of {} x {} x {} in {}",
        a.channels, a.patch, a.patch, a.side, b.channels, b.patch, b.patch, b.side);
  }
  if (a.classes != b.classes) {
    return fmt::format("it has {} classes, the other {}", a.classes, b.classes);
  }
  for (std::int64_t i = 0; i < b.tokens(); ++i) {
    if (a.patch_of(i) != b.patch_of(i)) return "its tokens come in another order";
  }
  if (a.mean != b.mean || a.scale != b.scale) {
    return "its tokens have another mean or scale";
  }
  return {};
}

std::vector<std::int64_t> scattered_order(std::int64_t side) {
  const auto n = static_cast<std::uint64_t>(side);
  if (side < 1 || !std::has_single_bit(n)) {
    throw std::invalid_argument(
        fmt::format("{} patches a side: a scattered order needs a power of two", side));
  }
  const int bits = std::countr_zero(n);
  std::vector<std::int64_t> out;
  for (std::uint64_t i = 0; i < n * n; ++i) {
    std::uint64_t x = 0, y = 0;  // bits of i in turn, the lowest to the highest place
    for (int b = 0; b < bits; ++b) {
      const std::uint64_t first = i >> (2 * b) & 1U, second = i >> (2 * b + 1) & 1U;
      x = x << 1U | (first ^ second);
      y = y << 1U | second;
    }
    out.push_back(static_cast<std::int64_t>(y * n + x));
  }
  // The bits were pushed lowest first, so the first tokens lie farthest apart.
  return out;
}

}  // namespace forerun
