// What a text may lose to its drafter: drafts, and what is read for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "forerun/core/draft_length.h"
#include "tests/support/draft_length_rounds.h"

namespace forerun {
namespace {

using namespace rounds;

// Outputs lost on a text whose drafts are never kept, while those of another sequence always are.
double lost_on_a_bad_text(const DraftLengthOptions& options, int outputs) {
  constexpr double kPass = 0.01, kRow = 8e-4;
  DraftLength control(options);
  const auto round = [&](std::uint32_t request, std::size_t drafts, bool kept) {
    const std::size_t accepted = kept ? drafts : 0;
    const double seconds = kPass + kRow * static_cast<double>(drafts);
    observe(control,
            {{.id = request,
              .drafted = drafts,
              .examined = kept ? drafts : std::min<std::size_t>(drafts, 1),
              .accepted = accepted}},
            {.rows = 1 + drafts,
             .target_seconds = seconds,
             .drafted = drafts,
             .drafter_seconds = drafts > 0 ? 1e-4 : 1e-6});
    return seconds;
  };
  const auto good = [&] {
    for (int i = 0; i < 8; ++i) round(0, i % 4 == 0 ? 0 : 8, true);
  };
  for (int i = 0; i < 8; ++i) good();
  double seconds = 0.0;
  for (int i = 0; i < outputs; ++i) {
    seconds += round(1, plan(control, {{.id = 1, .limit = 8}})[0], false);
    good();
  }
  return seconds / kPass - outputs;
}

TEST(DraftLength, ATextLosesNoMoreThanItsCredit) {
  for (const DraftLengthOptions& options :
       {DraftLengthOptions(), DraftLengthOptions{.most_credit = 1.0}}) {
    const double credit = DraftLength(options).credit(), share = options.credit_share;
    for (const int outputs : {5, 10, 20, 40, 80}) {
      EXPECT_LE(lost_on_a_bad_text(options, outputs), credit + (share + 0.01) * outputs) << outputs;
    }
  }
  EXPECT_GT(lost_on_a_bad_text({.credit = 1e9}, 20),
            2.0);  // the cost of learning it from this text alone
}

TEST(DraftLength, APromptIsReadWhereTheTextMayStillBecomeLong) {
  DraftLength control = seasoned({}, 40);
  observe(control, {}, {.read = 500, .read_seconds = 0.05});
  plan(control, {{.id = 1, .limit = 8}});  // a plain round, as reference
  const auto length = [&](SequencePlan sequence) { return plan(control, {sequence})[0]; };
  // A thousand tokens take as long as ten outputs.
  EXPECT_EQ(length({.id = 1, .limit = 4, .unread = 1000, .remaining = 100}), 0U);
  EXPECT_EQ(length({.id = 1, .limit = 4, .unread = 200, .remaining = 100}), 4U);
  EXPECT_EQ(length({.id = 1, .limit = 4, .remaining = 100}), 4U);
  EXPECT_EQ(length({.id = 1, .limit = 4, .deterministic = true, .unread = 1000}), 4U);
  // Texts may become long, but have not been so far.
  const SequencePlan open{.id = 1, .limit = 4, .unread = 1000, .remaining = 1000};
  EXPECT_EQ(length(open), 0U);
  for (SequenceId id = 2; id < 20; ++id) {
    for (int round = 0; round < 1000; ++round) {
      observe(control, {{.id = id, .done = round == 999}}, {.rows = 1, .target_seconds = 0.01});
    }
  }
  EXPECT_GT(length(open), 0U);
}

TEST(DraftLength, WhatReadingCostIsNotLostAgainToDrafts) {
  DraftLength control = seasoned({.most_credit = 1.0}, 40);
  observe(control, {}, {.read = 500, .read_seconds = 0.05});
  plan(control, {{.id = 1, .limit = 8}});
  // Two outputs' worth is read, of the 1 + 0.02 * 60 that the text may lose: what is left covers no
  // draft near its end, and covers one while much is ahead.
  observe(control, {{.id = 1, .read = 200}},
          {.rows = 1, .target_seconds = 0.01, .read = 200, .read_seconds = 0.02});
  EXPECT_FALSE(control.worth_reading({.id = 1, .unread = 100, .remaining = 60}));
  EXPECT_TRUE(control.affords({.id = 1, .remaining = 60}, 1));
  EXPECT_FALSE(control.affords({.id = 1, .remaining = 10}, 1));
  EXPECT_TRUE(control.affords({.id = 2, .remaining = 10}, 1));
}

TEST(DraftLength, ReadersPayForWhatTheyRead) {
  DraftLength control = seasoned({}, 40);
  plan(control, {{.id = 1, .limit = 8}, {.id = 2, .limit = 8}, {.id = 3, .limit = 8}});
  // Three texts make an output each in a pass; the time of 1.2 outputs is read, of one for one
  // text.
  observe(control, {{.id = 1, .read = 100}, {.id = 2, .read = 20}, {.id = 3}},
          {.rows = 3, .target_seconds = 0.01, .read = 120, .read_seconds = 0.004});
  const auto most = [&](SequenceId id) {  // outputs that it may yet spend on reading
    std::size_t tokens = 0;
    while (control.worth_reading({.id = id, .unread = tokens + 1, .remaining = 100}, 0)) ++tokens;
    return static_cast<double>(tokens) / 100.0;
  };
  EXPECT_NEAR(most(3) - most(1), 1.0, 0.1);
  EXPECT_NEAR(most(3) - most(2), 0.2, 0.05);
}

TEST(DraftLength, ATextThatReadDraftsOnWhatIsLeft) {
  DraftLength control = seasoned({.credit = 0.05, .most_credit = 0.05}, 40);
  plan(control, {{.id = 1, .limit = 8}});
  observe(control, {{.id = 1, .read = 200}},
          {.rows = 1, .target_seconds = 0.01, .read = 200, .read_seconds = 0.02});
  // Two outputs of reading: 100 outputs ahead cover them, ten do not.
  EXPECT_GT(plan(control, {{.id = 1, .limit = 4, .remaining = 110}})[0], 0U);
  EXPECT_EQ(plan(control, {{.id = 1, .limit = 4, .remaining = 10}})[0], 0U);
  EXPECT_EQ(control.covers(1, 1), false);
}

// A text that ends after `rounds`, each with `drafts`, of which `kept` are kept.
void end_text(DraftLength& control, SequenceId id, int rounds, std::size_t drafts,
              std::size_t kept) {
  for (int i = 0; i < rounds; ++i) {
    observe(control,
            {{.id = id,
              .deterministic = true,
              .drafted = drafts,
              .examined = std::min(drafts, kept + 1),
              .accepted = kept,
              .done = i + 1 == rounds}},
            {.rows = 1 + drafts, .target_seconds = 0.01 + 5e-4 * static_cast<double>(drafts)});
  }
}

TEST(DraftLength, TextsThatGainGiveOthersCreditAndTextsThatLoseTakeIt) {
  DraftLength control;
  EXPECT_DOUBLE_EQ(control.credit(), 4.0);
  for (int i = 0; i < 10; ++i) observe(control, {}, {.rows = 1, .target_seconds = 0.01});
  for (SequenceId id = 1; id < 30; ++id) end_text(control, id, 64, 4, 1);
  EXPECT_DOUBLE_EQ(control.credit(), 16.0);
  EXPECT_DOUBLE_EQ(control.report().credit, 16.0);
  // One that lost a little does not undo them, all do.
  end_text(control, 30, 100, 1, 0);
  EXPECT_GT(control.credit(), 12.0);
  for (SequenceId id = 31; id < 80; ++id) end_text(control, id, 100, 1, 0);
  EXPECT_DOUBLE_EQ(control.credit(), 1.0);
}

// However texts alternate, what is lost to credit is less than what others gain, beside the first
// texts' and the least credit.
TEST(DraftLength, CreditIsLessThanWhatTextsGain) {
  for (const double losing : {0.3, 0.7, 0.95}) {
    std::mt19937_64 random(5);
    DraftLength control;
    for (int i = 0; i < 10; ++i) observe(control, {}, {.rows = 1, .target_seconds = 0.01});
    double gained = 0.0, lost = 0.0, least = 0.0;
    for (SequenceId id = 1; id <= 4000; ++id) {
      const bool loses = std::uniform_real_distribution<double>()(random) < losing;
      const double credit = control.credit();
      (loses ? lost : gained) += loses ? credit : 20.0;
      least += loses ? DraftLengthOptions().credit : 0.0;
      // A hundred outputs: all plain, after reading for the credit; or 20 of them for nothing.
      const std::size_t kept = loses ? 0 : 20;
      observe(control, {{.id = id, .read = loses ? 1U : 0U, .examined = kept, .accepted = kept}},
              {.rows = 1,
               .target_seconds = 0.01,
               .read = loses ? 1U : 0U,
               .read_seconds = loses ? 0.01 * credit : 0.0});
      end_text(control, id, 99 - static_cast<int>(kept), 0, 0);
    }
    EXPECT_LT(lost, 0.6 * gained + least) << losing;
  }
}

TEST(DraftLength, DraftsAreDebitedByWhatThePassTookAtMostTwiceTheExpected) {
  // Outputs that a text may still spend after a round with four drafts, none of them kept.
  const auto left = [](double seconds) {
    DraftLength control({.credit = 2.0, .most_credit = 2.0});
    for (int i = 0; i < 40; ++i) {
      observe(control, {}, {.rows = 1, .target_seconds = 0.01});
      observe(control, {},
              {.rows = 5, .target_seconds = 0.014, .drafted = 100, .drafter_seconds = 0.01});
    }
    plan(control, {{.id = 1, .limit = 4, .deterministic = true}});
    observe(control, {{.id = 1, .deterministic = true, .drafted = 4, .examined = 1}},
            {.rows = 5, .target_seconds = seconds});
    std::size_t tokens = 0;  // of a hundredth of an output each
    while (control.affords({.id = 1}, tokens + 1)) ++tokens;
    return 0.01 * static_cast<double>(tokens);
  };
  EXPECT_NEAR(left(0.014), 2.02 - 0.4, 0.05);
  EXPECT_NEAR(left(0.016), 2.02 - 0.6, 0.05);
  EXPECT_NEAR(left(0.0125), 2.02 - 0.25, 0.05);
  EXPECT_NEAR(left(0.05), 2.02 - 0.8, 0.15);
  EXPECT_NEAR(left(0.0105), 2.02 - 0.05, 0.05);
}

// A pass with prompts says nothing of what an output costs: the engine gives no time for it.
TEST(DraftLength, NothingIsDebitedWhileNoPassIsKnown) {
  DraftLength control;
  plan(control, {{.id = 1, .limit = 4}});
  observe(control, {{.id = 1, .made = 4, .read = 100}},
          {.drafted = 4,
           .drafter_seconds = 0.01,
           .rest_seconds = 1e-5,
           .read = 100,
           .read_seconds = 0.01});
  EXPECT_FALSE(control.affords({.id = 1, .remaining = 100}, 1));
  observe(control, {{.id = 1}}, {.rows = 1, .target_seconds = 0.1});
  EXPECT_TRUE(control.affords({.id = 1, .remaining = 100}, 1));
}

// Rounds of one sequence, told to the controller: what its pass and its drafts took.
void round_of(DraftLength& control, std::size_t made, double pass, double drafter) {
  SequenceOutcome outcome{.id = 1, .deterministic = true, .made = made, .tree = true};
  control.observe({&outcome, 1},
                  {.rows = 1, .target_seconds = pass, .drafted = made, .drafter_seconds = drafter});
}

TEST(DraftLength, DraftsAfterAPauseDoNotTellWhatDraftingCosts) {
  DraftLength control;
  for (int i = 0; i < 4; ++i) round_of(control, 0, 0.004, 0.0);
  round_of(control, 6, 0.004, 0.009);  // reads, and nothing is in the caches
  EXPECT_EQ(control.making_seconds(6), 0.0);
  for (int i = 0; i < 3; ++i) round_of(control, 6, 0.004, 0.001);
  EXPECT_NEAR(control.making_seconds(6), 0.001, 1e-6);
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 8; ++j) round_of(control, 0, 0.004, 0.0);
    round_of(control, 6, 0.004, 0.003);
  }
  EXPECT_NEAR(control.making_seconds(6), 0.001, 1e-6);
  for (int i = 0; i < 40; ++i) {  // it runs every other round: that is what it costs
    round_of(control, 0, 0.004, 0.0);
    round_of(control, 6, 0.004, 0.002);
  }
  EXPECT_NEAR(control.making_seconds(6), 0.002, 1e-4);
}

TEST(DraftLength, WhatDraftsCostFollowsPassesWhileNothingIsDrafted) {
  DraftLength control;
  for (int i = 0; i < 20; ++i) round_of(control, i > 3 ? 6 : 0, 0.008, i > 3 ? 0.002 : 0.0);
  EXPECT_NEAR(control.making_seconds(6), 0.002, 1e-5);
  for (int i = 0; i < 40; ++i) round_of(control, 0, 0.004, 0.0);  // the machine is free again
  EXPECT_NEAR(control.making_seconds(6), 0.001, 1e-4);
}

// Passes of a size that was not measured for long correct what was thought of it: that tells
// nothing of the machine.
TEST(DraftLength, WhatDraftsCostDoesNotFollowACorrection) {
  DraftLength control;
  const auto pass = [&](std::size_t rows, std::size_t made, double seconds) {
    const SequenceOutcome outcome{.id = 1, .deterministic = true, .made = made, .tree = true};
    control.observe({&outcome, 1}, {.rows = rows,
                                    .target_seconds = seconds,
                                    .drafted = made,
                                    .drafter_seconds = made > 0 ? 0.001 : 0.0});
  };
  for (int i = 0; i < 8; ++i) pass(1, 0, 0.004);
  for (int i = 0; i < 40; ++i) pass(1, 6, 0.004);
  for (int i = 0; i < 600; ++i) pass(8, 6, 0.010);  // in company; the size of one row expires
  for (int i = 0; i < 8; ++i) pass(1, 0, 0.004);
  EXPECT_NEAR(control.making_seconds(6), 0.001, 1e-5);
}

}  // namespace
}  // namespace forerun
