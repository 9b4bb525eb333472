#include "forerun/core/couple.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "forerun/core/rng_key.h"
#include "forerun/core/tests_of_fit.h"
#include "tests/support/broken_rules.h"
#include "tests/support/laws.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using support::counts_of;
using support::exact_probabilities;
using support::five_sigma;
using support::law_of;
using support::OwnedLaw;
using support::random_law;

constexpr std::uint32_t kTrials = support::samples(1000000);
// Of a control: the nearest of the wrong laws has p = 1e-9 after 5,000.
constexpr std::uint32_t kControls = support::samples(100000, 10000);
constexpr double kLastU = 1.0 - 0x1p-53;

// Keys whose uniform is exactly 0 or the largest below 1. Philox is a bijection for each key, so
// they were found by inverting it from such words until the purpose matched.
constexpr RngKey kAcceptZero{7, 0xde29becdU, 0xcba7bfa1U, 0xc8bf7fa8U};
constexpr RngKey kResidualZero{7, 0xa59ed889U, 0x6fe9f0a0U, 0xc4f0f67fU};
constexpr RngKey kAcceptLast{7, 0xb70f5c4bU, 0x18163db0U, 0x70707b48U};
constexpr RngKey kResidualLast{7, 0xfbea2c9bU, 0xa84c3d18U, 0x34da3f1dU};

RngKey place(std::uint32_t i) { return {.seed = 17, .request = 1, .round = i % 3, .position = i}; }

struct Pair {
  std::string name;
  OwnedLaw target, draft;
};

std::vector<Pair> pairs() {
  std::vector<Pair> all;
  const auto add = [&](std::string name, OwnedLaw target, OwnedLaw draft) {
    all.push_back({std::move(name), std::move(target), std::move(draft)});
  };
  add("close", law_of({0.5, 0.3, 0.15, 0.05}), law_of({0.4, 0.3, 0.2, 0.1}));
  add("equal", law_of({0.5, 0.3, 0.15, 0.05}), law_of({0.5, 0.3, 0.15, 0.05}));
  add("disjoint", law_of({0.0, 0.3, 0.0, 0.7}), law_of({0.6, 0.0, 0.4, 0.0}));
  add("overlapping", law_of({0.0, 0.3, 0.5, 0.2}), law_of({0.6, 0.1, 0.3, 0.0}));
  add("one-hot target", law_of({0.0, 1.0, 0.0}), law_of({0.3, 0.3, 0.4}));
  add("one-hot draft", law_of({0.3, 0.3, 0.4}), law_of({0.0, 1.0, 0.0}));
  add("tiny ratios", law_of({1e-30, 1.0 - 1e-6, 1e-6}), law_of({1.0 - 1e-6, 1e-6, 1e-30}));
  add("many", random_law(1, 40, 1.5F), random_law(2, 40, 1.5F));
  return all;
}

// A draft sampled from its law, then coupled.
template <class Couple>
std::vector<std::size_t> output_counts(const Pair& pair, std::uint32_t tries, Couple couple_them) {
  return counts_of(pair.target.size(), tries, [&](std::uint32_t i) {
    const RngKey key = place(i);
    const Token drafted = pair.draft.law().sample(key.uniform(Purpose::kDraft));
    return couple_them(pair.target, pair.draft, drafted, key).value;
  });
}

const auto kMaximal = [](const Categorical& p, const Categorical& q, Token d, const RngKey& key) {
  return couple(p, q, d, key);
};

// Chi-square at 1e-5 for each of eight pairs: fails by chance below 1e-4.
TEST(Couple, OutputFollowsTargetWhateverTheDraft) {
  for (const Pair& pair : pairs()) {
    const auto counts = output_counts(pair, kTrials, kMaximal);
    EXPECT_GT(chi_square_p(exact_probabilities(pair.target), counts), 1e-5) << pair.name;
  }
}

TEST(Couple, ChiSquareRejectsKeepingEveryDraftAndResamplingFromTheTarget) {
  for (const Pair& pair : pairs()) {
    if (pair.name == "equal") continue;
    const auto p = exact_probabilities(pair.target);
    const auto kept = output_counts(pair, kControls, support::keep_every_draft);
    EXPECT_LT(chi_square_p(p, kept), 1e-9) << pair.name;
    const bool nothing_kept = pair.name == "disjoint";
    const bool nothing_else = pair.name == "one-hot target" || pair.name == "tiny ratios";
    if (nothing_kept || nothing_else) continue;  // there the residual is the target
    const auto resampled = output_counts(pair, kControls, support::resample_from_target);
    EXPECT_LT(chi_square_p(p, resampled), 1e-9) << pair.name;
  }
}

// The probability of each token of the residual: sample_residual is monotone in u, so bisection
// finds its steps to the last bit.
std::vector<double> residual_law(const Categorical& target, const Categorical& draft) {
  std::vector<double> law;
  double begin = 0.0;
  for (std::size_t t = 0; t < target.size(); ++t) {
    double low = begin, high = 1.0;
    if (sample_residual(target, draft, begin) > static_cast<Token>(t)) high = begin;
    for (int i = 0; i < 60 && low < high; ++i) {
      const double middle = 0.5 * (low + high);
      (sample_residual(target, draft, middle) > static_cast<Token>(t) ? high : low) = middle;
    }
    law.push_back(high - begin);
    begin = high;
  }
  return law;
}

TEST(Couple, KeptDraftsAndResidualAddUpToTheTargetExactly) {
  std::vector<Pair> all = pairs();
  all.push_back({"three blocks", random_law(5, 1300, 2.0F), random_law(6, 1300, 2.0F)});
  all.push_back({"nearly equal", law_of({0.5, 0.3, 0.2}), law_of({0.499999, 0.300001, 0.2})});
  for (const Pair& pair : all) {
    if (pair.name == "equal") continue;  // never rejected
    const auto p = exact_probabilities(pair.target);
    const auto q = exact_probabilities(pair.draft);
    const auto residual = residual_law(pair.target, pair.draft);
    const double reject = total_variation(pair.target, pair.draft);
    for (std::size_t y = 0; y < p.size(); ++y) {
      const double kept = q[y] > 0.0 ? q[y] * std::min(1.0, p[y] / q[y]) : 0.0;
      ASSERT_NEAR(kept + reject * residual[y], p[y], 1e-12) << pair.name << ", token " << y;
    }
  }
}

// The other term of that sum: a draft is kept iff its uniform lies below p/q, and what replaces it
// is the residual at its own uniform. Ratios within 1e-12 of the uniform would be skipped; there
// are none.
TEST(Couple, DecidesByTheUniformOfThePlaceAndTheRatio) {
  for (const Pair& pair : pairs()) {
    const auto p = exact_probabilities(pair.target);
    const auto q = exact_probabilities(pair.draft);
    for (std::uint32_t i = 0; i < 20000; ++i) {
      const RngKey key = place(i);
      const Token d = pair.draft.law().sample(key.uniform(Purpose::kDraft));
      const double ratio = p[static_cast<std::size_t>(d)] / q[static_cast<std::size_t>(d)];
      const double u = key.uniform(Purpose::kAccept);
      ASSERT_GT(std::abs(u - ratio), 1e-12);
      const Coupled<Token> out = couple(pair.target, pair.draft, d, key);
      ASSERT_EQ(out.accepted, u < ratio) << pair.name;
      const double v = key.uniform(Purpose::kResidual);
      ASSERT_EQ(out.value, out.accepted ? d : sample_residual(pair.target, pair.draft, v));
      // The residual contains nothing of a rejected draft.
      ASSERT_EQ(out.accepted, out.value == d);
    }
  }
}

// 5 sigma for each of eight pairs: fails by chance below 1e-4. The pair of tiny ratios contributes
// nearly all of it: it keeps two drafts in a million, and more than nine occur with probability
// below 5e-5.
TEST(Couple, RejectsWithProbabilityTotalVariation) {
  for (const Pair& pair : pairs()) {
    const double tv = total_variation(pair.target, pair.draft);
    const auto rejected = counts_of(2, kTrials, [&](std::uint32_t i) {
      const RngKey key = place(i);
      const Token d = pair.draft.law().sample(key.uniform(Purpose::kDraft));
      return couple(pair.target, pair.draft, d, key).accepted ? 0 : 1;
    });
    const double share = static_cast<double>(rejected[1]) / kTrials;
    EXPECT_NEAR(share, tv, five_sigma(tv, kTrials) + 1e-12) << pair.name;
  }
}

TEST(Couple, TheExtremeUniformsAreWhatTheyAreSaidToBe) {
  EXPECT_EQ(kAcceptZero.uniform(Purpose::kAccept), 0.0);
  EXPECT_EQ(kResidualZero.uniform(Purpose::kResidual), 0.0);
  EXPECT_EQ(kAcceptLast.uniform(Purpose::kAccept), kLastU);
  EXPECT_EQ(kResidualLast.uniform(Purpose::kResidual), kLastU);
}

TEST(Couple, NeverReturnsAForbiddenTokenEvenAtTheEndsOfTheUniforms) {
  const OwnedLaw target = law_of({0.0, 0.5, 0.5, 0.0});
  const OwnedLaw draft = law_of({0.5, 0.25, 0.0, 0.25});
  for (const RngKey& key : {kAcceptZero, kResidualZero, kAcceptLast, kResidualLast}) {
    for (const Token d : {0, 3}) {
      const Coupled<Token> out = couple(target, draft, d, key);
      EXPECT_FALSE(out.accepted);
      EXPECT_TRUE(out.value == 1 || out.value == 2) << out.value;
      const Coupled<Token> matched = couple(target, PointMass{d}, key);
      EXPECT_FALSE(matched.accepted);
      EXPECT_TRUE(matched.value == 1 || matched.value == 2) << matched.value;
    }
  }
  EXPECT_EQ(couple(target, draft, 0, kResidualZero).value, 1);
  EXPECT_EQ(couple(target, draft, 0, kResidualLast).value, 2);
}

TEST(Couple, EqualLawsNeverReject) {
  const OwnedLaw law = random_law(3, 600, 3.0F);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const Token d = law.law().sample(place(i).uniform(Purpose::kDraft));
    ASSERT_TRUE(couple(law, law, d, place(i)).accepted);
  }
  EXPECT_TRUE(couple(law, law, 0, kAcceptLast).accepted);
  // The branch without mass still returns a token of the target.
  EXPECT_EQ(sample_residual(law, law, 0.3), law.law().sample(0.3));
}

TEST(Couple, DecidesRightly600NatsApart) {
  const OwnedLaw low(std::vector<float>{-600.0F, 0.0F});
  const OwnedLaw high(std::vector<float>{0.0F, -600.0F});
  const OwnedLaw beyond(std::vector<float>{-1e30F, 0.0F});
  for (std::uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(couple(low, high, 0, place(i)).value, 1);
    EXPECT_TRUE(couple(high, low, 0, place(i)).accepted);
    EXPECT_EQ(couple(beyond, high, 0, place(i)).value, 1);
    EXPECT_TRUE(couple(high, beyond, 0, place(i)).accepted);
  }
  // p/q = e^-600 > 0: at u = 0 it is kept, as required.
  EXPECT_TRUE(couple(low, high, 0, kAcceptZero).accepted);
  EXPECT_FALSE(couple(law_of({0.0, 1.0}), high, 0, kAcceptZero).accepted);
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

TEST(Couple, RefusesDraftsItCannotJudge) {
  const OwnedLaw p = law_of({0.5, 0.5, 0.0});
  const OwnedLaw q = law_of({0.0, 0.5, 0.5});
  const OwnedLaw two = law_of({0.5, 0.5});
  const RngKey key = place(1);
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(message_of([&] { couple(p, q, 0, key); }), "PointMass"));
  for (const Token bad : {-1, 3, 1 << 30}) {
    EXPECT_TRUE(has(message_of([&] { couple(p, q, bad, key); }), std::to_string(bad).c_str()));
    EXPECT_TRUE(has(message_of([&] { couple(p, PointMass{bad}, key); }), "vocabulary of 3"));
    EXPECT_TRUE(has(message_of([&] { couple_shared_noise(p, bad, key); }), "vocabulary of 3"));
    EXPECT_TRUE(has(message_of([&] { couple_typical(p, bad, key); }), "vocabulary of 3"));
    EXPECT_TRUE(has(message_of([&] { couple_ratio_on_search(p, q, bad, key); }), "of 3"));
  }
  // Also for a draft that would have been kept.
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(has(message_of([&] { couple(p, two, 1, place(i)); }), "different vocabularies"));
    EXPECT_TRUE(has(message_of([&] { couple(two, p, 1, place(i)); }), "different vocabularies"));
  }
  EXPECT_THROW(sample_residual(p, two, 0.5), std::invalid_argument);
}

// Chi-square at 1e-5 and 5 sigma, for four drafts each: fails by chance below 1e-4.
TEST(CouplePointMass, OutputFollowsTargetAndIsAcceptedWithTheDraftsProbability) {
  const OwnedLaw target = law_of({0.5, 0.3, 0.2, 0.0});
  const auto p = exact_probabilities(target);
  for (Token d = 0; d < 4; ++d) {
    std::size_t accepted = 0;
    const auto counts = counts_of(4, kTrials / 4, [&](std::uint32_t i) {
      const Coupled<Token> out = couple(target, PointMass{d}, place(i));
      accepted += out.accepted ? 1 : 0;
      EXPECT_EQ(out.accepted, out.value == d);
      return out.value;
    });
    const double pd = p[static_cast<std::size_t>(d)];
    EXPECT_GT(chi_square_p(p, counts), 1e-5);
    EXPECT_NEAR(accepted / (kTrials / 4.0), pd, five_sigma(pd, kTrials / 4.0));
  }
}

TEST(CouplePointMass, ADecidedTargetKeepsItsTokenAndNoOther) {
  EXPECT_EQ(couple(PointMass{3}, PointMass{3}).value, 3);
  EXPECT_TRUE(couple(PointMass{3}, PointMass{3}).accepted);
  EXPECT_EQ(couple(PointMass{3}, PointMass{4}).value, 3);
  EXPECT_FALSE(couple(PointMass{3}, PointMass{4}).accepted);
}

// The bias is known: P(y) = q(y) [p(y) > threshold] + (mass of the other drafts) p(y).
// Chi-square at 1e-5 against that law.
TEST(CoupleTypical, IsBiasedAsPredictedAndChiSquareSeesIt) {
  const Pair pair{"", law_of({0.6, 0.25, 0.1, 0.05}), law_of({0.1, 0.3, 0.5, 0.1})};
  const auto p = exact_probabilities(pair.target);
  const auto q = exact_probabilities(pair.draft);
  double entropy = 0.0;
  for (const double x : p) entropy -= x * std::log(x);
  const double threshold = std::min(0.09, 0.3 * std::exp(-entropy));
  ASSERT_EQ(threshold, 0.09);
  std::vector<double> predicted(4, 0.0);
  double redrawn = 0.0;
  for (std::size_t y = 0; y < 4; ++y) (p[y] > threshold ? predicted[y] : redrawn) += q[y];
  for (std::size_t y = 0; y < 4; ++y) predicted[y] += redrawn * p[y];
  const auto counts = output_counts(
      pair, 200000, [](const Categorical& t, const Categorical&, Token d, const RngKey& key) {
        return couple_typical(t, d, key);
      });
  EXPECT_GT(chi_square_p(predicted, counts), 1e-5);
  EXPECT_LT(chi_square_p(p, counts), 1e-9);
}

TEST(CoupleTypical, TheThresholdFallsWithTheEntropy) {
  // 100 equal tokens: delta e^-H = 0.003, below p = 0.01, below epsilon = 0.09.
  const OwnedLaw flat(std::vector<float>(100, 0.0F));
  EXPECT_TRUE(couple_typical(flat, 3, place(1)).accepted);
  EXPECT_FALSE(couple_typical(flat, 3, place(1), 0.09, 2.0).accepted);
  EXPECT_TRUE(couple_typical(flat, 3, place(1), 0.005, 2.0).accepted);
}

// The bias is known: with d = argmax q and a = min(1, p(d)/q(d)), P(y) = a [y = d] + (1 - a)
// residual(y). Chi-square at 1e-5 against that law.
TEST(CoupleRatioOnSearch, IsBiasedAsPredictedAndChiSquareSeesIt) {
  const OwnedLaw target = law_of({0.4, 0.3, 0.2, 0.1});
  const OwnedLaw draft = law_of({0.5, 0.2, 0.2, 0.1});
  const Token d = draft.law().argmax();
  const auto p = exact_probabilities(target);
  const double accept = p[0] / exact_probabilities(draft)[0];
  const std::vector<double> predicted = {accept, 1.0 - accept, 0.0, 0.0};
  const auto counts = counts_of(4, 200000, [&](std::uint32_t i) {
    return couple_ratio_on_search(target, draft, d, place(i)).value;
  });
  EXPECT_LT(chi_square_p(p, counts), 1e-9);
  // Float log-weights put a few 1e-8 of mass on other tokens; a count there would give p = 0.
  EXPECT_EQ(counts[2] + counts[3], 0U);
  EXPECT_GT(chi_square_p(std::span(predicted).first(2), std::span(counts).first(2)), 1e-5);
}

}  // namespace
}  // namespace forerun
