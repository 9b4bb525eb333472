// Block verification of Gaussian steps, with noise that is used again.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "forerun/core/latent.h"
#include "forerun/core/speculate.h"
#include "forerun/core/tests_of_fit.h"
#include "tests/support/laws.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using support::five_sigma;
using support::samples;

constexpr double kSigma = 0.5;
constexpr std::size_t kSteps = 6;

double density(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi); }

// Trapezoids over (weight * phi(z) - phi(z - delta))+ up to `end`.
double mass_until(double delta, double weight, double end) {
  constexpr double kStep = 1e-3;
  double sum = 0.0;
  for (double z = end; z > -14.0; z -= kStep) {
    sum += kStep * std::max(0.0, weight * density(z) - density(z - delta));
  }
  return sum;
}

TEST(GaussianResidual, MassAndDrawsAreThoseOfItsDensity) {
  for (const double delta : {0.05, 0.5, 1.0, 3.0}) {
    for (const double weight : {1.0, 0.9, 0.3}) {
      const double mass = residual_mass(delta, weight);
      EXPECT_NEAR(mass, mass_until(delta, weight, 14.0), 1e-3) << delta << " " << weight;
      if (mass < 0.02) continue;
      for (const double u : {0.01, 0.3, 0.99}) {
        const double z = sample_residual(delta, weight, u);
        EXPECT_NEAR(mass_until(delta, weight, z) / mass, u, 0.02) << delta << " " << weight;
      }
    }
  }
  EXPECT_EQ(residual_mass(0.0, 0.5), 0.0);
  EXPECT_EQ(residual_mass(INFINITY, 0.5), 0.5);
  EXPECT_NEAR(residual_mass(1.0, 1.0), 1.0 - 2.0 * normal_cdf(-0.5), 1e-12);  // total variation
}

TEST(GaussianResidual, NoiseKeepsAllButOneComponent) {
  const Latent m = {1.0F, 2.0F, -1.0F}, from = {1.3F, 1.9F, -0.8F}, x = {1.0F, 2.5F, -1.6F};
  const Latent noise = noise_along({m, kSigma}, {from, kSigma}, x, 0.7);
  double length = 0.0, along = 0.0;
  std::array<double, 3> e{}, before{};
  for (std::size_t i = 0; i < 3; ++i) {
    e[i] = from[i] - m[i];
    length += e[i] * e[i];
    before[i] = (x[i] - from[i]) / kSigma;
  }
  double before_along = 0.0;
  for (std::size_t i = 0; i < 3; ++i) {
    e[i] /= std::sqrt(length);
    along += e[i] * noise[i];
    before_along += e[i] * before[i];
  }
  EXPECT_NEAR(along, 0.7, 1e-6);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(noise[i] - along * e[i], before[i] - before_along * e[i], 1e-6);
  }
}

// A chain in two dimensions whose means bend, so that a direction depends on the state.
Latent target_mean(const Latent& x) {
  return {0.8F * x[0] + 0.4F * std::sin(2.0F * x[1]), 0.7F * x[1] + 0.3F * std::cos(x[0])};
}

struct GaussianToyTarget {
  struct Verified {
    std::vector<std::vector<Latent>> means;
    Gaussian at(std::size_t sample, std::size_t step) const {
      return {means[sample].at(step), kSigma};
    }
  };
  Verified verify(std::span<LatentSample* const> samples,
                  const std::vector<LatentDraft>& drafts) const {
    Verified out;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      out.means.push_back({target_mean(samples[i]->state())});
      for (const Latent& x : drafts[i].values) out.means.back().push_back(target_mean(x));
    }
    return out;
  }
  void keep(std::span<LatentSample* const>, const std::vector<LatentDraft>&,
            std::span<const Outcome>) const {}
};

// Off by `delta` sigmas, in a direction that leans on the discarded state of the round before:
// means may depend on all noise of earlier steps, also on noise that was since renewed. Renewed
// noise is used in all ways: of every four rounds the second drafts nothing, and the third begins
// with a draft that cannot be kept.
struct GaussianToyDrafter {
  double delta;
  std::size_t length;
  std::map<std::pair<SequenceId, std::size_t>, Latent> discarded = {};  // by step

  std::vector<LatentDraft> propose(std::span<LatentSample* const> samples) const {
    std::vector<LatentDraft> drafts;
    for (const LatentSample* sample : samples) {
      LatentDraft draft;
      Latent x = sample->state();
      const std::size_t most = sample->round() % 4 == 1 ? 0 : length;
      for (std::size_t i = 0; i < most && sample->step() + i < sample->steps(); ++i) {
        Latent mean = target_mean(x);
        if (sample->round() % 4 == 2 && i == 0) mean[0] = 1e6F;
        const auto old = discarded.find({sample->id(), sample->step() + i});
        const double angle = old == discarded.end() ? 0.5 : 2.0 * old->second[0];
        mean[0] += static_cast<float>(delta * kSigma * std::cos(angle));
        mean[1] += static_cast<float>(delta * kSigma * std::sin(angle));
        x = sample->key_at(sample->step() + i).draw({mean, kSigma});
        draft.means.push_back(std::move(mean));
        draft.values.push_back(x);
      }
      drafts.push_back(std::move(draft));
    }
    return drafts;
  }
  void observe(std::span<LatentSample* const> samples, const std::vector<LatentDraft>& drafts,
               const GaussianToyTarget::Verified&, std::span<const Outcome> outcomes) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::size_t first = samples[i]->step() - outcomes[i].emitted;
      for (std::size_t j = 0; j < drafts[i].size(); ++j) {
        discarded[{samples[i]->id(), first + j + 1}] = drafts[i].values[j];
      }
    }
  }
};

// One error each.
struct Broken {
  enum Kind { kNone, kNoRenewal, kReflects, kTokenResidual } kind;
  LatentRule exact = LatentRule::block();

  auto decide(const LatentDraft& draft, const auto& conditional, const auto& key) const {
    return exact.decide(draft, conditional, key);
  }
  Coupled<Latent> couple(const Gaussian& target, const LatentDraft& draft, std::size_t step,
                         const LatentKey& key, std::optional<Block> decided) const {
    if (decided && step == decided->accepted && decided->weight < 1.0) {
      if (kind == kReflects) {
        return reflect(target, {draft.means[step], kSigma}, draft.values[step], 1.0, 1.0);
      }
      if (kind == kTokenResidual) {
        const double u = key.uniform(Purpose::kResidual);
        const double z = sample_residual(
            gaussian_step(target, {draft.means[step], kSigma}, draft.values[step]).delta, 1.0, u);
        return {
            target.with(noise_along(target, {draft.means[step], kSigma}, draft.values[step], z)),
            false};
      }
    }
    return exact.couple(target, draft, step, key, decided);
  }
  Latent draw(const Gaussian& target, const LatentKey& key) const {
    return exact.draw(target, key);
  }
  void settle(LatentSample& sample, const LatentDraft& draft, const auto& conditional,
              const Outcome& o) const {
    if (kind != kNoRenewal) exact.settle(sample, draft, conditional, o);
  }
};

struct Look {
  double joint_p = 0.0;   // chi-square of the signs of all noise of the first four steps
  double normal_p = 1.0;  // smallest KS of a step's coordinate
  double tau = 0.0;
};

template <class Rule>
Look look_at(double delta, std::size_t length, const Rule& rule, std::uint32_t chains) {
  std::vector<std::size_t> cells(256, 0);
  std::array<std::vector<double>, 2 * kSteps> values;
  double rounds = 0.0;
  GaussianToyTarget target;
  for (std::uint32_t first = 0; first < chains; first += 1000) {
    std::vector<LatentSample> samples;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      samples.emplace_back(9, first + i, Latent{1.0F, -0.5F}, kSteps, true);
    }
    GaussianToyDrafter drafter{delta, length};
    speculate<LatentSample>(samples, target, drafter, rule, [] { return true; });
    for (const LatentSample& sample : samples) {
      rounds += sample.round();
      std::size_t cell = 0;
      for (std::size_t k = 0; k < kSteps; ++k) {
        const Latent m = target_mean(sample.states()[k]);
        for (std::size_t d = 0; d < 2; ++d) {
          const double r = (sample.states()[k + 1][d] - m[d]) / kSigma;
          values[2 * k + d].push_back(normal_cdf(r));
          if (k < 4) cell = 2 * cell + (r > 0.0 ? 1 : 0);
        }
      }
      ++cells[cell];
    }
  }
  Look out;
  out.joint_p = chi_square_p(std::vector<double>(256, 1.0 / 256), cells);
  for (auto& v : values) out.normal_p = std::min(out.normal_p, ks_uniform(std::move(v)).p);
  out.tau = chains * static_cast<double>(kSteps) / rounds;
  return out;
}

// Thirteen tests at 1e-6 for each of four cases: fails by chance below 1e-4.
TEST(GaussianBlock, ChainsFollowTheTargetWhileNoiseIsUsedAgain) {
  for (const auto& [delta, length] :
       {std::pair<double, std::size_t>{0.4, 3}, {0.8, 5}, {1.5, 5}, {0.8, 1}}) {
    const Look block = look_at(delta, length, LatentRule::block(), samples(100000));
    EXPECT_GT(block.joint_p, 1e-6) << delta << " " << length;
    EXPECT_GT(block.normal_p, 1e-6) << delta << " " << length;
    const Look steps = look_at(delta, length, LatentRule(), samples(100000));
    EXPECT_GT(steps.joint_p, 1e-6) << delta << " " << length;
    EXPECT_GE(block.tau, steps.tau) << delta << " " << length;
    if (length == 1) {
      EXPECT_EQ(block.tau, steps.tau);  // the same numbers decide the same
    }
  }
}

TEST(GaussianBlock, TheTestsCatchEveryBrokenForm) {
  EXPECT_GT(look_at(0.8, 5, Broken{Broken::kNone}, samples(100000)).normal_p, 1e-6);
  for (const auto kind : {Broken::kNoRenewal, Broken::kReflects, Broken::kTokenResidual}) {
    const Look look = look_at(0.8, 5, Broken{kind}, samples(250000));
    if (support::kSanitized) continue;  // too few draws to tell
    EXPECT_LT(look.normal_p, 1e-9) << kind;
  }
}

TEST(LatentSample, TheStateItStartsFromSharesNoNumberWithItsSteps) {
  const Latent start = LatentSample::noise(9, 4, 2), zero(2, 0.0F);
  const LatentSample sample(9, 4, start, 1000);
  for (std::size_t step = 0; step < sample.steps(); ++step) {
    const Latent drawn = sample.key_at(step).draw({zero, 1.0});
    ASSERT_NE(drawn[0], start[0]) << step;
    ASSERT_NE(drawn[1], start[1]) << step;
  }
}

struct Mean {
  double mean = 0.0, error = 0.0;
};

// Drafts kept in one round of `drafts`, each `delta` sigmas off.
Mean kept_in_a_round(double delta, std::size_t drafts, const LatentRule& rule, double& expected_z) {
  constexpr std::uint32_t kRounds = samples(40000);
  double sum = 0.0, squares = 0.0, expected = 0.0, variance = 0.0;
  const GaussianToyTarget target;
  const GaussianToyDrafter drafter{delta, drafts};
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    LatentSample sample(3, i, Latent{0.3F, 0.1F}, 64);
    std::array<LatentSample*, 1> one = {&sample};
    const auto proposed = drafter.propose(one);
    const auto verified = target.verify(one, proposed);
    const Outcome o = resolve(sample, 0, verified, proposed[0], rule);
    sum += o.accepted;
    squares += static_cast<double>(o.accepted) * o.accepted;
    const auto at = [&](std::size_t step) { return verified.at(0, step); };
    for (const double keeps : rule.keeps(proposed[0], at, o.examined)) {
      expected += keeps;
      variance += keeps * (1.0 - keeps);
    }
  }
  expected_z = (sum - expected) / std::sqrt(variance);
  const double mean = sum / kRounds;
  return {mean, std::sqrt((squares / kRounds - mean * mean) / kRounds)};
}

// sum of E P_i: log P walks with increments N(-delta^2 / 2, delta^2) under the draft and is held at
// 0.
double expected_kept(double delta, std::size_t drafts) {
  constexpr double kStep = 0.01, kEnd = -12.0;
  const auto cells = static_cast<std::size_t>(-kEnd / kStep);
  std::vector<double> mass(cells + 1, 0.0);  // cell i: log P = -i * kStep, 0 at i = 0
  mass[0] = 1.0;
  const auto reach = static_cast<std::ptrdiff_t>((8.0 * delta + delta * delta) / kStep) + 2;
  std::vector<double> chance;  // of a step by -reach, ..., reach cells
  for (std::ptrdiff_t d = -reach; d <= reach; ++d) {
    const double z = (-static_cast<double>(d) * kStep + 0.5 * delta * delta) / delta;
    chance.push_back(density(z) * kStep / delta);
  }
  double sum = 0.0;
  for (std::size_t i = 0; i < drafts; ++i) {
    std::vector<double> next(cells + 1, 0.0);
    for (std::size_t a = 0; a <= cells; ++a) {
      if (mass[a] < 1e-12) continue;
      const auto from = static_cast<std::ptrdiff_t>(a);
      double total = 0.0;
      for (std::ptrdiff_t d = -reach; d <= reach; ++d) {
        const double w = mass[a] * chance[static_cast<std::size_t>(d + reach)];
        total += w;
        const std::ptrdiff_t b =
            std::clamp<std::ptrdiff_t>(from + d, 0, static_cast<std::ptrdiff_t>(cells));
        next[static_cast<std::size_t>(b)] += w;
      }
      EXPECT_NEAR(total, mass[a], 1e-3 * mass[a]);
    }
    mass = std::move(next);
    for (std::size_t a = 0; a <= cells; ++a)
      sum += mass[a] * std::exp(-kStep * static_cast<double>(a));
  }
  return sum;
}

// Two ways to each number, and the reflection, which keeps 2 Phi(-delta / 2) of the drafts in turn.
TEST(GaussianBlock, KeepsAsManyDraftsAsTheFormulaSays) {
  for (const double delta : {0.125, 0.25, 0.5, 1.0}) {
    for (const std::size_t drafts : {7U, 15U}) {
      double block_z = 0.0, steps_z = 0.0;
      const Mean block = kept_in_a_round(delta, drafts, LatentRule::block(), block_z);
      const Mean steps = kept_in_a_round(delta, drafts, LatentRule(), steps_z);
      EXPECT_NEAR(block.mean, expected_kept(delta, drafts), 5.0 * block.error + 0.01) << delta;
      const double alpha = 2.0 * normal_cdf(-0.5 * delta);
      const double chain = alpha * (1.0 - std::pow(alpha, drafts)) / (1.0 - alpha);
      EXPECT_NEAR(steps.mean, chain, 5.0 * steps.error) << delta;
      EXPECT_LT(std::abs(block_z), 5.0) << delta;
      EXPECT_LT(std::abs(steps_z), 5.0) << delta;
      if (support::kSanitized) continue;  // too few rounds to tell
      EXPECT_GT(block.mean, steps.mean + 5.0 * (block.error + steps.error));
      RecordProperty("kept_" + std::to_string(delta) + "_of_" + std::to_string(drafts),
                     std::to_string(block.mean) + " against " + std::to_string(steps.mean));
    }
  }
}

TEST(GaussianBlock, APerfectDrafterIsKeptWithItsNoise) {
  double z = 0.0;
  EXPECT_EQ(kept_in_a_round(0.0, 7, LatentRule::block(), z).mean, 7.0);
}

}  // namespace
}  // namespace forerun
