// Couplings of chains, on mixtures of two modes that are denoised exactly.
#include "forerun/core/chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "forerun/core/statistics.h"
#include "forerun/core/tests_of_fit.h"
#include "tests/support/laws.h"
#include "tests/support/mixture_chain.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using support::five_sigma;
using support::MixtureChain;
using support::MixtureOptions;
using support::samples;
using CoupleChains = std::vector<Coupled<ChainToken>> (*)(std::span<const ChainTask>);

constexpr std::size_t kBatch = 500;

// Not in the first round: attempts after a rejection are counted too, and must not share its
// numbers.
ChainKey place(std::uint64_t seed, std::uint32_t i) {
  return {{.seed = seed, .request = i, .round = 1}};
}

// Couples `n` tokens that `draft` drafted.
template <class Each>
void couple_many(const MixtureOptions& t, const MixtureOptions& d, CoupleChains rule,
                 std::uint32_t n, const Each& each) {
  MixtureChain target(t), draft(d);
  const ChainLaw law = target.after({}), other = draft.after({});
  for (std::uint32_t first = 0; first < n; first += kBatch) {
    std::vector<FreeChain> chains;
    for (std::uint32_t i = first; i < first + kBatch; ++i) {
      chains.push_back({other, place(17, i), Purpose::kTarget});
    }
    const std::vector<ChainPath> paths = draw_chains(chains);
    std::vector<ChainTask> tasks;
    for (std::size_t i = 0; i < kBatch; ++i) {
      tasks.push_back(
          {.target = law, .draft = &paths[i], .drafted_by = other, .key = chains[i].key});
    }
    const auto coupled = rule(tasks);
    for (std::size_t i = 0; i < kBatch; ++i) each(paths[i], coupled[i]);
  }
}

// The distribution function of a 1-dimensional chain's end, by quadrature of its density.
std::function<double(double)> end_of_chain(const MixtureOptions& o) {
  constexpr std::size_t kCells = 1200;
  constexpr double kLow = -6.0, kWidth = 12.0 / kCells;
  const MixtureChain chain(o);
  const auto x = [](std::size_t i) { return kLow + (static_cast<double>(i) + 0.5) * kWidth; };
  std::vector<double> density(kCells);
  for (std::size_t i = 0; i < kCells; ++i) {
    density[i] = std::exp(-0.5 * x(i) * x(i)) / std::sqrt(2.0 * std::numbers::pi);
  }
  for (std::size_t k = 0; k < o.steps; ++k) {
    const double sigma = chain.sigmas()[k];
    std::vector<double> next(kCells, 0.0);
    for (std::size_t i = 0; i < kCells; ++i) {
      const double m = chain.mean({static_cast<float>(x(i))}, k, {})[0];
      for (std::size_t j = 0; j < kCells; ++j) {
        const double z = (x(j) - m) / sigma;
        if (std::abs(z) < 9.0) next[j] += density[i] * kWidth * std::exp(-0.5 * z * z);
      }
    }
    for (double& v : next) v /= sigma * std::sqrt(2.0 * std::numbers::pi);
    density = std::move(next);
  }
  std::vector<double> sum(kCells + 1, 0.0);
  for (std::size_t i = 0; i < kCells; ++i) sum[i + 1] = sum[i] + density[i] * kWidth;
  return [sum](double at) {
    const double place = std::clamp((at - kLow) / kWidth, 0.0, static_cast<double>(kCells) - 1e-9);
    const auto cell = static_cast<std::size_t>(place);
    const double part = place - static_cast<double>(cell);
    return (sum[cell] + part * (sum[cell + 1] - sum[cell])) / sum.back();
  };
}

// KS of `rule`'s outputs in one dimension against the quadrature.
double p_of(CoupleChains rule, const MixtureOptions& draft, std::uint32_t n) {
  const MixtureOptions target;
  const auto cdf = end_of_chain(target);
  std::vector<double> u;
  couple_many(target, draft, rule, n, [&](const ChainPath&, const Coupled<ChainToken>& c) {
    u.push_back(cdf(c.value.value()[0]));
  });
  return ks_uniform(std::move(u)).p;
}

// KS of two samples of equal size, by Smirnov's statistic.
double two_samples_p(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double most = 0.0;
  const auto n = static_cast<double>(a.size());
  for (std::size_t i = 0, j = 0; i < a.size(); ++i) {
    while (j < b.size() && b[j] < a[i]) ++j;
    most = std::max(most, std::abs(static_cast<double>(i) - static_cast<double>(j)) / n);
  }
  const double lambda = most * std::sqrt(n / 2.0);
  double p = 0.0;
  for (int k = 1; k < 100; ++k)
    p += 2.0 * (k % 2 == 1 ? 1 : -1) * std::exp(-2.0 * k * k * lambda * lambda);
  return std::clamp(p, 0.0, 1.0);
}

// The smallest p over both coordinates, their sum and their product: of `rule` in two dimensions
// against chains drawn from the target itself.
double p_in_two(CoupleChains rule, MixtureOptions draft, std::uint32_t n) {
  MixtureOptions target;
  target.dim = draft.dim = 2;
  std::array<std::vector<double>, 4> ours, direct;
  const auto add = [](auto& to, const Latent& x) {
    to[0].push_back(x[0]);
    to[1].push_back(x[1]);
    to[2].push_back(x[0] + x[1]);
    to[3].push_back(x[0] * x[1]);
  };
  couple_many(target, draft, rule, n,
              [&](const ChainPath&, const Coupled<ChainToken>& c) { add(ours, c.value.value()); });
  MixtureChain chain(target);
  const ChainLaw law = chain.after({});
  for (std::uint32_t i = 0; i < n; i += kBatch) {
    std::vector<FreeChain> chains;
    for (std::uint32_t j = i; j < i + kBatch; ++j) {
      chains.push_back({law, place(99, j), Purpose::kTarget});
    }
    for (const ChainPath& path : draw_chains(chains)) add(direct, path.value());
  }
  double least = 1.0;
  for (std::size_t k = 0; k < 4; ++k) least = std::min(least, two_samples_p(ours[k], direct[k]));
  return least;
}

const MixtureOptions kBiased{.bias = 0.25};
const MixtureOptions kGarbage{.bias = 40.0};
// What the published rules are for: a draft with standard deviations of its own.
const MixtureOptions kWider{.bias = 0.25, .stretch = 1.1};

// 200,000 draws for each rule and dimension, and as many of the target: over 1e6 in total. Fails by
// chance below 1e-5.
TEST(Chain, ExactRulesKeepTheTargetsLawInOneDimension) {
  EXPECT_GT(p_of(couple_stepwise, kBiased, samples(200000)), 1e-6);
  EXPECT_GT(p_of(couple_path, kBiased, samples(200000)), 1e-6);
}

TEST(Chain, ExactRulesKeepTheTargetsLawInTwoDimensions) {
  EXPECT_GT(p_in_two(couple_stepwise, kBiased, samples(200000)), 1e-7);
  EXPECT_GT(p_in_two(couple_path, kBiased, samples(200000)), 1e-7);
}

TEST(Chain, AGarbageDraftLeavesTheLaw) {
  EXPECT_GT(p_of(couple_stepwise, kGarbage, samples(100000)), 1e-6);
  EXPECT_GT(p_of(couple_path, kGarbage, samples(100000)), 1e-6);
}

TEST(Chain, TheSameTestsRejectThePublishedRules) {
  EXPECT_LT(p_of(couple_paper, kWider, samples(100000)), 1e-9);
  EXPECT_LT(p_of(couple_code, kWider, samples(100000)), 1e-9);
  EXPECT_LT(p_of(couple_code, kBiased, samples(100000)), 1e-9);
  EXPECT_LT(p_in_two(couple_paper, kWider, samples(100000)), 1e-9);
  EXPECT_LT(p_in_two(couple_code, kWider, samples(100000)), 1e-9);
}

// What is wrong with the paper's rule is S; where it is 1 the law is kept.
TEST(Chain, ThePapersRuleIsExactForOneSetOfDeviations) {
  EXPECT_GT(p_of(couple_paper, kBiased, samples(100000)), 1e-6);
}

struct Acceptance {
  double accepted = 0.0, proposals = 0.0, square = 0.0;
};
Acceptance measured(CoupleChains rule, const MixtureOptions& t, const MixtureOptions& d,
                    std::uint32_t n) {
  Acceptance out;
  couple_many(t, d, rule, n, [&](const ChainPath& draft, const Coupled<ChainToken>& c) {
    EXPECT_EQ(c.accepted, c.value.value() == draft.value());
    out.accepted += c.accepted ? 1.0 : 0.0;
    out.proposals += c.value.proposals;
    out.square += static_cast<double>(c.value.proposals) * c.value.proposals;
  });
  out.accepted /= n;
  out.proposals /= n;
  out.square /= n;
  return out;
}

// Integrals over chains of 3 steps in one dimension. A rectangle rule: integrands are smooth but
// for kinks, the error is below 1e-3; 160 points change the fifth decimal.
class Integrals {
 public:
  Integrals(const MixtureOptions& t, const MixtureOptions& d) : target_(t), draft_(d) {}

  double stepwise() const {
    return over_starts([&](double x) { return together(x, x, 0); });
  }
  double path() const {
    return over_starts([&](double x) { return kept(x, 0, 0.0); });
  }

 private:
  static constexpr int kPoints = 60;
  template <class F>
  static double over_normal(double mean, double sigma, F f) {
    double sum = 0.0;
    for (int i = 0; i < kPoints; ++i) {
      const double z = -5.0 + 10.0 * (i + 0.5) / kPoints;
      sum += std::exp(-0.5 * z * z) * f(mean + sigma * z);
    }
    return sum * 10.0 / kPoints / std::sqrt(2.0 * std::numbers::pi);
  }
  template <class F>
  static double over_starts(F f) {
    return over_normal(0.0, 1.0, f);
  }
  double mean(const MixtureChain& chain, double x, std::size_t k) const {
    return chain.mean({static_cast<float>(x)}, k, {})[0];
  }

  // P(together in the end), from these states before step k.
  double together(double xp, double xq, std::size_t k) const {
    const double s = target_.sigmas()[k], mp = mean(target_, xp, k), mq = mean(draft_, xq, k);
    if (k + 1 == target_.sigmas().size()) return 2.0 * normal_cdf(-0.5 * std::abs(mp - mq) / s);
    return over_normal(mq, s, [&](double y) {
      const double a = (y - mp) / s, b = (y - mq) / s;
      const double keep = std::min(1.0, std::exp(0.5 * (b * b - a * a)));
      double out = keep > 0.0 ? keep * together(y, y, k + 1) : 0.0;
      if (keep < 1.0) out += (1.0 - keep) * together(mp - (y - mq), y, k + 1);
      return out;
    });
  }
  // P(the path is kept), from state x before step k and log dP/dQ so far.
  double kept(double x, std::size_t k, double ratio) const {
    const double s = target_.sigmas()[k], mp = mean(target_, x, k), mq = mean(draft_, x, k);
    if (k + 1 == target_.sigmas().size()) {
      const double w = std::exp(ratio), delta = std::abs(mp - mq) / s;
      return w <= 1.0 ? w - residual_mass(delta, w) : 1.0 - w * residual_mass(delta, 1.0 / w);
    }
    return over_normal(mq, s, [&](double y) {
      const double a = (y - mp) / s, b = (y - mq) / s;
      return kept(y, k + 1, ratio + 0.5 * (b * b - a * a));
    });
  }
  MixtureChain target_, draft_;
};

// 5 sigma and the error of the integrals.
TEST(Chain, AcceptanceEqualsTheIntegrals) {
  constexpr std::uint32_t kTries = samples(100000);
  const MixtureOptions target{.steps = 3}, draft{.steps = 3, .bias = 0.3};
  const Integrals integrals(target, draft);
  const double stepwise = integrals.stepwise(), path = integrals.path();
  EXPECT_LT(stepwise, 0.9);  // there is something to test
  EXPECT_NEAR(measured(couple_stepwise, target, draft, kTries).accepted, stepwise,
              five_sigma(stepwise, kTries) + 1e-3);
  EXPECT_NEAR(measured(couple_path, target, draft, kTries).accepted, path,
              five_sigma(path, kTries) + 1e-3);
}

// In two dimensions, chains of 2 steps: the first step's noise along and across the direction
// between the means, the second in closed form. Half as many points again change the fifth decimal.
TEST(Chain, AcceptanceEqualsTheIntegralsInTwoDimensions) {
  constexpr std::uint32_t kTries = samples(100000);
  constexpr int kStarts = 20, kPoints = 40;
  const MixtureOptions target{.dim = 2, .steps = 2}, draft{.dim = 2, .steps = 2, .bias = 0.3};
  const MixtureChain p(target), q(draft);
  const auto node = [](int i, int n) { return -4.5 + 9.0 * (i + 0.5) / n; };
  const auto weight = [](double z, int n) {
    return std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi) * 9.0 / n;
  };
  const auto distance = [](const Latent& a, const Latent& b, double s) {
    return std::hypot(a[0] - b[0], a[1] - b[1]) / s;
  };
  const double s0 = p.sigmas()[0], s1 = p.sigmas()[1];
  double stepwise = 0.0, path = 0.0;
  for (int a = 0; a < kStarts * kStarts; ++a) {
    const double z0 = node(a / kStarts, kStarts), z1 = node(a % kStarts, kStarts);
    const Latent x = {static_cast<float>(z0), static_cast<float>(z1)};
    const double mass = weight(z0, kStarts) * weight(z1, kStarts);
    const Latent mp = p.mean(x, 0, {}), mq = q.mean(x, 0, {});
    const double delta = distance(mp, mq, s0);
    const double e0 = (mq[0] - mp[0]) / s0 / delta, e1 = (mq[1] - mp[1]) / s0 / delta;
    for (int b = 0; b < kPoints * kPoints; ++b) {
      const double u = node(b / kPoints, kPoints), v = node(b % kPoints, kPoints);
      const auto at = [&](const Latent& m, double along) {
        return Latent{static_cast<float>(m[0] + s0 * (along * e0 - v * e1)),
                      static_cast<float>(m[1] + s0 * (along * e1 + v * e0))};
      };
      const Latent y = at(mq, u), reflected = at(mp, -u);
      const double ratio = -(u * delta + 0.5 * delta * delta),
                   keep = std::min(1.0, std::exp(ratio));
      const double w = mass * weight(u, kPoints) * weight(v, kPoints);
      const Latent own = q.mean(y, 1, {});
      const double stay = distance(p.mean(y, 1, {}), own, s1);
      const double meet = distance(p.mean(reflected, 1, {}), own, s1);
      stepwise +=
          w * (keep * 2.0 * normal_cdf(-0.5 * stay) + (1.0 - keep) * 2.0 * normal_cdf(-0.5 * meet));
      const double r = std::exp(ratio);
      path += w * (r <= 1.0 ? r - residual_mass(stay, r) : 1.0 - r * residual_mass(stay, 1.0 / r));
    }
  }
  EXPECT_NEAR(measured(couple_stepwise, target, draft, kTries).accepted, stepwise,
              five_sigma(stepwise, kTries) + 2e-3);
  EXPECT_NEAR(measured(couple_path, target, draft, kTries).accepted, path,
              five_sigma(path, kTries) + 2e-3);
}

// 1 / TV for each of TV rejections. 5 sigma.
TEST(Chain, PathDrawsOnePathForEachTestedToken) {
  constexpr std::uint32_t kTries = samples(100000);
  const Acceptance a = measured(couple_path, {}, kBiased, kTries);
  EXPECT_LT(a.accepted, 0.9);
  EXPECT_NEAR(a.proposals, 1.0, 5.0 * std::sqrt((a.square - 1.0) / kTries));
}

TEST(Chain, ADraftOfTheTargetIsKeptAlways) {
  for (const CoupleChains rule : {couple_stepwise, couple_path, couple_paper}) {
    EXPECT_EQ(measured(rule, {}, {}, 5000).accepted, 1.0);
  }
}

TEST(Chain, ATokenWithoutADraftIsThatOfPlainSampling) {
  MixtureChain chain({.dim = 2});
  const ChainLaw law = chain.after({});
  const ChainTask task{.target = law, .key = place(3, 5)};
  const FreeChain plain{law, place(3, 5), Purpose::kTarget};
  const Latent value = draw_chains({&plain, 1}).front().value();
  for (const CoupleChains rule : {couple_stepwise, couple_path, couple_paper, couple_code}) {
    const auto out = rule({&task, 1});
    EXPECT_EQ(out.front().value.value(), value);
    EXPECT_FALSE(out.front().accepted);
    EXPECT_TRUE(out.front().value.draft_means.empty());
  }
}

// One call for all states of all drafts; then one an inner step, of those that are apart.
TEST(Chain, TheTargetIsAskedInBatches) {
  MixtureChain target({}), draft({});
  const ChainLaw law = target.after({}), other = draft.after({});
  std::vector<FreeChain> chains;
  for (std::uint32_t i = 0; i < 3; ++i) chains.push_back({other, place(1, i), Purpose::kTarget});
  const auto paths = draw_chains(chains);
  EXPECT_EQ(draft.calls, 6U);
  std::vector<ChainTask> tasks;
  for (std::size_t i = 0; i < 3; ++i) tasks.push_back({law, &paths[i], other, chains[i].key});
  target.calls = target.rows = 0;
  couple_stepwise(tasks);
  EXPECT_EQ(target.calls, 1U);
  EXPECT_EQ(target.rows, 18U);
  tasks.push_back({.target = law, .key = place(1, 3)});
  target.calls = target.rows = 0;
  couple_stepwise(tasks);
  EXPECT_EQ(target.calls, 7U);
  EXPECT_EQ(target.rows, 24U);
}

TEST(Chain, ADraftThatIsNotFiniteIsNotKept) {
  MixtureChain target({}), draft({.bias = std::numeric_limits<double>::quiet_NaN()});
  const ChainLaw law = target.after({}), other = draft.after({});
  const FreeChain chain{other, place(1, 1), Purpose::kTarget};
  const auto paths = draw_chains({&chain, 1});
  const ChainTask task{law, &paths[0], other, chain.key};
  for (const CoupleChains rule : {couple_stepwise, couple_path}) {
    const auto out = rule({&task, 1});
    EXPECT_FALSE(out.front().accepted);
    EXPECT_TRUE(std::isfinite(out.front().value.value()[0]));
  }
}

TEST(Chain, DraftsThatDoNotFitAreRefused) {
  MixtureChain target({}), wider({.stretch = 1.01}), longer({.steps = 7});
  for (MixtureChain* draft : {&wider, &longer}) {
    const ChainLaw law = target.after({}), other = draft->after({});
    const FreeChain chain{other, place(1, 1), Purpose::kTarget};
    const auto paths = draw_chains({&chain, 1});
    const ChainTask task{law, &paths[0], other, chain.key};
    EXPECT_THROW(couple_stepwise({&task, 1}), std::invalid_argument);
    EXPECT_THROW(couple_path({&task, 1}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace forerun
