#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/draft_length_world.h"

namespace forerun {
namespace {

using namespace simulated;

double tiles(std::size_t rows, std::size_t) { return rows <= 4 ? 10.0 : 24.0; }

double by_confidence_bin(const Place& at) {
  return std::array{0.05, 0.5, 0.95}[at.confidence_bin % 3];
}

// Milliseconds of SmolLM2-135M in int8.
double int8_on_two_cores(std::size_t rows, std::size_t) {
  PassCost cost;
  for (const PassCost::Point& p :
       std::array<PassCost::Point, 5>{{{1, 8.9}, {4, 10.5}, {8, 10.9}, {16, 14.0}, {32, 18.9}}}) {
    cost.observe(p.rows, p.seconds);
  }
  return cost.seconds(rows);
}

// A text that repeats itself for a hundred tokens and then stops repeating.
double bursts(const Place& at) { return at.at / 100 % 2 == 0 ? 0.95 : 0.05; }

std::vector<World> stationary() {
  return {
      {.name = "FreeHigh",
       .deterministic = true,
       .pass = sloped(0.02),
       .draft_fixed = 0.02,
       .kept = always(0.9)},
      {.name = "FreeMiddling",
       .deterministic = true,
       .pass = sloped(0.1),
       .draft_fixed = 0.02,
       .kept = always(0.6)},
      {.name = "FreeHopeless",
       .deterministic = true,
       .pass = sloped(0.02),
       .draft_fixed = 0.02,
       .kept = always(0.01)},
      {.name = "FreeSteep",
       .deterministic = true,
       .pass = sloped(0.5),
       .draft_fixed = 0.02,
       .kept = always(0.6)},
      {.name = "FreeSerial",
       .deterministic = true,
       .pass = sloped(1.0),
       .draft_fixed = 0.02,
       .kept = always(0.8)},
      {.name = "FreeTiles",
       .deterministic = true,
       .most = 16,
       .pass = tiles,
       .draft_fixed = 0.02,
       .kept = always(0.8)},
      {.name = "FreeGrades",
       .deterministic = true,
       .pass = sloped(0.1),
       .draft_fixed = 0.02,
       .kept = by_confidence_bin,
       .confidence_bins = 3},
      {.name = "FreeSpikes",
       .deterministic = true,
       .pass = sloped(0.02),
       .draft_fixed = 0.02,
       .kept = always(0.8),
       .spikes = 0.05},
      {.name = "FreeSteepSpikes",
       .deterministic = true,
       .pass = sloped(0.5),
       .draft_fixed = 0.02,
       .kept = always(0.5),
       .spikes = 0.05},
      {.name = "CostlyHigh",
       .pass = sloped(0.02),
       .draft_fixed = 0.2,
       .draft_token = per_token(1.0),
       .kept = always(0.9)},
      {.name = "CostlyFading",
       .pass = sloped(0.1),
       .draft_fixed = 0.2,
       .draft_token = per_token(1.0),
       .kept = fading(0.8, 0.8)},
      {.name = "CostlyHopeless",
       .pass = sloped(0.02),
       .draft_fixed = 0.2,
       .draft_token = per_token(1.0),
       .kept = always(0.01)},
      {.name = "CostlyDear",
       .pass = sloped(0.02),
       .draft_token = per_token(8.0),
       .kept = always(0.7)},
      {.name = "CostlyBlock",
       .most = 15,
       .pass = sloped(0.02),
       .draft_fixed = 4.0,
       .kept = fading(0.9, 0.95)},
      {.name = "CostlySteepSpikes",
       .pass = sloped(0.5),
       .draft_fixed = 0.2,
       .draft_token = per_token(1.0),
       .kept = always(0.6),
       .spikes = 0.05},
      {.name = "CostlySerialHopeless",
       .pass = sloped(1.0),
       .draft_token = per_token(8.0),
       .kept = always(0.05),
       .spikes = 0.05},
      {.name = "CostlyMeasured",
       .pass = sloped(0.1),
       .draft_fixed = 0.2,
       .draft_token = per_token(1.0),
       .kept = always(0.7),
       .measured = true},
      {.name = "FreeFourSequences",
       .deterministic = true,
       .sequences = 4,
       .pass = sloped(0.1),
       .draft_fixed = 0.02,
       .kept =
           [](const Place& at) {
             return std::array{0.95, 0.6, 0.2, 0.02}[at.sequence];
           }},
      {.name = "CostlyFourSequences",
       .sequences = 4,
       .pass = sloped(0.1),
       .draft_fixed = 0.2,
       .draft_token = per_token(0.3),
       .kept =
           [](const Place& at) {
             return std::array{0.95, 0.6, 0.2, 0.02}[at.sequence];
           }},
      {.name = "FreeBursts",
       .deterministic = true,
       .most = 16,
       .pass = int8_on_two_cores,
       .draft_fixed = 0.02,
       .kept = bursts},
      {.name = "CostlyBursts",
       .pass = int8_on_two_cores,
       .draft_fixed = 0.1,
       .draft_token = per_token(1.5),
       .kept = bursts},
      {.name = "CostlyShort",
       .outputs = 150,
       .pass = sloped(0.5),
       .draft_token = per_token(3.0),
       .kept = always(0.2)},
  };
}

std::vector<World> bad_starts() {
  return {
      {.name = "CostlyPoisoned",
       .pass = sloped(0.1),
       .draft_fixed = 0.2,
       .draft_token = per_token(0.5),
       .kept = always(0.8),
       .measured = true,
       .poison = 4.0},
      {.name = "FreePoisoned",
       .deterministic = true,
       .pass = sloped(0.02),
       .draft_fixed = 0.02,
       .kept = always(0.8),
       .measured = true,
       .poison = 4.0},
      {.name = "FreeCold",
       .deterministic = true,
       .pass = sloped(0.05),
       .draft_fixed = 0.02,
       .kept = always(0.8),
       .cold = 4},
      {.name = "CostlyCold",
       .pass = sloped(0.05),
       .draft_token = per_token(1.0),
       .kept = always(0.8),
       .cold = 4},
      {.name = "CostlyColdHopeless",
       .pass = sloped(0.3),
       .draft_token = per_token(4.0),
       .kept = always(0.1),
       .cold = 4},
  };
}

struct Ratios {
  double over_plain, over_best;  // of outputs a second, means
  double least_over_plain;       // over the seeds
};

Ratios ratios(const World& w) {
  double best = 0.0;
  for (std::size_t k = 0; k <= w.most; ++k) best = std::max(best, fixed_rate(w, k));
  const double plain = fixed_rate(w, 0);
  double least = best;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    least = std::min(least, adaptive(w, seed).per_ms());
  }
  return {adaptive_rate(w) / plain, adaptive_rate(w) / best, least / plain};
}

void record(const Ratios& r) {
  ::testing::Test::RecordProperty("over_plain", std::to_string(r.over_plain));
  ::testing::Test::RecordProperty("over_best_fixed", std::to_string(r.over_best));
  ::testing::Test::RecordProperty("least_over_plain", std::to_string(r.least_over_plain));
}

std::string name_of_world(const ::testing::TestParamInfo<World>& info) { return info.param.name; }

class Stationary : public ::testing::TestWithParam<World> {};

TEST_P(Stationary, IsNeverSlowerAndNearTheBestFixedLength) {
  const Ratios r = ratios(GetParam());
  record(r);
  EXPECT_GE(r.least_over_plain, 0.98);
  EXPECT_GE(r.over_best, 0.95);
}
INSTANTIATE_TEST_SUITE_P(DraftLength, Stationary, ::testing::ValuesIn(stationary()), name_of_world);

// The first rounds five times too slow, or a wrong measurement at load.
class BadStart : public ::testing::TestWithParam<World> {};

TEST_P(BadStart, IsNeverSlowerAndRecovers) {
  const Ratios r = ratios(GetParam());
  record(r);
  EXPECT_GE(r.least_over_plain, 0.98);
  EXPECT_GE(r.over_best, 0.9);
}
INSTANTIATE_TEST_SUITE_P(DraftLength, BadStart, ::testing::ValuesIn(bad_starts()), name_of_world);

}  // namespace
}  // namespace forerun
