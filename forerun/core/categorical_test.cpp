#include "forerun/core/categorical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "forerun/core/rng_key.h"
#include "forerun/core/tests_of_fit.h"
#include "tests/support/laws.h"

namespace forerun {
namespace {

using support::counts_of;
using support::exact_probabilities;
using support::kForbidden;
using support::law_of;
using support::OwnedLaw;
using support::random_law;
using support::random_weights;

constexpr double kLastU = 1.0 - 0x1p-53;  // the largest uniform

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

// With u on the grid i / n, the inverse distribution function gives token t either floor(n p_t) or
// one more; half a grid point allows for rounding of the sums.
void expect_inverse_of_the_distribution_function(const Categorical& law, std::size_t n) {
  const std::vector<double> p = exact_probabilities(law);
  std::vector<std::size_t> counts(p.size(), 0);
  Token previous = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Token t = law.sample(static_cast<double>(i) / static_cast<double>(n));
    ASSERT_GE(t, previous) << "not monotone at u = " << i << " / " << n;
    ++counts.at(static_cast<std::size_t>(t));
    previous = t;
  }
  for (std::size_t t = 0; t < p.size(); ++t) {
    ASSERT_LE(std::abs(static_cast<double>(counts[t]) - p[t] * static_cast<double>(n)), 1.0 + 1e-6)
        << "token " << t << " of " << p.size();
  }
}

TEST(Categorical, ProbabilitiesAndEntropyFollowTheDefinition) {
  for (const std::size_t vocab : {1U, 2U, 9U, 511U, 512U, 513U, 49152U}) {
    const OwnedLaw owned = random_law(vocab, vocab, 3.0F);
    const Categorical& law = owned;
    const std::vector<double> p = exact_probabilities(law);
    double entropy = 0.0;
    for (std::size_t i = 0; i < vocab; ++i) {
      const auto t = static_cast<Token>(i);
      ASSERT_NEAR(law.prob(t), p[i], 1e-13 * p[i] + 1e-300);
      ASSERT_NEAR(law.log_prob(t), std::log(p[i]), 1e-12);
      entropy -= p[i] * std::log(p[i]);
    }
    EXPECT_NEAR(law.entropy(), entropy, 1e-12);
    EXPECT_EQ(law.argmax(), std::max_element(p.begin(), p.end()) - p.begin());
    EXPECT_EQ(law.size(), vocab);
  }
}

TEST(Categorical, ForbiddenTokensHaveNoMassAndDoNotTouchTheEntropy) {
  const OwnedLaw owned = law_of({0.0, 0.25, 0.0, 0.75, 0.0});
  const Categorical& law = owned;
  EXPECT_EQ(law.prob(0), 0.0);
  EXPECT_EQ(law.log_prob(4), -std::numeric_limits<double>::infinity());
  EXPECT_NEAR(law.prob(1), 0.25, 1e-7);
  EXPECT_NEAR(law.entropy(), -0.25 * std::log(0.25) - 0.75 * std::log(0.75), 1e-7);
}

TEST(Categorical, SampleIsTheInverseDistributionFunction) {
  for (const std::size_t vocab : {1U, 2U, 3U, 7U, 511U, 512U, 513U, 1500U}) {
    expect_inverse_of_the_distribution_function(random_law(vocab, vocab, 2.0F), 1U << 14);
  }
  expect_inverse_of_the_distribution_function(random_law(1, 49152, 2.0F), 1U << 9);
}

// Equal weights put the steps exactly on the grid, also at the end of a block of 512. sample(u) is
// the token whose cumulative probability passes u, so at a step it is the next token.
TEST(Categorical, AtAStepOfTheDistributionFunctionTheNextTokenComesOut) {
  for (const std::size_t vocab : {2U, 4U, 512U, 2048U}) {
    const OwnedLaw owned(std::vector<float>(vocab, 0.5F));
    for (std::size_t i = 0; i < vocab; ++i) {
      const double step = static_cast<double>(i) / static_cast<double>(vocab);
      ASSERT_EQ(owned.law().sample(step), static_cast<Token>(i)) << vocab;
      if (i == 0) continue;
      ASSERT_EQ(owned.law().sample(std::nextafter(step, 0.0)), static_cast<Token>(i) - 1);
    }
  }
}

// Chi-square at 1e-5.
TEST(Categorical, SampledTokensFollowTheLawAndChiSquareSeesAOnePercentTilt) {
  const OwnedLaw owned = random_law(4, 12, 1.0F);
  const auto counts = counts_of(12, 1000000, [&](std::uint32_t i) {
    return owned.law().sample(RngKey{.seed = 8, .position = i}.uniform(Purpose::kTarget));
  });
  std::vector<double> p = exact_probabilities(owned);
  EXPECT_GT(chi_square_p(p, counts), 1e-5);
  const double moved = 0.01 * p[static_cast<std::size_t>(owned.law().argmax())];
  p[static_cast<std::size_t>(owned.law().argmax())] -= moved;
  for (double& x : p) x /= 1.0 - moved;
  EXPECT_LT(chi_square_p(p, counts), 1e-5);
}

TEST(Categorical, NeverReturnsAForbiddenToken) {
  for (const std::size_t vocab : {2U, 511U, 512U, 513U, 1024U, 1025U, 49152U}) {
    for (const std::size_t only : {std::size_t{0}, vocab / 2, vocab - 1}) {
      std::vector<float> w(vocab, kForbidden);
      w[only] = 3.0F;
      const OwnedLaw owned(std::move(w));
      for (const double u : {0.0, 0x1p-53, 0.5, 0.999, kLastU}) {
        ASSERT_EQ(owned.law().sample(u), static_cast<Token>(only)) << vocab << " at " << u;
      }
    }
  }
}

TEST(Categorical, TheEndsOfTheUnitIntervalStayAmongAllowedTokens) {
  for (const std::size_t vocab : {64U, 512U, 600U, 1500U, 49152U}) {
    std::vector<float> w = random_weights(vocab, vocab, 2.0F);
    std::fill_n(w.begin(), vocab / 4, kForbidden);
    std::fill_n(w.end() - static_cast<std::ptrdiff_t>(vocab / 4), vocab / 4, kForbidden);
    const OwnedLaw owned(std::move(w));
    EXPECT_EQ(owned.law().sample(0.0), static_cast<Token>(vocab / 4));
    EXPECT_EQ(owned.law().sample(kLastU), static_cast<Token>(vocab - vocab / 4 - 1));
  }
}

// The position of a step must not depend on how sums are grouped: an inverse that rounded up once
// returned a forbidden token at the very end. Random laws, uniforms next to every step.
TEST(Categorical, UniformsNextToEveryStepGiveAllowedTokens) {
  std::vector<float> w = random_weights(3, 700, 4.0F);
  for (std::size_t i = 0; i < w.size(); i += 3) w[i] = kForbidden;
  const OwnedLaw owned(std::move(w));
  const std::vector<double> p = exact_probabilities(owned);
  double cumulative = 0.0;
  for (const double x : p) {
    cumulative = std::min(cumulative + x, 1.0);
    for (const double u : {cumulative - 0x1p-50, cumulative, cumulative + 0x1p-50}) {
      const Token t = owned.law().sample(std::clamp(u, 0.0, kLastU));
      ASSERT_GT(p[static_cast<std::size_t>(t)], 0.0);
    }
  }
}

TEST(Categorical, TokensMoreThan700NatsBelowTheBestAreNeverDrawn) {
  const OwnedLaw owned(std::vector<float>{-800.0F, 0.0F, -709.0F, -1e30F});
  const Categorical& law = owned;
  EXPECT_EQ(law.sample(0.0), 1);
  EXPECT_EQ(law.sample(kLastU), 1);
  EXPECT_EQ(law.prob(1), 1.0);
  EXPECT_EQ(law.log_prob(0), -800.0);
  EXPECT_EQ(law.entropy(), 0.0);
}

TEST(Categorical, ACommonOffsetChangesNothing) {
  std::vector<float> w = {0.0F, 1.0F, -2.0F, 3.5F, kForbidden, 1.0F};
  const OwnedLaw plain(w);
  for (const float offset : {64.0F, -4096.0F, 1048576.0F}) {  // exact in float32 for these weights
    std::vector<float> moved = w;
    for (float& x : moved) x += offset;
    const OwnedLaw owned(std::move(moved));
    for (Token t = 0; t < 6; ++t) EXPECT_NEAR(owned.law().prob(t), plain.law().prob(t), 1e-14);
    EXPECT_NEAR(owned.law().entropy(), plain.law().entropy(), 1e-14);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(owned.law().sample(i / 1000.0), plain.law().sample(i / 1000.0));
    }
  }
}

// The offset may exceed the weights' own range by any factor: two equal tokens share the mass.
TEST(Categorical, AHugeOffsetDoesNotSwallowTheNormalisation) {
  const OwnedLaw owned(std::vector<float>{1e20F, 1e20F, 0.0F});
  EXPECT_NEAR(owned.law().prob(0), 0.5, 1e-15);
  EXPECT_NEAR(owned.law().log_prob(1), std::log(0.5), 1e-15);
}

TEST(Categorical, RefusesLogitsNothingCanBeDrawnFrom) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto build = [](std::vector<float> w) {
    return message_of([&w] { Categorical{std::span<const float>(w)}; });
  };
  EXPECT_NE(build({0.0F, kNan}).find("NaN"), std::string::npos);
  EXPECT_NE(build({kNan, 0.0F}).find("NaN"), std::string::npos);
  EXPECT_NE(build({kNan}).find("NaN"), std::string::npos);
  EXPECT_NE(build(std::vector<float>(1000, kNan)).find("NaN"), std::string::npos);
  EXPECT_NE(build({0.0F, kInf}).find("no finite largest value"), std::string::npos);
  EXPECT_NE(build({kForbidden, kForbidden}).find("no finite largest value"), std::string::npos);
  EXPECT_NE(build({}).find("no finite largest value"), std::string::npos);
  EXPECT_EQ(build({kForbidden, 0.0F}), "");
}

TEST(Argmax, IsTheLowestIdAmongEquals) {
  std::vector<float> w(1000, -1.0F);
  w[513] = w[700] = 2.0F;
  EXPECT_EQ(argmax(w), 513);
  EXPECT_EQ(argmax(std::vector<float>{-0.0F, 0.0F}), 0);
  EXPECT_EQ(argmax(std::vector<float>{kForbidden, -3e38F}), 1);
}

TEST(TotalVariation, FollowsTheDefinition) {
  const OwnedLaw p = law_of({0.5, 0.3, 0.2, 0.0});
  const OwnedLaw q = law_of({0.1, 0.3, 0.2, 0.4});
  EXPECT_NEAR(total_variation(p, q), 0.4, 1e-7);
  EXPECT_EQ(total_variation(p, p), 0.0);
  EXPECT_NEAR(total_variation(law_of({1.0, 0.0}), law_of({0.0, 1.0})), 1.0, 1e-15);
  EXPECT_THROW(total_variation(p, law_of({0.5, 0.5})), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
