#include "forerun/core/statistics.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

using Counts = std::vector<std::uint64_t>;

// Two sequences in the first pass, one in the second.
RunStatistics hand_made() {
  RunStatistics s;
  const Outcome all_kept{.drafted = 3, .examined = 3, .accepted = 3, .emitted = 4};
  const Outcome second_rejected{.drafted = 4, .examined = 2, .accepted = 1, .emitted = 2};
  const Outcome nothing_drafted{.drafted = 0, .examined = 0, .accepted = 0, .emitted = 1};
  s.add(std::vector{all_kept, second_rejected}, {.drafter = 1.0, .target = 2.0, .rest = 0.5});
  s.add(std::vector{nothing_drafted}, {.drafter = 0.25, .target = 1.0, .rest = 0.25});
  return s;
}

TEST(RunStatistics, CountsWhatARunDid) {
  const RunStatistics s = hand_made();
  EXPECT_EQ(s.passes, 2U);
  EXPECT_EQ(s.rounds, 3U);
  EXPECT_EQ(s.outputs, 7U);
  EXPECT_EQ(s.drafted, 7U);
  EXPECT_EQ(s.examined, (Counts{2, 2, 1}));
  EXPECT_EQ(s.accepted, (Counts{2, 1, 1}));
  EXPECT_EQ(s.acceptance_by_position(), (std::vector{1.0, 0.5, 1.0}));
  EXPECT_DOUBLE_EQ(s.tau(), 7.0 / 3.0);
  EXPECT_EQ(s.seconds.drafter, 1.25);
  EXPECT_EQ(s.seconds.target, 3.0);
  EXPECT_EQ(s.seconds.rest, 0.75);
  EXPECT_EQ(s.seconds.total(), 5.0);
}

TEST(RunStatistics, PlainDecodingHasTauOneAndAnEmptyRunNone) {
  RunStatistics s;
  EXPECT_EQ(s.tau(), 0.0);
  EXPECT_TRUE(s.acceptance_by_position().empty());
  for (int i = 0; i < 5; ++i) s.add(std::vector{Outcome{.emitted = 1}}, {});
  EXPECT_EQ(s.tau(), 1.0);
  EXPECT_EQ(s.passes, 5U);
}

TEST(RunStatistics, ADraftEndedByItsSequenceHasNoBonus) {
  RunStatistics s;  // kept two of three, the second ended the sequence
  s.add(std::vector{Outcome{.drafted = 3, .examined = 2, .accepted = 2, .emitted = 2}}, {});
  EXPECT_EQ(s.outputs, 2U);
  EXPECT_EQ(s.examined, (Counts{1, 1}));
  EXPECT_EQ(s.accepted, (Counts{1, 1}));
}

TEST(RunStatistics, RunsAddUpWhicheverIsLonger) {
  RunStatistics shorter;
  shorter.add(std::vector{Outcome{.drafted = 1, .examined = 1, .accepted = 0, .emitted = 1}},
              {.drafter = 1.0, .target = 1.0, .rest = 1.0});
  RunStatistics a = hand_made();
  a.add(shorter);
  RunStatistics b = shorter;
  b.add(hand_made());
  for (const RunStatistics& sum : {a, b}) {
    EXPECT_EQ(sum.passes, 3U);
    EXPECT_EQ(sum.rounds, 4U);
    EXPECT_EQ(sum.outputs, 8U);
    EXPECT_EQ(sum.drafted, 8U);
    EXPECT_EQ(sum.examined, (Counts{3, 2, 1}));
    EXPECT_EQ(sum.accepted, (Counts{2, 1, 1}));
    EXPECT_EQ(sum.seconds.total(), 8.0);
  }
  RunStatistics twice = hand_made();
  twice.add(twice);
  EXPECT_EQ(twice.examined, (Counts{4, 4, 2}));
  EXPECT_EQ(twice.outputs, 14U);
}

}  // namespace
}  // namespace forerun
