#include "forerun/core/certificate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "forerun/core/rng_key.h"
#include "forerun/core/rule.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/core/token_rule.h"
#include "tests/support/broken_rules.h"
#include "tests/support/samples.h"
#include "tests/support/toy_chain.h"

namespace forerun {
namespace {

using support::always;
using support::law_of;
using support::MarkovTable;
using support::OwnedLaw;
using support::ToyDrafter;
using support::ToyTarget;

// A toy model of 50 tokens whose conditionals depend on the last one, and a drafter close to it.
const MarkovTable& target_table() {
  static const MarkovTable table(50, 1, 3, 2.0F);
  return table;
}
const MarkovTable& draft_table() {
  static const MarkovTable table = MarkovTable::near(target_table(), 4, 1.0F);
  return table;
}
// The scores of a run sampled at temperature 1 and certified at 0.8.
const MarkovTable& cooled_table() {
  static const MarkovTable table = MarkovTable::near(target_table(), 5, 0.0F, 0.8F);
  return table;
}

// Scores every output of every round again, from the text alone.
struct Scorer {
  const MarkovTable& table;
  TokenCertificate certificate;
  bool kept_alone = false;  // MUTANT: the output after the kept drafts is left out of z

  template <class Round>
  void operator()(const Round& round) {
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const TokenSequence& sequence = *round.sequences[i];
      const TokenDraft& draft = round.drafts[i];
      const Outcome& outcome = round.outcomes[i];
      const std::size_t first = sequence.tokens().size() - outcome.emitted;
      for (std::uint32_t s = 0; s < outcome.emitted; ++s) {
        const Categorical& target = table.after(sequence.tokens().first(first + s));
        const Token y = sequence.tokens()[first + s];
        certificate.add_output(target, y,
                               sequence.key_at(first + s).uniform(Purpose::kCertificate));
        if (s >= (kept_alone ? outcome.accepted : outcome.examined)) continue;
        if (draft.origin == Origin::kSampled) {
          certificate.add_sampled_draft(target, draft.laws[s], y);
        } else {
          certificate.add_point_draft(target, draft.tokens[s], y);
        }
      }
    }
  }
};

template <class AnyRule>
CertificateReport certify(std::uint32_t run, std::size_t outputs, const AnyRule& rule,
                          ToyDrafter drafter, const MarkovTable& scored = target_table(),
                          bool kept_alone = false) {
  std::vector<TokenSequence> sequences;
  for (std::uint32_t i = 0; i < 4; ++i)
    sequences.emplace_back(1000 + run, i, std::vector<Token>{0}, outputs / 4);
  ToyTarget target(target_table());
  Scorer scorer{scored, {}, kept_alone};
  speculate<TokenSequence>(
      sequences, target, drafter, rule, [] { return true; }, scorer);
  return scorer.certificate.report();
}

ToyDrafter drafter_of(Origin origin) { return ToyDrafter(draft_table(), origin, always(3)); }

// 200 runs an exact pair: p-values and Phi(z) uniform by Kolmogorov-Smirnov at 1e-4, five pairs and
// two tests each: fails by chance below 1e-3. passed() fails 2.6 runs in 10,000: three of 1,000
// below 3e-3.
TEST(TokenCertificate, IsCalibratedUnderExactRules) {
  const std::vector<std::pair<Rule, Origin>> exact = {{Rule::kMaximal, Origin::kSampled},
                                                      {Rule::kBlock, Origin::kSampled},
                                                      {Rule::kMaximal, Origin::kSearched},
                                                      {Rule::kMatch, Origin::kSampled},
                                                      {Rule::kSharedNoise, Origin::kSampled}};
  int failed = 0;
  for (const auto& [rule, origin] : exact) {
    std::vector<double> ks, z;
    for (std::uint32_t run = 0; run < support::samples(200); ++run) {
      const CertificateReport r = certify(run, 400, TokenRule(rule), drafter_of(origin));
      ASSERT_EQ(r.outputs, 400U);
      ASSERT_GT(r.drafted, 200U);
      ASSERT_EQ(r.forbidden, 0U);
      ASSERT_EQ(r.energy_p, 1.0);
      ks.push_back(r.ks_p);
      z.push_back(normal_cdf(r.z));
      failed += r.passed() ? 0 : 1;
    }
    EXPECT_GT(ks_uniform(ks).p, 1e-4) << name_of(rule) << static_cast<int>(origin);
    EXPECT_GT(ks_uniform(z).p, 1e-4) << name_of(rule) << static_cast<int>(origin);
  }
  EXPECT_LE(failed, 2);
}

struct Power {
  int caught = 0;
  double mean_abs_z = 0.0;
};

constexpr int kRuns = support::samples(20, 2);

Power power_of(const std::function<CertificateReport(std::uint32_t run)>& certified) {
  Power power;
  for (std::uint32_t run = 0; run < kRuns; ++run) {
    const CertificateReport r = certified(run);
    power.caught += r.passed() ? 0 : 1;
    power.mean_abs_z += std::abs(r.z) / kRuns;
  }
  return power;
}

void expect_caught(const std::string& name, const Power& power) {
  EXPECT_GE(power.caught, kRuns - 1) << name << ": mean |z| " << power.mean_abs_z;
  ::testing::Test::RecordProperty("mean_abs_z_of_" + name, std::to_string(power.mean_abs_z));
}

// Every biased rule is detected within 2,000 outputs in at least 19 of 20 runs.
TEST(TokenCertificate, CatchesEveryBiasedRuleOfTheLiterature) {
  const auto with = [](const auto& rule, Origin origin) {
    return power_of(
        [=](std::uint32_t run) { return certify(run, 2000, rule, drafter_of(origin)); });
  };
  expect_caught("typical", with(TokenRule(Rule::kTypical), Origin::kSampled));
  expect_caught("typical_on_search", with(TokenRule(Rule::kTypical), Origin::kSearched));
  expect_caught("ratio_on_search", with(TokenRule(Rule::kRatioOnSearch), Origin::kSearched));
  expect_caught("resample",
                with(support::RuleOf<support::resample_from_target>{}, Origin::kSampled));
  expect_caught("keep_every_draft",
                with(support::RuleOf<support::keep_every_draft>{}, Origin::kSampled));
}

// A block decision depends on later drafts, but not the law of an output given that the drafts
// before it were kept: so the first output that is no draft counts too.
TEST(TokenCertificate, OfABlockCountsTheOutputAfterTheKeptDrafts) {
  expect_caught("kept_alone", power_of([](std::uint32_t run) {
                  return certify(run, 2000, TokenRule(Rule::kBlock), drafter_of(Origin::kSampled),
                                 target_table(), true);
                }));
}

// An argmax draft labelled as a sample.
struct Mislabelled : ToyDrafter {
  using ToyDrafter::ToyDrafter;
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences) const {
    std::vector<TokenDraft> drafts = ToyDrafter::propose(sequences);
    for (TokenDraft& d : drafts) d.origin = Origin::kSampled;
    return drafts;
  }
};

TEST(TokenCertificate, CatchesASearchedDraftThatClaimsToBeASample) {
  expect_caught("mislabelled", power_of([](std::uint32_t run) {
                  std::vector<TokenSequence> sequences;
                  sequences.emplace_back(1000 + run, 0, std::vector<Token>{0}, 2000);
                  ToyTarget target(target_table());
                  Mislabelled drafter(draft_table(), Origin::kSearched, always(3));
                  Scorer scorer{target_table(), {}};
                  speculate<TokenSequence>(
                      sequences, target, drafter, TokenRule(Rule::kMaximal), [] { return true; },
                      scorer);
                  return scorer.certificate.report();
                }));
}

TEST(TokenCertificate, CatchesAWrongTemperatureWithoutAnyDraft) {
  expect_caught("wrong_temperature", power_of([](std::uint32_t run) {
                  const ToyDrafter none(draft_table(), Origin::kChosen, always(0));
                  return certify(run, 2000, TokenRule(Rule::kMaximal), none, cooled_table());
                }));
}

TEST(TokenCertificate, TransformsRankTokensByFallingProbabilityThenId) {
  const OwnedLaw law = law_of({0.2, 0.5, 0.0, 0.2, 0.1});
  TokenCertificate c;
  const std::vector<std::pair<Token, double>> outputs = {{1, 0.0}, {1, 0.5}, {0, 0.0},
                                                         {0, 0.5}, {3, 0.0}, {4, 0.5}};
  for (const auto& [y, v] : outputs) c.add_output(law, y, v);
  const std::vector<double> expected = {0.0, 0.25, 0.5, 0.6, 0.7, 0.95};
  ASSERT_EQ(c.transforms().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(c.transforms()[i], expected[i], 1e-7);
  }
}

TEST(TokenCertificate, ScoresFollowTheirFormulas) {
  const OwnedLaw p = law_of({0.5, 0.3, 0.2});
  const OwnedLaw q = law_of({0.2, 0.3, 0.5});
  TokenCertificate point;
  point.add_point_draft(p, 1, 1);  // 0.7, variance 0.21
  point.add_point_draft(p, 0, 2);  // -0.5, variance 0.25
  EXPECT_NEAR(point.report().z, 0.2 / std::sqrt(0.46), 1e-6);
  EXPECT_EQ(point.report().drafted, 2U);
  TokenCertificate sampled;
  sampled.add_sampled_draft(p, q, 2);
  const double a = std::log(0.4), b = std::log(2.5);  // scores of tokens 0 and 2; token 1 has 0
  const double mean = 0.5 * a + 0.2 * b;
  const double variance = 0.5 * a * a + 0.2 * b * b - mean * mean;
  EXPECT_NEAR(sampled.report().z, (b - mean) / std::sqrt(variance), 1e-6);
  TokenCertificate clipped;  // a log ratio of -20 is cut at -5
  clipped.add_sampled_draft(law_of({0.5, 0.25, 0.25}), law_of({0.0, 0.25, 0.75}), 0);
  const double c = std::log(3.0);
  const double cut_mean = -2.5 + 0.25 * c;
  const double cut_variance = 12.5 + 0.25 * c * c - cut_mean * cut_mean;
  EXPECT_NEAR(clipped.report().z, (-5.0 - cut_mean) / std::sqrt(cut_variance), 1e-6);
}

TEST(TokenCertificate, AForbiddenOutputFailsWhateverElseIsFine) {
  const OwnedLaw law = law_of({0.5, 0.5, 0.0});
  TokenCertificate c;
  for (int i = 0; i < 1000; ++i) c.add_output(law, i % 2, 0.5 * (i - i % 2 + 1) / 500.0);
  EXPECT_TRUE(c.report().passed());
  c.add_output(law, 2, 0.5);
  EXPECT_EQ(c.report().forbidden, 1U);
  EXPECT_EQ(c.report().outputs, 1001U);
  EXPECT_FALSE(c.report().passed());
}

TEST(TokenCertificate, ATargetWithoutChoiceIsHeldToIt) {
  const OwnedLaw certain = law_of({1.0, 0.0});
  TokenCertificate right, wrong;
  right.add_point_draft(certain, 0, 0);
  wrong.add_point_draft(certain, 1, 1);
  EXPECT_TRUE(right.report().passed());
  EXPECT_FALSE(wrong.report().passed());
  EXPECT_TRUE(TokenCertificate{}.report().passed());
  EXPECT_EQ(TokenCertificate{}.report().outputs, 0U);
}

// One accepted draft of probability 1e-3 gives z = 32; this happens in one exact run of a thousand.
TEST(TokenCertificate, AFewLuckyDraftsAreNoBiasAndManyAre) {
  const OwnedLaw law = law_of({0.999, 0.001});
  TokenCertificate one, twenty;
  one.add_point_draft(law, 1, 1);
  EXPECT_GT(one.report().z, 30.0);
  EXPECT_TRUE(one.report().passed());
  for (int i = 0; i < 20; ++i) twenty.add_point_draft(law, 1, i < 3 ? 1 : 0);
  EXPECT_FALSE(twenty.report().passed());
}

TEST(TokenCertificate, ReportFailsOnEachOfItsFindingsAlone) {
  EXPECT_TRUE(CertificateReport{}.passed());
  EXPECT_TRUE((CertificateReport{.z = -3.9}.passed()));
  EXPECT_FALSE((CertificateReport{.z = 4.1}.passed()));
  EXPECT_FALSE((CertificateReport{.z = -4.1}.passed()));
  EXPECT_FALSE((CertificateReport{.z = std::nan("")}.passed()));
  EXPECT_FALSE((CertificateReport{.ks_p = 9e-5}.passed()));
  EXPECT_FALSE((CertificateReport{.energy_p = 9e-5}.passed()));
  EXPECT_FALSE((CertificateReport{.ks_p = std::nan("")}.passed()));
  EXPECT_FALSE((CertificateReport{.forbidden = 1}.passed()));
}

TEST(TokenCertificate, RefusesTokensOutsideTheVocabulary) {
  const OwnedLaw law = law_of({0.5, 0.5});
  const OwnedLaw three = law_of({0.5, 0.25, 0.25});
  TokenCertificate c;
  for (const Token bad : {-1, 2}) {
    EXPECT_THROW(c.add_output(law, bad, 0.5), std::invalid_argument);
    EXPECT_THROW(c.add_point_draft(law, bad, 0), std::invalid_argument);
    EXPECT_THROW(c.add_sampled_draft(law, law, bad), std::invalid_argument);
  }
  EXPECT_THROW(c.add_sampled_draft(law, three, 0), std::invalid_argument);
  EXPECT_THROW(c.add_sampled_draft(three, law, 0), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
