// The part of certificate.h for Gaussian steps.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "forerun/core/certificate.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/tests_of_fit.h"
#include "tests/support/laws.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using Vector = std::vector<float>;

constexpr std::size_t kDim = 8;
constexpr double kSigma = 0.4;
constexpr float kApart = 0.14F;  // each coordinate of the draft's mean is off by this: one sigma

using Couple = Coupled<Vector> (*)(const Gaussian&, const Gaussian&, Vector, const RngKey&);

// Keeps drafts up to e times less likely under the target than an exact rule may.
Coupled<Vector> relaxed(const Gaussian& target, const Gaussian& draft, Vector x, const RngKey& d) {
  double log_ratio = 1.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = (static_cast<double>(x[i]) - target.mean[i]) / target.sigma;
    const double q = (static_cast<double>(x[i]) - draft.mean[i]) / draft.sigma;
    log_ratio += 0.5 * (q * q - p * p);
  }
  if (std::log(d.uniform(Purpose::kAccept)) < log_ratio) return {std::move(x), true};
  Coupled<Vector> out = couple(target, draft, x, d);
  return out.accepted ? Coupled<Vector>{std::move(x), true} : out;
}
Coupled<Vector> keep_all(const Gaussian&, const Gaussian&, Vector x, const RngKey&) {
  return {std::move(x), true};
}
Coupled<Vector> redraw(const Gaussian& target, const Gaussian& draft, Vector x, const RngKey& d) {
  Coupled<Vector> out = couple(target, draft, std::move(x), d);
  if (!out.accepted) out.value = target.sample(Purpose::kResidual, d);
  return out;
}

// A chain of steps; every fourth has no draft.
CertificateReport certify(std::uint32_t run, std::uint32_t steps, Couple couple_them,
                          double scored_sigma = kSigma) {
  GaussianCertificate certificate;
  Vector x(kDim, 0.0F);
  for (std::uint32_t t = 0; t < steps; ++t) {
    const RngKey key{.seed = 500 + run, .position = t};
    Vector mean = x;
    for (float& m : mean) m = 0.9F * m + 0.1F;
    const Gaussian target{mean, kSigma};
    if (t % 4 == 3) {
      x = target.sample(Purpose::kTarget, key);
      certificate.add({mean, scored_sigma}, {}, x);
      continue;
    }
    Vector off = mean;
    for (std::size_t i = 0; i < kDim; ++i) off[i] += (t + i) % 2 == 0 ? kApart : -kApart;
    const Gaussian draft{off, kSigma};
    x = couple_them(target, draft, draft.sample(Purpose::kDraft, key), key).value;
    certificate.add({mean, scored_sigma}, off, x);
  }
  return certificate.report();
}

// 200 runs; three tests at 1e-4: fails by chance below 3e-4.
TEST(GaussianCertificate, IsCalibratedUnderTheReflection) {
  std::vector<double> ks, z, energy;
  int failed = 0;
  for (std::uint32_t run = 0; run < support::samples(200); ++run) {
    const CertificateReport r = certify(run, 200, &couple);
    ASSERT_EQ(r.outputs, 200U);
    ASSERT_EQ(r.drafted, 150U);
    ks.push_back(r.ks_p);
    z.push_back(normal_cdf(r.z));
    energy.push_back(r.energy_p);
    failed += r.passed() ? 0 : 1;
  }
  EXPECT_GT(ks_uniform(ks).p, 1e-4);
  EXPECT_GT(ks_uniform(z).p, 1e-4);
  EXPECT_GT(ks_uniform(energy).p, 1e-4);
  EXPECT_LE(failed, 1);
}

constexpr int kLatentRuns = support::samples(20, 2);

// Each bias is detected within 2,000 steps in at least 19 of 20 runs, by the statistic meant for
// it.
TEST(GaussianCertificate, CatchesAnAcceptanceBiasAlongTheDraft) {
  for (const Couple broken : {&keep_all, &relaxed, &redraw}) {
    int caught = 0;
    double mean_z = 0.0;
    for (std::uint32_t run = 0; run < kLatentRuns; ++run) {
      const CertificateReport r = certify(run, 2000, broken);
      caught += !r.passed() && r.z > 4.0 ? 1 : 0;
      mean_z += r.z / kLatentRuns;
    }
    const std::string name = broken == &keep_all  ? "keep"
                             : broken == &relaxed ? "relaxed"
                                                  : "redraw";
    EXPECT_GE(caught, kLatentRuns - 1) << name << ": mean z " << mean_z;
    ::testing::Test::RecordProperty("mean_z_of_" + name, std::to_string(mean_z));
  }
}

TEST(GaussianCertificate, CatchesAWrongSigmaByItsEnergy) {
  for (const double factor : {0.95, 1.05}) {
    int caught = 0;
    for (std::uint32_t run = 0; run < kLatentRuns; ++run) {
      const CertificateReport r = certify(run, 2000, &couple, factor * kSigma);
      caught += !r.passed() && r.energy_p < 1e-4 ? 1 : 0;
    }
    EXPECT_GE(caught, kLatentRuns - 1) << factor;
  }
}

TEST(GaussianCertificate, FollowsItsFormulas) {
  const Vector mean = {1.0F, 2.0F}, draft = {4.0F, 6.0F}, value = {2.0F, 4.0F};
  GaussianCertificate c;
  c.add({mean, 2.0}, draft, value);  // r = (0.5, 1), e = (0.6, 0.8)
  EXPECT_NEAR(c.report().z, 1.1, 1e-12);
  const double tail = chi_square_tail(1.25, 2.0);
  EXPECT_NEAR(c.report().energy_p, 2.0 * std::min(tail, 1.0 - tail), 1e-12);
  EXPECT_NEAR(c.report().ks_p, ks_uniform({normal_cdf(0.5), normal_cdf(1.0)}).p,
              1e-5);                // transforms are counted in cells
  c.add({mean, 2.0}, mean, value);  // a draft at the target's own mean has no direction
  EXPECT_EQ(c.report().drafted, 1U);
  c.add({mean, 2.0}, draft, mean);
  EXPECT_NEAR(c.report().z, 1.1 / std::sqrt(2.0), 1e-12);
  EXPECT_EQ(c.report().outputs, 3U);
  EXPECT_TRUE(GaussianCertificate{}.report().passed());
}

TEST(GaussianCertificate, AnOutputThatIsNoNumberFails) {
  const Vector mean = {0.0F, 0.0F}, draft = {1.0F, 0.0F};
  for (const float broken :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::span<const float> drafted : {std::span<const float>(), std::span(draft)}) {
      GaussianCertificate c;
      for (std::uint32_t i = 0; i < 1000; ++i) {
        c.add({mean, 1.0}, drafted,
              Gaussian{mean, 1.0}.sample(Purpose::kTarget, {.seed = 1, .position = i}));
      }
      ASSERT_TRUE(c.report().passed());
      c.add({mean, 1.0}, drafted, Vector{broken, 0.0F});
      EXPECT_FALSE(c.report().passed()) << broken;
    }
  }
}

TEST(GaussianCertificate, RefusesWhatItCannotScore) {
  const Vector two = {0.0F, 0.0F}, three = {0.0F, 0.0F, 0.0F};
  GaussianCertificate c;
  EXPECT_THROW(c.add({two, 1.0}, {}, three), std::invalid_argument);
  EXPECT_THROW(c.add({three, 1.0}, {}, two), std::invalid_argument);
  EXPECT_THROW(c.add({two, 1.0}, three, two), std::invalid_argument);
  EXPECT_THROW(c.add({two, 0.0}, {}, two), std::invalid_argument);
  EXPECT_THROW(c.add({two, -1.0}, {}, two), std::invalid_argument);
  EXPECT_THROW(c.add({two, std::nan("")}, {}, two), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
