#include "forerun/core/apply_sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "forerun/core/sampling_params.h"
#include "tests/support/laws.h"

namespace forerun {
namespace {

using support::kForbidden;
using support::random_weights;

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

std::vector<double> softmax(const std::vector<double>& x) {
  const double max = *std::max_element(x.begin(), x.end());
  std::vector<double> p = x;
  for (double& v : p) v = std::exp(v - max);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= sum;
  return p;
}

std::vector<std::size_t> by_falling(const std::vector<double>& x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return x[a] > x[b]; });
  return order;
}

// The definition, one warper after another; ties with the last kept token stay.
std::vector<double> reference(std::span<const float> logits, const SamplingParams& r) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  std::vector<double> x;
  for (const float logit : logits) x.push_back(static_cast<double>(logit) / r.temperature);
  const auto keep_from = [&](double threshold) {
    for (double& v : x) v = v < threshold ? kNever : v;
  };
  if (r.top_k > 0 && r.top_k < x.size()) keep_from(x[by_falling(x)[r.top_k - 1]]);
  if (r.top_p < 1.0) {
    const std::vector<double> p = softmax(x);
    double reached = 0.0;
    for (const std::size_t i : by_falling(x)) {
      reached += p[i];
      if (reached < r.top_p) continue;
      keep_from(x[i]);  // the token that crosses top_p is kept
      break;
    }
  }
  if (r.min_p > 0.0) keep_from(*std::max_element(x.begin(), x.end()) + std::log(r.min_p));
  return softmax(x);
}

void expect_reference(std::vector<float> logits, const SamplingParams& r) {
  const std::vector<double> expected = reference(logits, r);
  const TokenLaw reshaped = apply_sampling_(logits, r);
  const auto& law = std::get<Categorical>(reshaped);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double p = law.prob(static_cast<Token>(i));
    ASSERT_EQ(p == 0.0, expected[i] == 0.0) << "token " << i << ", T " << r.temperature << ", k "
                                            << r.top_k << ", p " << r.top_p << ", min " << r.min_p;
    ASSERT_NEAR(p, expected[i], 3e-6 * expected[i] + 1e-12);  // logits are scaled in float32
  }
}

TEST(SamplingParams, AgreesWithTheDefinitionAloneAndCombined) {
  std::uint64_t seed = 0;
  for (const std::size_t vocab : {1U, 2U, 10U, 65U, 1000U}) {
    for (const double temperature : {0.3, 1.0, 1.7}) {
      for (const std::uint32_t k : {0U, 1U, 7U, 64U, 2000U}) {
        for (const double p : {0.05, 0.5, 0.9, 0.999, 1.0}) {
          for (const double min_p : {0.0, 0.02, 1.0}) {
            expect_reference(random_weights(++seed, vocab, 2.0F), {temperature, k, p, min_p});
          }
        }
      }
    }
  }
}

TEST(SamplingParams, LargeFlatAndPeakedNucleiAgreeWithTheDefinition) {
  for (const float spread : {0.01F, 1.0F, 10.0F}) {
    for (const double p : {0.1, 0.9, 0.9999}) {
      expect_reference(random_weights(77, 20000, spread), {1.0, 0, p, 0.0});
    }
  }
}

std::vector<bool> kept_by(std::vector<float> logits, const SamplingParams& r) {
  const TokenLaw reshaped = apply_sampling_(logits, r);
  std::vector<bool> kept;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    kept.push_back(std::get<Categorical>(reshaped).prob(static_cast<Token>(i)) > 0.0);
  }
  return kept;
}

using Kept = std::vector<bool>;

TEST(SamplingParams, TopKKeepsTiesWithTheLast) {
  EXPECT_EQ(kept_by({1, 3, 2, 2, 0}, {1.0, 2}), (Kept{false, true, true, true, false}));
  EXPECT_EQ(kept_by({1, 3, 2, 2, 0}, {1.0, 1}), (Kept{false, true, false, false, false}));
  EXPECT_EQ(kept_by({1, 3, 2, 2, 0}, {0.5, 5}), (Kept{true, true, true, true, true}));
  EXPECT_EQ(kept_by({1, kForbidden, 2}, {1.0, 3}), (Kept{true, false, true}));
  EXPECT_EQ(kept_by({1, kForbidden, kForbidden}, {1.0, 2}), (Kept{true, false, false}));
}

TEST(SamplingParams, TopPKeepsTheTokenThatCrosses) {
  const std::vector<double> law = {0.1, 0.55, 0.05, 0.3};
  const std::vector<float> w = support::log_weights_of(law);
  EXPECT_EQ(kept_by(w, {1.0, 0, 0.5}), (Kept{false, true, false, false}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 0.56}), (Kept{false, true, false, true}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 0.84}), (Kept{false, true, false, true}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 0.86}), (Kept{true, true, false, true}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 1e-12}), (Kept{false, true, false, false}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 0.0}), (Kept{false, true, false, false}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 1.0}), (Kept{true, true, true, true}));
}

TEST(SamplingParams, TopPCountsTheMassThatTopKLeft) {
  // After top-k 2 the law is (0.55, 0.3) / 0.85: the first token alone holds 0.647.
  const std::vector<float> w = support::log_weights_of(std::vector{0.1, 0.55, 0.05, 0.3});
  EXPECT_EQ(kept_by(w, {1.0, 2, 0.6}), (Kept{false, true, false, false}));
  EXPECT_EQ(kept_by(w, {1.0, 2, 0.7}), (Kept{false, true, false, true}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 0.6}), (Kept{false, true, false, true}));
}

TEST(SamplingParams, MinPDropsWhatIsTooUnlikelyBesideTheBest) {
  const std::vector<float> w = support::log_weights_of(std::vector{0.1, 0.55, 0.05, 0.3});
  EXPECT_EQ(kept_by(w, {1.0, 0, 1.0, 0.5}), (Kept{false, true, false, true}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 1.0, 0.55}), (Kept{false, true, false, false}));
  EXPECT_EQ(kept_by(w, {1.0, 0, 1.0, 0.17}), (Kept{true, true, false, true}));
  EXPECT_EQ(kept_by({2, 2, 1}, {1.0, 0, 1.0, 1.0}), (Kept{true, true, false}));
}

TEST(SamplingParams, GreedyIsTheArgmaxWithTheLowestId) {
  std::vector<float> logits = {0.0F, 2.0F, kForbidden, 2.0F};
  const SamplingParams greedy{};
  EXPECT_TRUE(greedy.greedy());
  EXPECT_EQ(std::get<PointMass>(apply_sampling_(logits, greedy)).token, 1);
  EXPECT_EQ(logits[0], 0.0F) << "greedy decoding leaves the logits alone";
}

TEST(SamplingParams, TinyTemperaturesShareTheMassAmongTheBest) {
  for (const double t : {1e-3, 1e-30, 1e-38, 1e-45, 1e-300, 5e-324}) {
    std::vector<float> logits = {1.0F, 4.0F, kForbidden, 4.0F, -3e38F};
    const TokenLaw reshaped = apply_sampling_(logits, {t});
    const auto& law = std::get<Categorical>(reshaped);
    EXPECT_EQ(law.prob(1), 0.5) << t;
    EXPECT_EQ(law.prob(3), 0.5) << t;
    for (const Token other : {0, 2, 4}) EXPECT_EQ(law.prob(other), 0.0) << t;
    std::vector<float> far = {3e38F, -3e38F};
    EXPECT_EQ(std::get<Categorical>(apply_sampling_(far, {t})).prob(0), 1.0) << t;
  }
}

TEST(SamplingParams, HugeTemperaturesFlattenWhatIsAllowedAndNothingElse) {
  for (const double t : {1e6, 1e30, 1e38, 1e45, 1e46, 1e300, 1.7e308}) {
    std::vector<float> logits = {1.0F, 4.0F, kForbidden, -3.0F};
    const TokenLaw reshaped = apply_sampling_(logits, {t});
    const auto& law = std::get<Categorical>(reshaped);
    EXPECT_EQ(law.prob(2), 0.0) << t;
    for (const Token t_allowed : {0, 1, 3}) EXPECT_NEAR(law.prob(t_allowed), 1.0 / 3.0, 1e-5) << t;
  }
}

TEST(SamplingParams, RefusesLogitsThatHoldNan) {
  const std::vector<SamplingParams> all = {
      {0.0},       {1.0},  {0.5}, {1.0, 2}, {1.0, 0, 0.5}, {1.0, 0, 1.0, 0.1}, {0.5, 2, 0.5, 0.1},
      {1e-300, 2}, {1e300}};
  for (const SamplingParams& r : all) {
    for (std::size_t at : {0U, 50U, 99U}) {
      std::vector<float> logits = random_weights(1, 100, 1.0F);
      logits[at] = kNotANumber;
      EXPECT_THROW(apply_sampling_(logits, r), std::invalid_argument)
          << r.temperature << " " << r.top_k;
    }
    std::vector<float> nothing(5, kForbidden);
    EXPECT_THROW(apply_sampling_(nothing, r), std::invalid_argument);
    EXPECT_THROW(apply_sampling_({}, r), std::invalid_argument);
  }
}

TEST(SamplingParams, RefusesParametersOutsideTheirRange) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kQuiet = std::numeric_limits<double>::quiet_NaN();
  const std::vector<SamplingParams> bad = {{-1.0},
                                           {-1e-300},
                                           {kQuiet},
                                           {kInf},
                                           {1.0, 0, -0.1},
                                           {1.0, 0, 1.0001},
                                           {1.0, 0, kQuiet},
                                           {1.0, 0, 1.0, -0.1},
                                           {1.0, 0, 1.0, 1.1},
                                           {1.0, 0, 1.0, kQuiet}};
  for (const SamplingParams& r : bad) {
    EXPECT_THROW(r.check(), std::invalid_argument);
    std::vector<float> logits = {1.0F, 2.0F};
    EXPECT_THROW(apply_sampling_(logits, r), std::invalid_argument)
        << "must not sample from it either";
  }
  EXPECT_NO_THROW(SamplingParams{}.check());
  EXPECT_NO_THROW((SamplingParams{1e-300, 4000000000U, 1e-300, 1.0}.check()));
}

}  // namespace
}  // namespace forerun
