// The loop of speculate.h over latents: the same template, another law.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "forerun/core/gaussian.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/speculate.h"
#include "forerun/core/statistics.h"
#include "forerun/core/tests_of_fit.h"
#include "tests/support/laws.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using Vector = std::vector<float>;
using support::five_sigma;

constexpr float kShrink = 0.8F;
constexpr double kSigma = 0.5;
constexpr std::size_t kSteps = 6;
const Vector kStart = {1.0F, -2.0F};

// A chain x_t = 0.8 x_{t-1} + c + 0.5 noise in two dimensions.
Vector step_mean(const Vector& x, const Vector& drift) {
  return {kShrink * x[0] + drift[0], kShrink * x[1] + drift[1]};
}
const Vector kDrift = {0.3F, 0.1F};

class LatentSample {
 public:
  using Value = Vector;

  explicit LatentSample(std::uint32_t request) : request_(request), states_{kStart} {}
  RngKey key() const { return key_at(states_.size()); }
  RngKey key_at(std::size_t step) const {
    return {77, request_, round_, static_cast<std::uint32_t>(step)};
  }
  bool push(Vector x) {
    states_.push_back(std::move(x));
    return !done();
  }
  bool done() const { return states_.size() > kSteps; }
  void next_round() { ++round_; }
  const std::vector<Vector>& states() const { return states_; }

 private:
  std::uint32_t request_, round_ = 0;
  std::vector<Vector> states_;
};

struct LatentDraft {
  std::vector<Vector> values, means;
  std::size_t size() const { return values.size(); }
};

struct LatentTarget {
  struct Verified {
    std::vector<std::vector<Vector>> means;
    Gaussian at(std::size_t sequence, std::size_t step) const {
      return {means[sequence].at(step), kSigma};
    }
  };
  Verified verify(std::span<LatentSample* const> sequences,
                  const std::vector<LatentDraft>& drafts) const {
    Verified verified;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      std::vector<Vector> means = {step_mean(sequences[i]->states().back(), kDrift)};
      for (const Vector& x : drafts[i].values) means.push_back(step_mean(x, kDrift));
      verified.means.push_back(std::move(means));
    }
    return verified;
  }
  void keep(std::span<LatentSample* const>, const std::vector<LatentDraft>&,
            std::span<const Outcome>) const {}
};

// Drafts `length` steps with a drift of its own.
struct LatentDrafter {
  Vector drift;
  std::size_t length;

  std::vector<LatentDraft> propose(std::span<LatentSample* const> sequences) const {
    std::vector<LatentDraft> drafts;
    for (const LatentSample* sequence : sequences) {
      LatentDraft draft;
      Vector x = sequence->states().back();
      for (std::size_t i = 0; i < length; ++i) {
        draft.means.push_back(step_mean(x, drift));
        const RngKey key = sequence->key_at(sequence->states().size() + i);
        x = Gaussian{draft.means.back(), kSigma}.sample(Purpose::kDraft, key);
        draft.values.push_back(x);
      }
      drafts.push_back(std::move(draft));
    }
    return drafts;
  }
  void observe(std::span<LatentSample* const>, const std::vector<LatentDraft>&,
               const LatentTarget::Verified&, std::span<const Outcome>) const {}
};

struct ReflectionRule {
  Coupled<Vector> couple(const Gaussian& target, const LatentDraft& draft, std::size_t step,
                         const RngKey& key) const {
    return forerun::couple(target, Gaussian{draft.means[step], kSigma}, draft.values[step], key);
  }
  Vector draw(const Gaussian& target, const RngKey& key) const {
    return target.sample(Purpose::kTarget, key);
  }
};

struct KeepEveryDraft : ReflectionRule {
  Coupled<Vector> couple(const Gaussian&, const LatentDraft& draft, std::size_t step,
                         const RngKey&) const {
    return {draft.values[step], true};
  }
};

struct RedrawOnReject : ReflectionRule {
  Coupled<Vector> couple(const Gaussian& target, const LatentDraft& draft, std::size_t step,
                         const RngKey& key) const {
    auto out = ReflectionRule::couple(target, draft, step, key);
    if (!out.accepted) out.value = target.sample(Purpose::kResidual, key);
    return out;
  }
};

template <class Rule>
std::vector<LatentSample> run(LatentDrafter drafter, const Rule& rule, std::uint32_t chains,
                              RunStatistics& statistics) {
  std::vector<LatentSample> sequences;
  for (std::uint32_t i = 0; i < chains; ++i) sequences.emplace_back(i);
  LatentTarget target;
  speculate<LatentSample>(
      sequences, target, drafter, rule, [] { return true; }, statistics);
  return sequences;
}

// p of the state after all steps, whose law is Gaussian with mean and variance from the recursion.
double end_p(const std::vector<LatentSample>& sequences) {
  std::array<double, 2> mean = {kStart[0], kStart[1]};
  double variance = 0.0;
  const double a = kShrink;
  for (std::size_t t = 0; t < kSteps; ++t) {
    for (std::size_t k = 0; k < 2; ++k) mean[k] = a * mean[k] + static_cast<double>(kDrift[k]);
    variance = a * a * variance + kSigma * kSigma;
  }
  std::vector<double> u;
  for (const LatentSample& sequence : sequences) {
    for (std::size_t k = 0; k < 2; ++k) {
      u.push_back(normal_cdf((sequence.states().back()[k] - mean[k]) / std::sqrt(variance)));
    }
  }
  return ks_uniform(std::move(u)).p;
}

constexpr std::uint32_t kLatentChains = support::samples(20000);
const Vector kWrongDrift = {0.6F, -0.3F};  // 0.5 away: one sigma

// KS at 1e-6 for each of three drafters: fails by chance below 1e-5.
TEST(SpeculateGaussian, TheEndOfTheChainFollowsTheTargetWhateverTheDrafter) {
  RunStatistics s;
  EXPECT_GT(end_p(run({kDrift, 4}, ReflectionRule{}, kLatentChains, s)), 1e-6);
  EXPECT_GT(end_p(run({kWrongDrift, 3}, ReflectionRule{}, kLatentChains, s)), 1e-6);
  EXPECT_GT(end_p(run({{30.0F, 30.0F}, 2}, ReflectionRule{}, kLatentChains, s)), 1e-6);
}

TEST(SpeculateGaussian, TheCheckRejectsKeepingEveryDraftAndRedrawing) {
  RunStatistics s;
  EXPECT_LT(end_p(run({kWrongDrift, 3}, KeepEveryDraft{}, 5000, s)), 1e-9);
  EXPECT_LT(end_p(run({kWrongDrift, 3}, RedrawOnReject{}, 20000, s)), 1e-9);
}

// 5 sigma for each draft position: fails by chance below 2e-6.
TEST(SpeculateGaussian, EveryPositionIsAcceptedWithOneMinusTotalVariation) {
  RunStatistics s;
  run({kWrongDrift, 3}, ReflectionRule{}, kLatentChains, s);
  const double keep = 2.0 * normal_cdf(-0.5 * std::hypot(0.3, 0.4) / kSigma);
  ASSERT_EQ(s.examined.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(s.acceptance_by_position()[i], keep, five_sigma(keep, s.examined[i])) << i;
  }
  EXPECT_EQ(s.outputs, kLatentChains * kSteps);
}

TEST(SpeculateGaussian, APerfectDrafterIsAcceptedAlways) {
  RunStatistics s;
  run({kDrift, 2}, ReflectionRule{}, 100, s);
  EXPECT_EQ(s.accepted, s.examined);
  EXPECT_EQ(s.tau(), 3.0);
}

}  // namespace
}  // namespace forerun
