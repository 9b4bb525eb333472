// The controller against a simulated machine and simulated texts: no clock, everything seeded.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "forerun/core/draft_length.h"

namespace forerun {
namespace {

// Where a draft stands; what its probability of being kept may depend on.
struct Place {
  std::size_t lane, grade, position, round;
};

struct World {
  std::string name;
  Planned planned = Planned::kBeforeDrafting;
  std::size_t lanes = 1, most = 8, outputs = 1200;
  std::function<double(std::size_t rows, std::size_t round)> pass;  // milliseconds
  double draft_fixed = 0.0, draft_token = 0.0;                      // milliseconds
  std::function<double(const Place&)> kept;
  double spikes = 0.0;  // share of passes that take five times as long
  std::size_t grades = 1;
  bool measured = false;  // at load
};
void PrintTo(const World& w, std::ostream* out) { *out << w.name; }

double slope(std::size_t rows, double per_row) {
  return 10.0 * (1.0 + per_row * (static_cast<double>(rows) - 1.0));
}

struct Ran {
  double outputs = 0.0, ms = 0.0;
  std::vector<double> rate_by_round;  // outputs a ms
  DraftLengthReport report;
  double per_ms() const { return outputs / ms; }
};

// One text: token t is t, so that a draft is kept where it says so.
struct SimLane {
  std::size_t at = 0, grade = 0;
  std::vector<Token> draft, outputs;
};

class Simulation {
 public:
  Simulation(const World& world, std::uint64_t seed)
      : w_(world), random_(seed), lanes_(world.lanes) {}

  // Adaptive, or `fixed` drafts a lane. Time is counted without noise; the controller sees it with.
  Ran run(DraftLength control, std::size_t fixed) {
    Ran ran;
    for (std::size_t round = 0; lanes_[0].at < w_.outputs; ++round) {
      propose(round, fixed);
      std::size_t drafts = 0;
      const auto lengths = control.plan(plans_);
      for (const std::uint32_t k : lengths) drafts += k;
      const double ms = w_.pass(w_.lanes + drafts, round);
      const bool asked = w_.planned == Planned::kAfterDrafting || drafts > 0;
      const double draft_ms =
          asked ? w_.draft_fixed + w_.draft_token * static_cast<double>(drafts) : 1e-3;
      const double before = ran.outputs;
      std::vector<LaneSeen> seen;
      for (std::size_t i = 0; i < w_.lanes; ++i) {
        seen.push_back(verify(i, lengths[i]));
        ran.outputs += static_cast<double>(lanes_[i].outputs.size());
      }
      ran.ms += ms + draft_ms;
      ran.rate_by_round.push_back((ran.outputs - before) / (ms + draft_ms));
      control.observe(seen, {.rows = w_.lanes + drafts,
                             .target_seconds = 1e-3 * ms * noise(),
                             .drafted = asked ? std::max<std::size_t>(drafts, 0) : 0,
                             .drafter_seconds = 1e-3 * draft_ms * noise()});
    }
    ran.report = control.report();
    return ran;
  }

 private:
  void propose(std::size_t round, std::size_t most) {
    plans_.clear();
    for (std::size_t i = 0; i < w_.lanes; ++i) {
      SimLane& lane = lanes_[i];
      lane.grade = std::uniform_int_distribution<std::size_t>(0, w_.grades - 1)(random_);
      lane.draft.clear();
      for (std::size_t j = 0; j < w_.most; ++j) {
        const bool right = uniform() < w_.kept({i, lane.grade, j, round});
        lane.draft.push_back(right ? static_cast<Token>(lane.at + j) : -1);
      }
      plans_.push_back({.request = static_cast<std::uint32_t>(i),
                        .limit = std::min(most, w_.most),
                        .grade = lane.grade});
    }
  }

  LaneSeen verify(std::size_t i, std::size_t length) {
    SimLane& lane = lanes_[i];
    LaneSeen seen{.request = static_cast<std::uint32_t>(i), .grade = lane.grade};
    lane.outputs.clear();
    for (bool go_on = true; go_on;) {
      lane.outputs.push_back(static_cast<Token>(lane.at));
      go_on = seen.examined < length && lane.draft[seen.examined] == lane.outputs.back();
      if (seen.examined < length) {
        ++seen.examined;
        seen.accepted += go_on ? 1 : 0;
      }
      ++lane.at;
    }
    if (w_.planned == Planned::kAfterDrafting) {
      seen.draft = lane.draft;
      seen.outputs = lane.outputs;
    }
    return seen;
  }

  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  double noise() {
    const double usual = std::exp(std::normal_distribution<double>(0.0, 0.05)(random_));
    return uniform() < w_.spikes ? 5.0 * usual : usual;
  }

  const World& w_;
  std::mt19937_64 random_;
  std::vector<SimLane> lanes_;
  std::vector<LanePlan> plans_;
};

std::vector<PassCost::Point> measured(const World& w) {
  std::vector<PassCost::Point> points;
  for (std::size_t m = 1; w.measured && m <= 32; m *= 2) points.push_back({m, 1e-3 * w.pass(m, 0)});
  return points;
}

Ran adaptive(const World& w, std::uint64_t seed) {
  return Simulation(w, seed).run(DraftLength({.planned = w.planned}, measured(w)), w.most);
}
Ran fixed(const World& w, std::size_t k, std::uint64_t seed) {
  return Simulation(w, seed).run(DraftLength({.planned = w.planned, .adaptive = false}), k);
}

constexpr std::uint64_t kSeeds = 6;

double mean_of(const std::function<double(std::uint64_t)>& f) {
  double sum = 0.0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) sum += f(seed);
  return sum / static_cast<double>(kSeeds);
}
double adaptive_rate(const World& w) {
  return mean_of([&](std::uint64_t s) { return adaptive(w, s).per_ms(); });
}
double fixed_rate(const World& w, std::size_t k) {
  return mean_of([&](std::uint64_t s) { return fixed(w, k, s).per_ms(); });
}

const auto kFlat = [](std::size_t m, std::size_t) { return slope(m, 0.02); };
const auto kMiddling = [](std::size_t m, std::size_t) { return slope(m, 0.1); };
const auto kSteep = [](std::size_t m, std::size_t) { return slope(m, 0.5); };
const auto kSerial = [](std::size_t m, std::size_t) { return slope(m, 1.0); };
const auto kTiles = [](std::size_t m, std::size_t) { return m <= 4 ? 10.0 : 24.0; };

std::function<double(const Place&)> always(double p) {
  return [p](const Place&) { return p; };
}
std::function<double(const Place&)> fading(double p, double f) {
  return [=](const Place& at) { return p * std::pow(f, static_cast<double>(at.position)); };
}
double by_grade(const Place& at) { return std::array{0.05, 0.5, 0.95}[at.grade % 3]; }

constexpr Planned kFree = Planned::kAfterDrafting;
constexpr Planned kCostly = Planned::kBeforeDrafting;

std::vector<World> stationary() {
  return {
      {.name = "FreeHigh",
       .planned = kFree,
       .pass = kFlat,
       .draft_fixed = 0.02,
       .kept = always(0.9)},
      {.name = "FreeMiddling",
       .planned = kFree,
       .pass = kMiddling,
       .draft_fixed = 0.02,
       .kept = always(0.6)},
      {.name = "FreeHopeless",
       .planned = kFree,
       .pass = kFlat,
       .draft_fixed = 0.02,
       .kept = always(0.01)},
      {.name = "FreeSteep",
       .planned = kFree,
       .pass = kSteep,
       .draft_fixed = 0.02,
       .kept = always(0.6)},
      {.name = "FreeSerial",
       .planned = kFree,
       .pass = kSerial,
       .draft_fixed = 0.02,
       .kept = always(0.8)},
      {.name = "FreeTiles",
       .planned = kFree,
       .most = 16,
       .pass = kTiles,
       .draft_fixed = 0.02,
       .kept = always(0.8)},
      {.name = "FreeGrades",
       .planned = kFree,
       .pass = kMiddling,
       .draft_fixed = 0.02,
       .kept = by_grade,
       .grades = 3},
      {.name = "FreeSpikes",
       .planned = kFree,
       .pass = kFlat,
       .draft_fixed = 0.02,
       .kept = always(0.8),
       .spikes = 0.05},
      {.name = "FreeSteepSpikes",
       .planned = kFree,
       .pass = kSteep,
       .draft_fixed = 0.02,
       .kept = always(0.5),
       .spikes = 0.05},
      {.name = "CostlyHigh",
       .pass = kFlat,
       .draft_fixed = 0.2,
       .draft_token = 1.0,
       .kept = always(0.9)},
      {.name = "CostlyFading",
       .pass = kMiddling,
       .draft_fixed = 0.2,
       .draft_token = 1.0,
       .kept = fading(0.8, 0.8)},
      {.name = "CostlyHopeless",
       .pass = kFlat,
       .draft_fixed = 0.2,
       .draft_token = 1.0,
       .kept = always(0.01)},
      {.name = "CostlyDear", .pass = kFlat, .draft_token = 8.0, .kept = always(0.7)},
      {.name = "CostlyBlock",
       .most = 15,
       .pass = kFlat,
       .draft_fixed = 4.0,
       .kept = fading(0.9, 0.95)},
      {.name = "CostlySteepSpikes",
       .pass = kSteep,
       .draft_fixed = 0.2,
       .draft_token = 1.0,
       .kept = always(0.6),
       .spikes = 0.05},
      {.name = "CostlySerialHopeless",
       .pass = kSerial,
       .draft_token = 8.0,
       .kept = always(0.05),
       .spikes = 0.05},
      {.name = "CostlyMeasured",
       .pass = kMiddling,
       .draft_fixed = 0.2,
       .draft_token = 1.0,
       .kept = always(0.7),
       .measured = true},
      {.name = "FreeFourLanes",
       .planned = kFree,
       .lanes = 4,
       .pass = kMiddling,
       .draft_fixed = 0.02,
       .kept =
           [](const Place& at) {
             return std::array{0.95, 0.6, 0.2, 0.02}[at.lane];
           }},
      {.name = "CostlyFourLanes",
       .lanes = 4,
       .pass = kMiddling,
       .draft_fixed = 0.2,
       .draft_token = 0.3,
       .kept =
           [](const Place& at) {
             return std::array{0.95, 0.6, 0.2, 0.02}[at.lane];
           }},
      {.name = "CostlyShort",
       .outputs = 150,
       .pass = kSteep,
       .draft_token = 3.0,
       .kept = always(0.2)},
  };
}

class Stationary : public testing::TestWithParam<World> {};

TEST_P(Stationary, IsNeverSlowerAndNearTheBestFixedLength) {
  const World& w = GetParam();
  const double got = adaptive_rate(w);
  double best = 0.0;
  std::size_t best_k = 0;
  const double plain = fixed_rate(w, 0);
  for (std::size_t k = 0; k <= w.most; ++k) {
    const double rate = fixed_rate(w, k);
    if (rate > best) best_k = k;
    best = std::max(best, rate);
  }
  RecordProperty("over_plain", std::to_string(got / plain));
  RecordProperty("over_best", std::to_string(got / best));
  std::printf("%-22s over plain %.3f  over best fixed (k=%zu) %.3f\n", w.name.c_str(), got / plain,
              best_k, got / best);
  EXPECT_GE(got / plain, 0.98);
  EXPECT_GE(got / best, 0.95);
}

INSTANTIATE_TEST_SUITE_P(DraftLength, Stationary, testing::ValuesIn(stationary()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forerun
