#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/draft_length_world.h"

namespace forerun {
namespace {

using namespace simulated;

constexpr std::size_t kSwitch = 1500;  // output at which everything changes

auto then(double before, double after) {
  return [=](const Place& p) { return p.at + p.position < kSwitch ? before : after; };
}
// Milliseconds of the first row and of each other one.
auto passes(double first, double other, double first_after, double other_after) {
  return [=](std::size_t rows, std::size_t at) {
    const double others = static_cast<double>(rows) - 1.0;
    return at < kSwitch ? first + other * others : first_after + other_after * others;
  };
}
auto tokens(double ms, double ms_after) {
  return [=](std::size_t at) { return at < kSwitch ? ms : ms_after; };
}

struct Change {
  World world;
  std::size_t within;  // rounds in which it is followed
};
void PrintTo(const Change& c, std::ostream* out) { *out << c.world.name; }

std::vector<Change> changing() {
  std::vector<Change> all = {
      {{.name = "FreeGetsHopeless",
        .deterministic = true,
        .pass = sloped(0.1),
        .kept = then(0.9, 0.05)},
       20},
      {{.name = "FreeGetsGood",
        .deterministic = true,
        .pass = sloped(0.1),
        .kept = then(0.05, 0.9)},
       20},
      {{.name = "CostlyGetsHopeless",
        .pass = sloped(0.05),
        .draft_token = per_token(1.0),
        .kept = then(0.9, 0.05)},
       20},
      {{.name = "CostlyGetsGood",
        .pass = sloped(0.05),
        .draft_token = per_token(1.0),
        .kept = then(0.05, 0.9)},
       150},
      {{.name = "MachineSlowsDown",
        .deterministic = true,
        .pass = passes(10, 1, 20, 2),
        .kept = always(0.8)},
       20},
      {{.name = "MachineSpeedsUp",
        .deterministic = true,
        .pass = passes(20, 2, 10, 1),
        .kept = always(0.8)},
       20},
      {{.name = "FreeRowsGetDear",
        .deterministic = true,
        .pass = passes(10, 0.5, 10, 12),
        .kept = always(0.8)},
       20},
      {{.name = "FreeRowsGetCheap",
        .deterministic = true,
        .pass = passes(10, 12, 10, 0.5),
        .kept = always(0.8)},
       150},
      {{.name = "CostlyRowsGetDear",
        .pass = passes(10, 0.5, 10, 12),
        .draft_token = per_token(0.5),
        .kept = always(0.8)},
       20},
      {{.name = "CostlyRowsGetCheap",
        .pass = passes(10, 12, 10, 0.5),
        .draft_token = per_token(0.5),
        .kept = always(0.8)},
       200},
      {{.name = "DrafterGetsDear",
        .pass = sloped(0.02),
        .draft_token = tokens(0.5, 9.0),
        .kept = always(0.8)},
       20},
      {{.name = "DrafterGetsCheap",
        .pass = sloped(0.02),
        .draft_token = tokens(9.0, 0.5),
        .kept = always(0.8)},
       150},
  };
  for (auto& [w, within] : all) {
    w.outputs = 4500;
    if (w.deterministic) w.draft_fixed = 0.02;
  }
  return all;
}

class Changing : public ::testing::TestWithParam<Change> {};

TEST_P(Changing, IsNeverSlowerAndFollows) {
  const auto& [w, within] = GetParam();
  double best = 0.0;
  for (std::size_t k = 0; k <= w.most; ++k) {
    best = std::max(best, mean_of([&](std::uint64_t seed) {
                      return fixed(w, k, seed).per_ms_after(kSwitch, 0);
                    }));
  }
  const double after =
      mean_of([&](std::uint64_t seed) { return adaptive(w, seed).per_ms_after(kSwitch, within); }) /
      best;
  const double over_plain = adaptive_rate(w) / fixed_rate(w, 0);
  RecordProperty("over_plain", std::to_string(over_plain));
  RecordProperty("over_best_fixed_after", std::to_string(after));
  EXPECT_GE(over_plain, 0.98);
  EXPECT_GE(after, 0.95);
}
std::string name_of_change(const ::testing::TestParamInfo<Change>& change) {
  return change.param.world.name;
}
INSTANTIATE_TEST_SUITE_P(DraftLength, Changing, ::testing::ValuesIn(changing()), name_of_change);

}  // namespace
}  // namespace forerun
