// The loop with tokens made by chains: every inner step of the emitted path is the target's.
#include <gtest/gtest.h>

#include <cmath>

#include "forerun/core/certificate.h"
#include "forerun/core/chain_sample.h"
#include "forerun/core/speculate.h"
#include "forerun/core/statistics.h"
#include "tests/support/mixture_chain.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using support::MixtureChain;
using support::MixtureDrafter;
using support::MixtureOptions;
using support::MixtureTarget;

constexpr std::size_t kTokens = 7;
const MixtureOptions kTarget{.dim = 2, .pull = 0.6};
const MixtureOptions kDraft{.dim = 2, .bias = 0.2, .pull = 0.4};
const MixtureOptions kWider{.dim = 2, .bias = 0.2, .stretch = 1.1, .pull = 0.4};

struct Sampled {
  std::vector<ChainSample> samples;
  RunStatistics statistics;
};

Sampled run(Rule rule, const MixtureOptions& draft, std::size_t length, std::uint32_t samples,
            std::uint32_t first = 0) {
  MixtureChain target(kTarget), other(draft);
  MixtureTarget loop_target{&target};
  MixtureDrafter drafter{&other, length};
  Sampled out;
  for (std::uint32_t i = 0; i < samples; ++i) {
    out.samples.emplace_back(ChainSample::Options{
        .seed = 5, .request = first + i, .tokens = kTokens, .id = i, .keep = true});
  }
  const ChainRule chain_rule(rule);
  speculate<ChainSample>(
      out.samples, loop_target, drafter, chain_rule, [] { return true; }, out.statistics);
  return out;
}

// Every inner step against the target's law after the emitted token before it.
CertificateReport judged(const Sampled& r) {
  const MixtureChain target(kTarget);
  GaussianCertificate certificate;
  for (const ChainSample& sample : r.samples) {
    Latent before;
    for (const ChainToken& token : sample.tokens()) {
      for (std::size_t k = 0; k < target.sigmas().size(); ++k) {
        const Latent mean = target.mean(token.path.states[k], k, before);
        certificate.add({mean, target.sigmas()[k]},
                        token.draft_means.empty() ? Latent() : token.draft_means[k],
                        token.path.states[k + 1]);
      }
      before = token.value();
    }
  }
  return certificate.report();
}

TEST(SpeculateChain, ExactRulesPassTheCertificate) {
  for (const Rule rule : {Rule::kStepwise, Rule::kPath}) {
    for (const std::size_t length : {1U, 4U}) {
      constexpr std::uint32_t kImages = support::samples(4000);
      const Sampled r = run(rule, kDraft, length, kImages);
      const CertificateReport report = judged(r);
      EXPECT_TRUE(report.passed()) << name_of(rule) << " z " << report.z << " ks " << report.ks_p
                                   << " energy " << report.energy_p;
      EXPECT_GT(report.drafted, kImages * 25U / 2);
      EXPECT_GT(r.statistics.tau(), 1.2);
    }
  }
}

TEST(SpeculateChain, PublishedRulesFailIt) {
  for (const Rule rule : {Rule::kPaper, Rule::kCode}) {
    const CertificateReport report = judged(run(rule, kWider, 4, 1000));
    EXPECT_FALSE(report.passed()) << name_of(rule);
    EXPECT_GT(std::abs(report.z), 5.0) << name_of(rule);
  }
}

// The code's rule examines drafts after a rejected one.
TEST(SpeculateChain, TheCodesRuleNeverRollsBack) {
  const Sampled r = run(Rule::kCode, kWider, 3, 10);
  EXPECT_EQ(r.statistics.rounds, 10U * 3U);  // 3, 3 and 1 tokens
}

TEST(SpeculateChain, APerfectDraftMakesThePlainImage) {
  const Sampled plain = run(Rule::kStepwise, kTarget, 0, 20);
  for (const Rule rule : {Rule::kStepwise, Rule::kPath}) {
    const Sampled drafted = run(rule, kTarget, 3, 20);
    EXPECT_EQ(drafted.statistics.accepted, drafted.statistics.examined);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(drafted.samples[i].values(), plain.samples[i].values());
    }
  }
}

TEST(SpeculateChain, AnImageDoesNotDependOnItsNeighbours) {
  for (const Rule rule : {Rule::kStepwise, Rule::kPath}) {
    const Sampled all = run(rule, kDraft, 3, 8);
    const Sampled one = run(rule, kDraft, 3, 1, 5);
    EXPECT_EQ(all.samples[5].values(), one.samples[0].values());
  }
}

TEST(SpeculateChain, OtherRulesAreRefused) {
  EXPECT_THROW(ChainRule(Rule::kMaximal), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
