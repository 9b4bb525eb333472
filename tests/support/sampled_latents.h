#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "forerun/core/certificate.h"
#include "forerun/core/statistics.h"
#include "forerun/methods/asd/asd_predictor.h"
#include "forerun/methods/diffusion/latent_drafter.h"
#include "forerun/methods/diffusion/target_predictor.h"
#include "forerun/methods/free/free_predictor.h"
#include "forerun/methods/frozen/frozen_predictor.h"
#include "tests/support/noisy_dit.h"

/// Images of a small random Diffusion Transformer, with drafters of every kind.
namespace forerun::testing {

inline constexpr std::uint64_t kSeed = 11;

inline std::shared_ptr<Dit> shared_dit() {
  return std::make_shared<Dit>(noisy_dit(small_dit(4, 2)));
}

inline std::shared_ptr<FreeNetwork> noisy_free(const Dit& target, bool frozen_image) {
  auto n = std::make_shared<FreeNetwork>(free_from(target, 2, frozen_image));
  for (const ModelWeight& w : weights(*n)) w.tensor->add_(at::randn_like(*w.tensor), 0.03);
  return n;
}

// Predictions unrelated to the target, of about the size of the true ones.
class Guesser final : public StepPredictor {
 public:
  void anchor(LatentMemory&, std::size_t, const Latent&, const at::Tensor&,
              const at::Tensor&) const override {}
  std::vector<Latent> means(const LatentRows& rows, std::span<LatentMemory* const>) const override {
    std::vector<Latent> out;
    for (const Latent* x : rows.states) {
      Latent mean = *x;
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += i % 2 == 0 ? 3.0F : -3.0F;
      out.push_back(mean);
    }
    return out;
  }
};

struct Setting {
  std::size_t slots = 4;
  TargetCalls calls = TargetCalls::kOne;
  std::int64_t steps = 40;
  double guidance = 1.5;
  std::uint32_t images = 3;
  bool adaptive = false;
  LatentRule rule;
  bool reuse = true;
};

using Make = std::function<std::shared_ptr<const StepPredictor>(DitTarget&)>;

struct Sampled {
  std::vector<LatentSample> samples;
  RunStatistics statistics;
  std::uint64_t passes = 0;
  CertificateReport report;
  double shift = 0.0;
  // Of transitions that an earlier round drafted and discarded: their number, and the largest
  // distance between the draft's mean and the target's, in sigmas.
  int reused = 0;
  double reused_distance = 0.0;
};

// Images with a drafter, or none; plain passes score every transition again.
inline Sampled sampled(const Make& make, const Setting& s) {
  const c10::InferenceMode no_autograd;
  const auto dit = shared_dit();
  const GuidedDit model(dit, {.scale = s.guidance});
  const DdpmSchedule schedule({.steps = s.steps});
  DitTarget target(model, schedule);
  const TargetCalls calls = make ? s.calls : TargetCalls::kOne;
  LatentDrafter guesses(make ? make(target) : std::make_shared<Guesser>(), calls, target, s.reuse);
  AdaptiveLatentDrafter drafter =
      adaptive(std::move(guesses), calls, make ? s.slots : 1, s.adaptive);
  Sampled out;
  for (std::uint32_t i = 0; i < s.images; ++i) {
    out.samples.emplace_back(kSeed, i, LatentSample::noise(kSeed, i, 16),
                             static_cast<std::size_t>(s.steps), true);
  }
  std::map<std::pair<std::uint32_t, std::size_t>, Latent> drafted;
  std::set<std::pair<std::uint32_t, std::size_t>> in_vain, reused;
  const auto watch = [&](const auto& round) {
    // Passes of more states cost nothing more here: drafting pays.
    drafter.learn(round, {.drafter = 1e-5, .target = 1e-2, .rest = 1e-6});
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const std::size_t first = round.sequences[i]->step() - round.outcomes[i].emitted;
      for (std::size_t j = 0; j < round.outcomes[i].examined; ++j) {
        const std::pair place{round.sequences[i]->request(), first + j};
        drafted[place] = round.drafts[i].means[j];
        if (in_vain.contains(place)) reused.insert(place);
      }
      for (std::size_t j = round.outcomes[i].emitted; j < round.drafts[i].size(); ++j) {
        in_vain.emplace(round.sequences[i]->request(), first + j);
      }
    }
  };
  speculate<LatentSample>(
      out.samples, target, drafter, s.rule, [] { return true; }, out.statistics, watch);
  out.passes = target.passes();
  GaussianCertificate certificate;
  for (const LatentSample& sample : out.samples) {
    LatentRows rows;
    for (std::size_t k = 0; k < sample.steps(); ++k) rows.add(sample, sample.states()[k], k);
    const LatentScores scores = target.score(rows);
    for (std::size_t k = 0; k < sample.steps(); ++k) {
      const double sigma = schedule.step(static_cast<std::int64_t>(k)).sigma;
      if (sigma == 0.0) {
        EXPECT_EQ(sample.states()[k + 1], scores.means[k]);
        continue;
      }
      const auto draft = drafted.find({sample.request(), k});
      if (reused.contains({sample.request(), k})) {
        double sum = 0.0;
        for (std::size_t d = 0; d < draft->second.size(); ++d) {
          sum += std::pow((draft->second[d] - scores.means[k][d]) / sigma, 2.0);
        }
        ++out.reused;
        out.reused_distance = std::max(out.reused_distance, std::sqrt(sum));
      }
      certificate.add({scores.means[k], sigma}, draft == drafted.end() ? Latent{} : draft->second,
                      sample.states()[k + 1]);
    }
  }
  out.report = certificate.report();
  return out;
}

inline std::vector<Latent> ends(const Sampled& s) {
  std::vector<Latent> out;
  for (const LatentSample& sample : s.samples) out.push_back(sample.state());
  return out;
}

inline const Make kNone;
inline const Make kSelf = [](DitTarget& t) { return std::make_shared<TargetPredictor>(t); };
inline const Make kAsd = [](DitTarget& t) { return std::make_shared<AsdPredictor>(t.schedule()); };
inline const Make kFrozen = [](DitTarget& t) {
  return std::make_shared<FrozenPredictor>(t.schedule());
};
inline const Make kFree = [](DitTarget& t) {
  return std::make_shared<FreePredictor>(GuidedFree(noisy_free(t.model().model(), false)), t);
};
inline const Make kFreeFrozen = [](DitTarget& t) {
  return std::make_shared<FreePredictor>(GuidedFree(noisy_free(t.model().model(), true)), t);
};
inline const Make kGuess = [](DitTarget&) { return std::make_shared<Guesser>(); };

}  // namespace forerun::testing
