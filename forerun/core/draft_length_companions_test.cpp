// Rows that a pass has beside drafts: planned with, priced and debited as drafts are.
#include <gtest/gtest.h>

#include <vector>

#include "forerun/core/draft_length.h"

namespace forerun {
namespace {

double seconds(std::size_t rows) { return 0.01 * (1.0 + 0.1 * (static_cast<double>(rows) - 1.0)); }

// One sequence whose drafts, of a known reach, are never kept, with so many companions in every
// round that may have some.
struct Text {
  DraftLength control;
  std::vector<double> reach;
  std::size_t measured = 0;

  std::size_t round(std::size_t companions, std::size_t accepted = 0) {
    const SequencePlan plan{.id = 1,
                            .limit = reach.size(),
                            .deterministic = true,
                            .companions = companions,
                            .reach = reach};
    const std::size_t drafted = control.plan({&plan, 1})[0];
    const std::size_t ran = control.measuring() ? 0 : companions;
    measured += control.measuring() ? 1 : 0;
    const SequenceOutcome out{.id = 1,
                              .deterministic = true,
                              .drafted = drafted,
                              .tree = true,
                              .companions = ran,
                              .examined = std::min(drafted, accepted + 1),
                              .accepted = std::min(drafted, accepted)};
    const std::size_t rows = 1 + drafted + ran;
    control.observe({&out, 1}, {.rows = rows, .target_seconds = seconds(rows)});
    return drafted;
  }
};

TEST(Companions, TakeThePlaceOfDraftsWhereRowsGetDear) {
  // Up to 8 rows cost nothing, each further one half a pass.
  const auto drafted = [](std::size_t companions) {
    DraftLength control;
    for (const std::size_t rows : {1, 2, 4, 6, 8, 12, 16, 24}) {  // as costs are kept
      for (int i = 0; i < 4; ++i) {
        control.observe({},
                        {.rows = rows,
                         .target_seconds =
                             0.01 * (rows <= 8 ? 1.0 : 1.0 + 0.5 * static_cast<double>(rows - 8))});
      }
    }
    const std::vector<double> reach = {0.3, 0.25, 0.2, 0.15, 0.1, 0.08, 0.06};
    const SequencePlan plan{
        .id = 1, .limit = 7, .deterministic = true, .companions = companions, .reach = reach};
    control.plan({&plan, 1});  // measures a plain round
    return control.plan({&plan, 1})[0];
  };
  EXPECT_EQ(drafted(0), 7U);
  EXPECT_EQ(drafted(4), 3U);
}

TEST(Companions, AreDebitedAndThenNotCovered) {
  Text text{.control = DraftLength({.credit = 0.3, .most_credit = 0.3}), .reach = {}};
  text.round(0);
  EXPECT_EQ(text.measured, 1U);  // the first round measures a plain pass
  // Three rows of a tenth of a pass each.
  text.round(0);
  text.round(1);
  ASSERT_TRUE(text.control.covers(1, 2));
  EXPECT_FALSE(text.control.covers(1, 20));
  for (int i = 0; i < 3; ++i) text.round(3);
  EXPECT_FALSE(text.control.covers(1, 1));
  // Kept drafts pay for them.
  Text lucky{.control = DraftLength(), .reach = {0.9}};
  for (int i = 0; i < 8; ++i) lucky.round(0, 1);
  EXPECT_TRUE(lucky.control.covers(1, 20));
}

// Of rows beside a plan without drafts.
double price_of(DraftLength& control, std::size_t rows) {
  const std::vector<double> reach;
  const SequencePlan plan{.id = 1, .deterministic = true, .reach = reach};
  control.plan({&plan, 1});
  return control.price(rows);
}

// A pass with companions costs more than one of as many drafts: companions pay for that, drafts do
// not.
TEST(Companions, DearerRowsAreTheirsAlone) {
  constexpr double kDear = 0.004;  // seconds a companion row
  DraftLength control;
  const auto pass = [&](std::size_t drafts, std::size_t companions) {
    const std::size_t rows = 1 + drafts + companions;
    control.observe({}, {.rows = rows,
                         .target_seconds = seconds(rows) + kDear * static_cast<double>(companions),
                         .companions = companions});
  };
  for (int i = 0; i < 8; ++i) {
    for (const std::size_t drafts : {0, 1, 2, 3, 5, 7}) pass(drafts, 0);
  }
  EXPECT_NEAR(price_of(control, 3), 0.3, 0.03);
  for (int i = 0; i < 200; ++i) pass(i % 2, 3);
  EXPECT_NEAR(price_of(control, 3), 0.3 + 3 * kDear / seconds(1), 0.1);
  // What drafts are thought to cost has not moved.
  EXPECT_NEAR(control.report().pass[2].seconds, seconds(control.report().pass[2].rows), 1e-4);
  EXPECT_NEAR(control.report().pass[3].seconds, seconds(control.report().pass[3].rows), 1e-4);
  // Not measured for long, the surplus is forgotten.
  for (int i = 0; i < 600; ++i) pass(i % 2, 0);
  EXPECT_NEAR(price_of(control, 3), 0.3, 0.03);
}

// A slow first pass, which reads adapters that nothing has read yet, says nothing of later ones.
TEST(Companions, AFirstSlowPassDoesNotStopThem) {
  DraftLength control;
  const auto pass = [&](std::size_t companions, double extra) {
    const std::size_t rows = 1 + companions;
    control.observe(
        {}, {.rows = rows, .target_seconds = seconds(rows) + extra, .companions = companions});
  };
  for (int i = 0; i < 8; ++i) pass(0, 0.0);
  const double before = price_of(control, 3);
  pass(3, seconds(1));
  EXPECT_NEAR(price_of(control, 3), before, 0.01);
  EXPECT_EQ(control.report().pass.size(), 2U);  // the size was seen, not what it cost
  EXPECT_NEAR(control.report().pass[1].seconds, seconds(1) * (1.0 + before), 1e-4);
  // What all of them cost is theirs, and what larger passes cost beyond it is that of their rows.
  for (int i = 0; i < 100; ++i) pass(3, 0.003);
  EXPECT_NEAR(price_of(control, 3), (seconds(4) + 0.003) / seconds(1) - 1.0, 0.05);
  for (int i = 0; i < 3; ++i) pass(15, 0.003);
  EXPECT_NEAR(price_of(control, 15), (seconds(16) + 0.003) / seconds(1) - 1.0, 0.4);
}

// The work on what they bring is not what drafting nothing costs.
TEST(Companions, WhatTheDrafterDoesWithThemIsTheirPriceAlone) {
  constexpr double kLittle = 1e-5, kWork = 0.006;  // seconds of the drafter
  DraftLength control;
  const auto pass = [&](std::size_t drafts, std::size_t companions) {
    const std::size_t rows = 1 + drafts + companions;
    control.observe({}, {.rows = rows,
                         .target_seconds = seconds(rows),
                         .drafter_seconds = companions > 0 ? kWork : kLittle,
                         .companions = companions});
  };
  for (int i = 0; i < 8; ++i) {
    for (const std::size_t drafts : {0, 1, 2, 3, 5, 7}) pass(drafts, 0);
  }
  EXPECT_NEAR(price_of(control, 3), 0.3, 0.03);
  for (int i = 0; i < 200; ++i) pass(i % 2, 3);
  EXPECT_NEAR(price_of(control, 3), 0.3 + kWork / seconds(1), 0.1);
  EXPECT_NEAR(control.plain_round_seconds(), seconds(1) + kLittle, 1e-4);
}

// The time of a pass that reads a prompt too is not known.
TEST(Companions, PassesThatReadAPromptDoNotTellWhatTheyCost) {
  constexpr double kExtra = 0.005;  // seconds
  DraftLength control;
  const auto pass = [&](std::size_t companions, bool known) {
    const std::size_t rows = 1 + companions;
    const double extra = companions > 0 ? kExtra : 0.0;
    control.observe({}, {.rows = rows,
                         .target_seconds = known ? seconds(rows) + extra : 0.0,
                         .drafter_seconds = companions > 0 ? 3e-4 : 1e-4,
                         .companions = companions});
  };
  for (int i = 0; i < 100; ++i) pass(i % 2 == 0 ? 0 : 3, true);
  const double before = price_of(control, 3);
  EXPECT_GT(before, (seconds(4) + 0.9 * kExtra) / seconds(1) - 1.0);
  for (int i = 0; i < 100; ++i) pass(3, false);
  EXPECT_NEAR(price_of(control, 3), before, 0.01);
}

// A row may not be worth more than the rounds without any would give in its time.
TEST(Companions, ArePricedAtLeastAtTheRateWithoutThem) {
  const auto price = [](std::size_t companions) {
    DraftLength control;
    for (const std::size_t rows : {1, 2, 4, 6, 8, 12}) {
      for (int i = 0; i < 4; ++i)
        control.observe({}, {.rows = rows, .target_seconds = seconds(rows)});
    }
    const std::vector<double> reach;
    const SequencePlan plan{
        .id = 1, .deterministic = true, .companions = companions, .reach = reach};
    control.plan({&plan, 1});  // measures a plain round
    control.plan({&plan, 1});
    return control.price(1);
  };
  EXPECT_NEAR(price(8), price(0), 0.01);
}

// Rows of drafts are those of companions: what checking them costs is what as many more would.
TEST(Companions, DraftsOfThePlanArePricedAsTheyAre) {
  const std::vector<double> reach = {0.9, 0.8, 0.7};
  Text text{.control = DraftLength(), .reach = reach};
  for (int i = 0; i < 6; ++i) text.round(static_cast<std::size_t>(i % 3), 3);
  ASSERT_EQ(text.round(0, 3), 3U);
  const double rate = (1.0 + 0.9 + 0.8 + 0.7) / seconds(4);
  EXPECT_NEAR(text.control.checking_price(3), rate * (seconds(4) - seconds(1)), 0.05);
  EXPECT_NEAR(text.control.checking_price(1), text.control.price(1), 0.02);  // of a line
  EXPECT_EQ(text.control.checking_price(0), 0.0);
  DraftLength fixed({.adaptive = false});
  const SequencePlan plan{.id = 1, .limit = 3};
  fixed.plan({&plan, 1});
  EXPECT_EQ(fixed.checking_price(3), 0.0);
}

TEST(Companions, ArePricedAtTheOutputsOfThePlan) {
  Text text{.control = DraftLength(), .reach = {}};
  for (int i = 0; i < 6; ++i) text.round(static_cast<std::size_t>(i % 3));
  text.round(0);
  // Without drafts: their share of a plain pass, which gives one output.
  EXPECT_NEAR(text.control.price(1), seconds(2) / seconds(1) - 1.0, 0.02);
  const double first = text.control.price(1);
  text.control.add_rows(1);
  EXPECT_NEAR(text.control.price(1), first, 0.02);  // of a line
  DraftLength fixed({.adaptive = false});
  const SequencePlan plan{.id = 1, .limit = 3};
  EXPECT_EQ(fixed.plan({&plan, 1})[0], 3U);
  EXPECT_FALSE(fixed.measuring());
  EXPECT_EQ(fixed.price(100), 0.0);
  EXPECT_TRUE(fixed.covers(1, 100));
}

}  // namespace
}  // namespace forerun
