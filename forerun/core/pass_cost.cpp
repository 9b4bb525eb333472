#include "forerun/core/pass_cost.h"

#include <algorithm>
#include <cmath>

namespace forerun {
namespace {

constexpr double kPriorSlope = 0.03;  // of a one-row pass, a row
constexpr double kSmallestGain = 0.125;
constexpr double kSuddenGain = 0.5;
constexpr double kMostSeen = 16.0;
constexpr double kStaleAfter = 8.0;  // passes
constexpr double kPassDrift = 0.1;
constexpr std::uint32_t kForgotten = 512;
constexpr double kBelieved = 12.0;  // passes, for each that a knot rests on and two more
constexpr double kRaised = 1.05;    // by a smaller pass: what a knot rests on counts once from here

double prior(double rows) noexcept { return 1.0 + kPriorSlope * (rows - 1.0); }

double between(double x0, double y0, double x1, double y1, double x) noexcept {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

double gain(double seen, std::uint32_t age, bool sudden) noexcept {
  const double trusted = seen * 16.0 / (16.0 + age);
  return std::max(1.0 / (1.0 + trusted / 2.0), sudden ? kSuddenGain : kSmallestGain);
}

}  // namespace

double PassCost::on_curve(std::size_t rows, const Seconds& knots) noexcept {
  const double m = static_cast<double>(std::max<std::size_t>(rows, 1));
  std::size_t below = kRows.size(), before = kRows.size();  // the last two measured knots up to m
  for (std::size_t k = 0; k < kRows.size(); ++k) {
    if (knots[k] == 0.0) continue;
    const double at = static_cast<double>(kRows[k]);
    if (at > m) {
      if (below == kRows.size()) return knots[k] * prior(m) / prior(at);
      return between(static_cast<double>(kRows[below]), knots[below], at, knots[k], m);
    }
    before = below;
    below = k;
  }
  if (below == kRows.size()) return 0.0;
  const double at = static_cast<double>(kRows[below]), last = knots[below];
  double slope = last * kPriorSlope / prior(at);
  if (before < kRows.size()) {
    slope = std::max(slope, (last - knots[before]) / (at - static_cast<double>(kRows[before])));
  }
  return last + slope * (m - at);
}

void PassCost::take_costs() noexcept {
  for (std::size_t k = 0; k < kRows.size(); ++k) {
    measured_[k] = knots_[k].seen > 0.0 ? knots_[k].seconds : 0.0;
  }
  believed_ = measured_;
  std::size_t below = kRows.size();
  for (std::size_t k = 0; k < kRows.size(); ++k) {
    const Knot& knot = knots_[k];
    if (knot.seen == 0.0) continue;
    const double believed = kBelieved * (knot.seen + 2.0);
    if (below < kRows.size() && knot.age > believed) {
      const double least = believed_[below] * prior(static_cast<double>(kRows[k])) /
                           prior(static_cast<double>(kRows[below]));
      const double left = std::exp2(1.0 - knot.age / believed);
      believed_[k] -= (1.0 - left) * std::max(0.0, knot.seconds - least);
    }
    below = k;
  }
}

double PassCost::drift(std::size_t rows) const noexcept {
  const Share at = share(rows);
  return std::max(std::abs(knots_[at.low].followed),
                  at.high_part > 0.0 ? std::abs(knots_[at.high].followed) : 0.0);
}

double PassCost::seen(std::size_t rows) const noexcept {
  const Share at = share(rows);
  return knots_[at.high_part > 0.5 ? at.high : at.low].seen;
}

void PassCost::observe(std::size_t rows, double seconds_seen) noexcept {
  if (rows == 0 || !std::isfinite(seconds_seen) || seconds_seen <= 0.0) return;
  const Share at = share(rows);
  if (!known()) {
    knots_[at.high_part > 0.5 ? at.high : at.low] = {.seconds = seconds_seen, .seen = 1.0};
    find_top();
    take_costs();
    return;
  }
  const double excess = outlier_clip_.clip(std::log(seconds_seen / seconds(rows)));
  const double low_part = 1.0 - at.high_part;
  // Scaled so that the cost at `rows`, between the two, moves by its gain times the excess.
  const double scale = excess / (low_part * low_part + at.high_part * at.high_part);
  // The expectation before either knot moves, for a knot that may be new.
  const double low = seconds(kRows[at.low]), high = seconds(kRows[at.high]);
  const double carried =
      move_knot(at.low, low_part, low, scale) + move_knot(at.high, at.high_part, high, scale);
  follow(at, carried);
  order(at.high_part > 0.5 ? at.high : at.low);
  find_top();
  take_costs();
}

std::vector<PassCost::Point> PassCost::curve() const {
  std::vector<Point> points;
  for (std::size_t k = 0; k < kRows.size(); ++k) {
    if (knots_[k].seen > 0.0) points.push_back({kRows[k], knots_[k].seconds});
  }
  return points;
}

PassCost::Share PassCost::share(std::size_t rows) noexcept {
  const auto above = std::upper_bound(kRows.begin(), kRows.end(), std::max<std::size_t>(rows, 1));
  const std::size_t low = static_cast<std::size_t>(above - kRows.begin()) - 1;
  if (above == kRows.end() || kRows[low] == rows) return {low, low, 0.0};
  return {low, low + 1,
          between(static_cast<double>(kRows[low]), 0.0, static_cast<double>(*above), 1.0,
                  static_cast<double>(rows))};
}

// One knot's part of the excess. Returns how far the knots not seen lately have to follow: not at
// all if this knot was uncertain, because the excess then concerns it alone.
double PassCost::move_knot(std::size_t knot, double part, double expected, double excess) noexcept {
  Knot& k = knots_[knot];
  if (part == 0.0 || (k.seen == 0.0 && part < 0.5)) return 0.0;
  if (k.seen == 0.0) k.seconds = expected;
  if (std::abs(k.followed) > kPassDrift) k.seen = std::min(k.seen, 1.0);
  const bool well_known = k.seen >= 4.0 && k.age <= kStaleAfter;
  const double moved = excess * part * gain(k.seen, k.age, outlier_clip_.sudden());
  k.seconds *= std::exp(moved);
  k.seen = std::min(k.seen + part, kMostSeen);
  k.followed = 0.0;
  k.age = 0;
  return well_known ? part * moved : 0.0;
}

// Every knot that this pass did not measure ages; older knots follow more. All follow a sudden
// change of the machine.
void PassCost::follow(const Share& at, double carried) noexcept {
  for (std::size_t j = 0; j < kRows.size(); ++j) {
    Knot& k = knots_[j];
    if (k.seen == 0.0 || j == at.low || (j == at.high && at.high_part > 0.0)) continue;
    const double part = outlier_clip_.sudden() ? 1.0 : k.age / (k.age + kStaleAfter);
    const double move = carried * part;
    k.seconds *= std::exp(move);
    k.followed += move;
    // An old measurement may have been an outlier that was never measured again.
    if (++k.age > kForgotten) k = {};
  }
}

// Costs do not fall with the rows; the knot just measured is right.
void PassCost::order(std::size_t knot) noexcept {
  double bound = knots_[knot].seconds;
  for (std::size_t j = knot; j < kRows.size(); ++j) {
    Knot& k = knots_[j];
    if (k.seen == 0.0) continue;
    // No longer what its own passes have shown.
    if (bound > kRaised * k.seconds) k.seen = std::min(k.seen, 1.0);
    bound = k.seconds = std::max(k.seconds, bound);
  }
  bound = knots_[knot].seconds;
  for (std::size_t j = knot; j-- > 0;) {
    if (knots_[j].seen > 0.0) bound = knots_[j].seconds = std::min(knots_[j].seconds, bound);
  }
}

void PassCost::find_top() noexcept {
  top_ = 0;
  for (std::size_t k = 0; k < kRows.size(); ++k) {
    if (knots_[k].seen > 0.0) top_ = kRows[k];
  }
}

}  // namespace forerun
