#include "forerun/core/draft_length.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/support/draft_length_rounds.h"
#include "tests/support/laws.h"

namespace forerun {
namespace {

using namespace rounds;

using Tokens = std::vector<Token>;

TEST(DraftLength, TheFirstRoundIsPlainThenDraftsGrowStepwise) {
  DraftLength control;
  const std::vector<SequencePlan> sequence{{.id = 7, .limit = 16, .deterministic = true}};
  const auto round = [&] {
    const std::uint32_t k = control.plan(sequence)[0];
    observe(control, {{.id = 7, .deterministic = true, .drafted = k, .examined = k, .accepted = k}},
            {.rows = 1 + k, .target_seconds = 0.01 + 1e-4 * k, .drafter_seconds = 1e-5});
    return k;
  };
  Lengths lengths;
  for (int i = 0; i < 6; ++i) lengths.push_back(round());
  EXPECT_EQ(lengths, (Lengths{0, 1, 3, 7, 15, 16}));
}

TEST(DraftLength, DraftsNothingForNoSequencesAndNothingBeyondALimit) {
  DraftLength control = seasoned({}, 40);
  plan(control, {{.id = 0, .limit = 8}});  // a plain round, as reference
  EXPECT_EQ(plan(control, {}), Lengths{});
  EXPECT_EQ(plan(control, {{.id = 0, .limit = 0}}), Lengths{0});
  EXPECT_EQ(plan(control, {{.id = 0, .limit = 0}, {.id = 1, .limit = 3}}), (Lengths{0, 3}));
  observe(control, {}, {});
  DraftLength fresh;
  EXPECT_EQ(plan(fresh, {}), Lengths{});
}

TEST(DraftLength, LimitsATreeByWhatRowsCost) {
  const auto grows = [](GrowthLimit limit) {
    std::size_t n = 0;
    while (n < 15 && limit.grow(0.2)) ++n;
    return n;
  };
  EXPECT_EQ(grows(DraftLength().growth_limit(15, 0)), 15U);  // no pass is known
  DraftLength cheap, dear, fixed({.adaptive = false});
  for (std::size_t rows = 1; rows <= 16; rows *= 2) {
    const auto pass = [&](double row) {
      return PassSeen{.rows = rows, .target_seconds = 0.01 * (1.0 + row * (rows - 1.0))};
    };
    observe(cheap, {}, pass(0.05));
    observe(dear, {}, pass(0.5));
    observe(fixed, {}, pass(0.5));
  }
  EXPECT_EQ(grows(cheap.growth_limit(15, 0)), 15U);
  EXPECT_EQ(grows(dear.growth_limit(15, 0)), GrowthLimit::kLeast);
  EXPECT_EQ(grows(fixed.growth_limit(15, 0)), 15U);
  // Drafts that took long to make are worth more rows.
  for (int i = 0; i < 8; ++i) {
    observe(dear, {}, {.rows = 1, .target_seconds = 0.01, .drafted = 5, .drafter_seconds = 0.02});
  }
  EXPECT_NEAR(dear.making_seconds(5), 0.02, 0.001);
  EXPECT_GT(grows(dear.growth_limit(15, 0, 5)), grows(dear.growth_limit(15, 0)));
}

TEST(DraftLength, FixedGivesEverySequenceItsLimit) {
  DraftLength control({.adaptive = false});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(plan(control, {{.id = 0, .limit = 5}, {.id = 1, .limit = 0}}), (Lengths{5, 0}));
    observe(control, {{.id = 0, .examined = 1}}, {.rows = 7, .target_seconds = 1.0});
  }
}

TEST(DraftLength, ChoosesWhatBruteForceDoes) {
  std::mt19937_64 random(4);
  const auto uniform = [&] { return std::uniform_real_distribution<double>()(random); };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<PassCost::Point> table;
    double seconds = 0.01;
    for (std::size_t m : {1, 2, 3, 4, 6, 8, 12, 16}) {
      table.push_back({m, seconds});
      seconds *= 1.0 + 0.4 * uniform() * (uniform() < 0.3 ? 3.0 : 0.3);
    }
    // The same figures as inside, from the same observations.
    DraftLength control({.credit = 1e9});
    PassCost pass;
    for (const PassCost::Point& p : table) {
      control.observe({}, {.rows = p.rows, .target_seconds = p.seconds});
      pass.observe(p.rows, p.seconds);
    }
    Acceptance acceptance;
    std::array<SequenceBias, 3> biases;
    std::vector<SequencePlan> sequences;
    for (std::uint32_t i = 0; i < 3; ++i) {
      sequences.push_back({.id = i, .limit = random() % 5, .confidence_bin = random() % 3});
    }
    for (int round = 0; round < 30; ++round) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        const std::size_t accepted = random() % (2 + i), examined = accepted + random() % 2;
        for (std::size_t j = 0; j < examined; ++j) {
          biases[i].observe(acceptance.probability(sequences[i].confidence_bin, j), j < accepted);
          acceptance.observe(sequences[i].confidence_bin, j, j < accepted);
        }
        biases[i].next_round();
        control.observe(std::array{SequenceOutcome{.id = i,
                                                   .confidence_bin = sequences[i].confidence_bin,
                                                   .drafted = examined,
                                                   .examined = examined,
                                                   .accepted = accepted}},
                        {});
        acceptance.next_round();
      }
    }
    const auto rate = [&](const Lengths& k) {
      double outputs = 3.0;
      for (std::size_t i = 0; i < 3; ++i) {
        double survival = 1.0;
        for (std::size_t j = 0; j < k[i]; ++j) {
          outputs += survival *=
              biases[i].apply(acceptance.probability(sequences[i].confidence_bin, j));
        }
      }
      return outputs / pass.seconds(3 + k[0] + k[1] + k[2]);
    };
    double best = 0.0;
    for (std::uint32_t a = 0; a <= sequences[0].limit; ++a) {
      for (std::uint32_t b = 0; b <= sequences[1].limit; ++b) {
        for (std::uint32_t c = 0; c <= sequences[2].limit; ++c)
          best = std::max(best, rate({a, b, c}));
      }
    }
    const double plain = rate({0, 0, 0});
    plan(control, sequences);  // the first round is plain
    const Lengths chosen = plan(control, sequences);
    if (best <= 1.02 * plain) best = plain;
    EXPECT_NEAR(rate(chosen) / best, 1.0, 1e-12) << "trial " << trial;
    EXPECT_NEAR(control.report().planned_per_second / best, 1.0, 1e-12);
    EXPECT_NEAR(control.report().plain_per_second / plain, 1.0, 1e-12);
  }
}

TEST(DraftLength, LearnsFromWhatItCutWithoutDraftingIt) {
  DraftLength control;
  const Tokens draft{5, 6, 7, 8};
  const auto emit = [&](const Tokens& d, const Tokens& outputs) {
    observe(control, {{.id = 1,
                       .confidence_bin = 2,
                       .deterministic = true,
                       .draft = d,
                       .draft_confidence_bin = 2,
                       .outputs = outputs}});
  };
  emit(draft, {5});
  emit({}, {6});
  emit({}, {1});
  const auto seen = control.report().acceptance;
  ASSERT_EQ(seen.size(), 3U);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_EQ(seen[j].confidence_bin, 2U);
    EXPECT_EQ(seen[j].position, j);
    EXPECT_GT(seen[j].examined, 0.9);
  }
  EXPECT_GT(seen[1].probability, seen[2].probability);
  // A rejected draft is settled and counts once; tokens after the rejection are not examined.
  observe(control, {{.id = 1,
                     .confidence_bin = 4,
                     .deterministic = true,
                     .drafted = 4,
                     .examined = 1,
                     .draft = draft,
                     .draft_confidence_bin = 4,
                     .outputs = Tokens{6}}});
  emit({}, {6});
  ASSERT_EQ(control.report().acceptance.size(), 4U);
  EXPECT_LE(control.report().acceptance.back().examined, 1.0);
}

TEST(DraftLength, AnUnusedDeterministicDraftIsJudgedToo) {
  DraftLength control;
  const Tokens draft{5, 6, 7};
  // The sequence had another draft, of confidence_bin 0, all of which was rejected.
  observe(control, {{.id = 1,
                     .drafted = 2,
                     .examined = 1,
                     .draft = draft,
                     .draft_confidence_bin = 3,
                     .outputs = Tokens{5}}});
  observe(control, {{.id = 1, .outputs = Tokens{6}}});
  const auto seen = control.report().acceptance;
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].confidence_bin, 0U);
  EXPECT_LT(seen[0].probability, 0.5);
  EXPECT_EQ(seen[1].confidence_bin, 3U);
  EXPECT_EQ(seen[2].position, 1U);
  EXPECT_GT(seen[2].probability, 0.5);
}

TEST(DraftLength, ExpectsHigherThroughputOfFrequentAcceptanceAndLowCost) {
  DraftLength control = seasoned({}, 40);
  const double queried = control.best_throughput({.id = 0, .limit = 4});
  EXPECT_GT(queried, 300.0);  // outputs a second; 100 without drafts
  EXPECT_GT(control.best_throughput({.id = 0, .limit = 4, .deterministic = true}), 1.005 * queried);
  EXPECT_NEAR(control.best_throughput({.id = 0, .limit = 0}), 100.0, 5.0);
  EXPECT_EQ(DraftLength().best_throughput({.limit = 4}), 0.0);
}

TEST(DraftLength, ASequenceThatEndsIsForgotten) {
  DraftLength control;
  const Tokens draft{5, 6};
  observe(control,
          {{.id = 1, .deterministic = true, .done = true, .draft = draft, .outputs = Tokens{5}}});
  observe(control, {{.id = 1, .outputs = Tokens{6}}});
  EXPECT_EQ(control.report().acceptance.size(), 1U);
  observe(control, {{.id = 2, .deterministic = true, .draft = draft, .outputs = Tokens{5}}});
  control.forget(2);
  observe(control, {{.id = 2, .outputs = Tokens{6}}});
  EXPECT_EQ(control.report().acceptance.size(), 1U);
}

TEST(DraftLength, InvalidTimesChangeNothing) {
  DraftLength control = seasoned({}, 40), same = seasoned({}, 40);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -1.0, 0.0,
                           std::numeric_limits<double>::infinity()}) {
    observe(control, {}, {5, bad, 4, bad, bad});
  }
  const DraftLengthReport a = control.report(), b = same.report();
  ASSERT_EQ(a.pass.size(), b.pass.size());
  for (std::size_t i = 0; i < a.pass.size(); ++i) EXPECT_EQ(a.pass[i].seconds, b.pass[i].seconds);
  EXPECT_EQ(a.draft_token_seconds, b.draft_token_seconds);
  EXPECT_EQ(a.rest_seconds, b.rest_seconds);
  EXPECT_EQ(plan(control, {{.id = 0, .limit = 8}}), plan(same, {{.id = 0, .limit = 8}}));
}

TEST(DraftLength, RefusesCountsAndBinsThatCannotBe) {
  DraftLength control;
  EXPECT_THROW(plan(control, {{.limit = 1, .confidence_bin = kConfidenceBins}}),
               std::invalid_argument);
  EXPECT_THROW(observe(control, {{.confidence_bin = kConfidenceBins}}), std::invalid_argument);
  EXPECT_THROW(observe(control, {{.draft_confidence_bin = kConfidenceBins}}),
               std::invalid_argument);
  EXPECT_THROW(
      static_cast<void>(control.best_throughput({.limit = 1, .confidence_bin = kConfidenceBins})),
      std::invalid_argument);
  EXPECT_THROW(observe(control, {{.examined = 1, .accepted = 2}}), std::invalid_argument);
  EXPECT_THROW(observe(control, {{.examined = 3, .accepted = 1}}), std::invalid_argument);
}

TEST(DraftLength, ProbesRarelyAndDearOnesMoreRarely) {
  const auto probes = [](double token_seconds, int rounds) {
    DraftLength control;
    double plain = 0.0, probing = 0.0;
    for (int i = 0; i < rounds; ++i) {
      const std::uint32_t k = plan(control, {{.id = 0, .limit = 8}})[0];
      const double pass = 0.01 * (1.0 + 0.02 * k), draft = token_seconds * k;
      observe(control, {{.id = 0, .examined = std::min(k, 1U)}},
              {.rows = 1 + k, .target_seconds = pass, .drafted = k, .drafter_seconds = draft});
      (k > 0 ? probing : plain) += pass + draft - (k > 0 ? 0.01 : 0.0);
    }
    EXPECT_LT(probing, 0.02 * plain);
    return control.report().probes;
  };
  const std::uint64_t cheap = probes(1e-5, 2000), dear = probes(0.01, 2000);
  EXPECT_GE(cheap, 8U);  // about 32, 64, 128, then every 256 rounds
  EXPECT_LE(cheap, 13U);
  EXPECT_GE(dear, 5U);
  EXPECT_LT(dear, cheap + 1);
}

TEST(DraftLength, LooksAtAPlainRoundSoonAfterOnlyPassesWithDraftsGotDearer) {
  DraftLength control = seasoned({}, 0);
  std::vector<int> plain;  // rounds
  for (int i = 0; i < 250; ++i) {
    const std::uint32_t k = plan(control, {{.id = 0, .limit = 4}})[0];
    if (k == 0) plain.push_back(i);
    observe(control, {{.id = 0, .examined = k, .accepted = k}},
            {.rows = 1 + k,
             .target_seconds = k == 0   ? 0.01
                               : i < 60 ? 0.011
                                        : 0.025});
  }
  EXPECT_EQ(std::count_if(plain.begin(), plain.end(), [](int i) { return i > 8 && i < 60; }), 0);
  EXPECT_GE(std::count_if(plain.begin(), plain.end(), [](int i) { return i >= 60 && i < 72; }), 1);
  EXPECT_LE(std::count_if(plain.begin(), plain.end(), [](int i) { return i >= 72; }), 6);
}

TEST(DraftLength, SaysBeforeDraftsAreMadeThatTheNextRoundIsPlain) {
  DraftLength control = seasoned({}, 0);
  int measured = 0;
  for (int i = 0; i < 300; ++i) {
    const bool measure = control.measure_next();
    const std::uint32_t k = plan(control, {{.id = 0, .limit = 4}})[0];
    EXPECT_EQ(control.measuring(), measure) << i;
    EXPECT_EQ(k == 0, measure) << i;
    measured += measure ? 1 : 0;
    observe(control, {{.id = 0, .examined = k, .accepted = k}},
            {.rows = 1 + k, .target_seconds = k == 0 ? 0.01 : 0.011});
  }
  EXPECT_GE(measured, 2);
  EXPECT_LE(measured, 5);
  EXPECT_FALSE(DraftLength({.adaptive = false}).measure_next());
  // One question counts for one plan.
  DraftLength fresh;
  EXPECT_TRUE(fresh.measure_next());
  plan(fresh, {{.id = 0, .limit = 4}});
  observe(fresh, {{.id = 0}}, {.rows = 1, .target_seconds = 0.01});
  EXPECT_FALSE(fresh.measure_next());
}

TEST(DraftLength, ReportsWhatItDid) {
  DraftLength control = seasoned({}, 40);
  for (int i = 0; i < 3; ++i) plan(control, {{.id = 0, .limit = 4}});
  const DraftLengthReport r = control.report();
  EXPECT_EQ(r.lengths, Lengths{4});
  EXPECT_EQ(r.chosen, (std::vector<std::uint64_t>{1, 0, 0, 0, 2}));
  EXPECT_EQ(r.plain_checks, 1U);
  EXPECT_GT(r.planned_per_second, 3.0 * r.plain_per_second);
  EXPECT_NEAR(r.plain_per_second, 100.0, 5.0);
  EXPECT_NEAR(r.draft_token_seconds, 2.5e-5, 1e-6);
  ASSERT_EQ(r.acceptance.size(), 4U);
  EXPECT_GT(r.acceptance[0].probability, 0.9);
}

TEST(DraftLength, ASampledDraftIsNotCutAfterIt) {
  DraftLength control;
  EXPECT_THROW(plan(control, {{.limit = 4, .deterministic = true, .origin = Origin::kSampled}}),
               std::invalid_argument);
  EXPECT_NO_THROW(plan(control, {{.limit = 4, .origin = Origin::kSampled}}));
  EXPECT_THROW(observe(control, {{.draft = Tokens{1}, .draft_origin = Origin::kSampled}}),
               std::invalid_argument);
  TokenDraft sampled{.tokens = {1, 2, 3}, .origin = Origin::kSampled};
  EXPECT_THROW(cut(sampled, 2), std::invalid_argument);
  EXPECT_NO_THROW(cut(sampled, 3));
  const support::OwnedLaw law = support::law_of({0.5, 0.5});
  TokenDraft searched{.tokens = {1, 0}, .laws = {law, law}, .origin = Origin::kSearched};
  cut(searched, 1);
  EXPECT_EQ(searched.tokens, Tokens{1});
  EXPECT_EQ(searched.laws.size(), 1U);
}

}  // namespace
}  // namespace forerun
