#include "forerun/core/rule.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/core/token_rule.h"
#include "tests/support/broken_rules.h"
#include "tests/support/laws.h"

namespace forerun {
namespace {

using support::counts_of;
using support::exact_probabilities;
using support::law_of;
using support::OwnedLaw;

constexpr std::array kRules = {Rule::kMaximal,     Rule::kBlock,   Rule::kMatch,
                               Rule::kSharedNoise, Rule::kTypical, Rule::kRatioOnSearch};
constexpr std::array kOrigins = {Origin::kChosen, Origin::kSearched, Origin::kSampled};
constexpr std::uint32_t kRuleTries = 100000;

RngKey place(std::uint32_t i) {
  return {.seed = 31, .request = i / 5000, .round = i % 4, .position = i % 5000};
}

// Target and draft differ enough to expose every bias; the argmax differs as well.
struct Fixture {
  OwnedLaw target = law_of({0.15, 0.4, 0.25, 0.2});
  OwnedLaw draft = law_of({0.4, 0.3, 0.2, 0.1});

  TokenDraft drafted(Origin origin, const RngKey& key) const {
    const Categorical& q = draft;
    const double u = key.uniform(Purpose::kDraft);
    TokenDraft d{.tokens = {origin == Origin::kSampled ? q.sample(u) : q.argmax()},
                 .origin = origin};
    if (origin != Origin::kChosen) d.laws.push_back(q);
    return d;
  }
};

template <class AnyRule>
std::vector<std::size_t> outputs(const Fixture& f, const AnyRule& rule, Origin origin) {
  return counts_of(4, kRuleTries, [&](std::uint32_t i) {
    return rule.couple(f.target.law(), f.drafted(origin, place(i)), 0, place(i)).value;
  });
}

// Chi-square at 1e-5, twelve times: fails by chance below 2e-4.
TEST(TokenRule, ExactRulesGiveTheTargetsLawForEveryOrigin) {
  const Fixture f;
  const auto p = exact_probabilities(f.target);
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock, Rule::kMatch, Rule::kSharedNoise}) {
    for (const Origin origin : kOrigins) {
      EXPECT_GT(chi_square_p(p, outputs(f, TokenRule(rule), origin)), 1e-5)
          << name_of(rule) << " on origin " << static_cast<int>(origin);
    }
  }
}

TEST(TokenRule, ChiSquareRejectsTheInexactRulesAndAResampledTarget) {
  const Fixture f;
  const auto p = exact_probabilities(f.target);
  for (const Origin origin : kOrigins) {
    EXPECT_LT(chi_square_p(p, outputs(f, TokenRule(Rule::kTypical), origin)), 1e-9);
  }
  EXPECT_LT(chi_square_p(p, outputs(f, TokenRule(Rule::kRatioOnSearch), Origin::kSearched)), 1e-9);
  // The ratio test itself is right for a sampled draft.
  EXPECT_GT(chi_square_p(p, outputs(f, TokenRule(Rule::kRatioOnSearch), Origin::kSampled)), 1e-5);
  const support::RuleOf<support::resample_from_target> resample;
  EXPECT_LT(chi_square_p(p, outputs(f, resample, Origin::kSampled)), 1e-9);
}

TEST(TokenRule, MaximalNeverJudgesASearchedDraftByItsScore) {
  const Fixture f;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const TokenLaw target = f.target.law();
    for (const Origin origin : {Origin::kChosen, Origin::kSearched}) {
      const TokenDraft draft = f.drafted(origin, place(i));
      const auto maximal = TokenRule(Rule::kMaximal).couple(target, draft, 0, place(i));
      const auto match = TokenRule(Rule::kMatch).couple(target, draft, 0, place(i));
      ASSERT_EQ(maximal.value, match.value);
      ASSERT_EQ(maximal.accepted, match.accepted);
    }
  }
}

TEST(TokenRule, UnderGreedyDecodingEveryRuleKeepsTheTargetsTokenAndNoOther) {
  const Fixture f;
  const TokenLaw greedy = PointMass{1};
  for (const Rule rule : kRules) {
    for (const Origin origin : kOrigins) {
      for (std::uint32_t i = 0; i < 50; ++i) {
        const TokenDraft draft = f.drafted(origin, place(i));
        const auto out = TokenRule(rule).couple(greedy, draft, 0, place(i));
        ASSERT_EQ(out.value, 1);
        ASSERT_EQ(out.accepted, draft.tokens[0] == 1);
      }
    }
    EXPECT_EQ(TokenRule(rule).draw(greedy, place(1)), 1);
  }
}

TEST(TokenRule, CouplesTheRequestedStep) {
  const OwnedLaw certain = law_of({0.0, 0.0, 1.0});
  const OwnedLaw even = law_of({0.5, 0.5, 0.0});
  TokenDraft draft{.tokens = {0, 2}, .laws = {even, certain}, .origin = Origin::kSampled};
  for (const Rule rule : kRules) {
    const auto out = TokenRule(rule).couple(certain.law(), draft, 1, place(3));
    EXPECT_EQ(out.value, 2);
    EXPECT_TRUE(out.accepted);
  }
  EXPECT_FALSE(TokenRule(Rule::kMaximal).couple(certain.law(), draft, 0, place(3)).accepted);
}

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no exception";
}

TEST(TokenRule, RefusesDraftsThatLackTheLawsTheRuleNeeds) {
  const Fixture f;
  const TokenLaw target = f.target.law();
  const TokenDraft chosen = f.drafted(Origin::kChosen, place(0));
  const auto ratio = [&] { TokenRule(Rule::kRatioOnSearch).couple(target, chosen, 0, place(0)); };
  EXPECT_NE(message_of(ratio).find("--rule maximal"), std::string::npos);
  TokenDraft lawless = f.drafted(Origin::kSampled, place(0));
  lawless.laws.clear();
  const auto maximal = [&] { TokenRule(Rule::kMaximal).couple(target, lawless, 0, place(0)); };
  EXPECT_NE(message_of(maximal).find("law"), std::string::npos);
}

// Chi-square at 1e-5 for each rule: fails by chance below 1e-4.
TEST(TokenRule, UndraftedOutputsFollowTheTargetUnderEveryRule) {
  const Fixture f;
  const auto p = exact_probabilities(f.target);
  for (const Rule rule : kRules) {
    const auto counts = counts_of(4, kRuleTries, [&](std::uint32_t i) {
      return TokenRule(rule).draw(f.target.law(), place(i));
    });
    EXPECT_GT(chi_square_p(p, counts), 1e-5) << name_of(rule);
    EXPECT_LT(chi_square_p(exact_probabilities(f.draft), counts), 1e-9);
  }
}

TEST(TokenRule, SharedNoiseGivesOneTokenDraftedOrNot) {
  const Fixture f;
  const TokenRule rule(Rule::kSharedNoise);
  for (std::uint32_t i = 0; i < 500; ++i) {
    const Token plain = rule.draw(f.target.law(), place(i));
    ASSERT_EQ(plain, sample_shared_noise(f.target, place(i)).token);
    for (const Origin origin : kOrigins) {
      const TokenDraft draft = f.drafted(origin, place(i));
      ASSERT_EQ(rule.couple(f.target.law(), draft, 0, place(i)).value, plain);
    }
  }
}

TEST(Rule, NamesRoundTripAndOnlyFourAreExact) {
  for (const Rule rule : kRules) {
    EXPECT_EQ(rule_from_name(name_of(rule)), rule);
    EXPECT_EQ(TokenRule(rule).rule(), rule);
    EXPECT_EQ(is_exact(rule), rule != Rule::kTypical && rule != Rule::kRatioOnSearch)
        << name_of(rule);
  }
  EXPECT_EQ(name_of(Rule::kSharedNoise), "shared-noise");
  EXPECT_EQ(name_of(Rule::kRatioOnSearch), "ratio-on-search");
  for (const char* unknown : {"", "Maximal", "maximal ", "speculative"}) {
    EXPECT_EQ(rule_from_name(unknown), std::nullopt);
  }
}

}  // namespace
}  // namespace forerun
