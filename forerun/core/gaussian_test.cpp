#include "forerun/core/gaussian.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "forerun/core/rng_key.h"
#include "forerun/core/tests_of_fit.h"
#include "tests/support/laws.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using support::five_sigma;
using support::samples;
using Vector = std::vector<float>;

RngKey place(std::uint32_t i) { return {.seed = 41, .request = 3, .round = i % 5, .position = i}; }

// Target and draft with means `distance` sigmas apart in a direction with equal coordinates.
struct Pair {
  Vector target_mean, draft_mean;
  double sigma, distance;

  Pair(std::size_t dim, double sigmas_apart, double s) : sigma(s), distance(0.0) {
    target_mean = support::random_weights(dim, dim, 1.0F);
    draft_mean = target_mean;
    Vector direction = support::random_weights(dim + 1000, dim, 1.0F);
    double length = 0.0;
    for (const float d : direction) length += static_cast<double>(d) * d;
    const double step = sigmas_apart * s / std::sqrt(length);
    for (std::size_t i = 0; i < dim; ++i) {
      draft_mean[i] = static_cast<float>(draft_mean[i] + step * direction[i]);
      const double moved = static_cast<double>(draft_mean[i]) - target_mean[i];
      distance += moved * moved / (s * s);
    }
    distance = std::sqrt(distance);  // after rounding to float
  }
  Gaussian target() const { return {target_mean, sigma}; }
  Gaussian draft() const { return {draft_mean, sigma}; }
};

// The outputs in units of the target's noise.
struct Look {
  double coordinates_p = 0.0;  // KS of every coordinate
  double along_p = 0.0;        // KS of the projection on the direction between the means
  double energy_p = 0.0;       // two-sided chi-square of |r|^2
  double rejected = 0.0;       // share
};

template <class Couple>
Look look_at(const Pair& pair, std::uint32_t tries, Couple couple_them) {
  std::vector<double> coordinates, along;
  double energy = 0.0;
  double rejected = 0.0;
  for (std::uint32_t i = 0; i < tries; ++i) {
    const Vector drafted = pair.draft().sample(Purpose::kDraft, place(i));
    const Coupled<Vector> out = couple_them(pair.target(), pair.draft(), drafted, place(i));
    rejected += out.accepted ? 0.0 : 1.0;
    double projected = 0.0;
    for (std::size_t k = 0; k < drafted.size(); ++k) {
      const double m = pair.target_mean[k];
      const double r = (static_cast<double>(out.value[k]) - m) / pair.sigma;
      coordinates.push_back(normal_cdf(r));
      energy += r * r;
      projected += r * (static_cast<double>(pair.draft_mean[k]) - m) / pair.sigma;
    }
    if (pair.distance > 0.0) along.push_back(normal_cdf(projected / pair.distance));
  }
  const auto freedom = static_cast<double>(coordinates.size());
  const double tail = chi_square_tail(energy, freedom);
  return {ks_uniform(coordinates).p, ks_uniform(along).p, 2.0 * std::min(tail, 1.0 - tail),
          rejected / tries};
}

const auto kReflect = [](const Gaussian& p, const Gaussian& q, const Vector& x, const RngKey& d) {
  return couple(p, q, x, d);
};
const auto kKeepAll = [](const Gaussian&, const Gaussian&, const Vector& x, const RngKey&) {
  return Coupled<Vector>{x, true};
};
// Draws from the target again on a rejection: the obvious rule without reflection.
const auto kRedraw = [](const Gaussian& p, const Gaussian& q, const Vector& x, const RngKey& d) {
  Coupled<Vector> out = couple(p, q, x, d);
  if (!out.accepted) out.value = p.sample(Purpose::kResidual, d);
  return out;
};

double total_variation_of(double distance) { return 1.0 - 2.0 * normal_cdf(-0.5 * distance); }

struct Case {
  std::size_t dim;
  std::uint32_t tries;
  double distance;
};
constexpr std::array kCases = {
    Case{1, samples(400000), 0.3},      Case{1, samples(400000), 1.0},
    Case{1, samples(400000), 3.0},      Case{2, samples(200000), 0.5},
    Case{2, samples(200000), 2.0},      Case{1024, samples(600, 400), 1.0},
    Case{1024, samples(600, 400), 2.5}, Case{1024, samples(600, 400), 4.0}};

// KS and chi-square at 1e-6, three for each of eight cases: fails by chance below 3e-5.
TEST(Reflect, OutputFollowsTargetWhateverTheDraft) {
  for (const Case& c : kCases) {
    const Look look = look_at(Pair(c.dim, c.distance, 0.7), c.tries, kReflect);
    EXPECT_GT(look.coordinates_p, 1e-6) << c.dim << " " << c.distance;
    EXPECT_GT(look.along_p, 1e-6) << c.dim << " " << c.distance;
    EXPECT_GT(look.energy_p, 1e-6) << c.dim << " " << c.distance;
    const double tv = total_variation_of(c.distance);
    EXPECT_NEAR(look.rejected, tv, five_sigma(tv, c.tries) + 1e-6) << c.dim << " " << c.distance;
  }
}

TEST(Reflect, TheChecksRejectKeepingEveryDraftAndRedrawingFromTheTarget) {
  for (const Case& c : kCases) {
    const Pair pair(c.dim, c.distance, 0.7);
    EXPECT_LT(look_at(pair, c.tries / 4, kKeepAll).along_p, 1e-9) << c.dim << " " << c.distance;
    // Its bias is the mean of the kept part, distance / 2 * (1 - TV): small where the means are
    // close or where nothing is kept.
    const double bias = 0.5 * c.distance * (1.0 - total_variation_of(c.distance));
    if (bias * std::sqrt(c.tries) < 9.0) continue;
    EXPECT_LT(look_at(pair, c.tries, kRedraw).along_p, 1e-9) << c.dim << " " << c.distance;
  }
}

TEST(Reflect, EqualMeansKeepTheDraftBitForBit) {
  const Pair pair(33, 0.0, 2.0);
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const Vector drafted = pair.draft().sample(Purpose::kDraft, place(i));
    const Coupled<Vector> out = couple(pair.target(), pair.target(), drafted, place(i));
    ASSERT_TRUE(out.accepted);
    ASSERT_EQ(out.value, drafted);
  }
}

TEST(Reflect, AnAcceptedDraftIsReturnedUntouchedAndARejectedOneIsReflected) {
  const Pair pair(7, 1.0, 0.5);
  int accepted = 0;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const Vector drafted = pair.draft().sample(Purpose::kDraft, place(i));
    const Coupled<Vector> out = couple(pair.target(), pair.draft(), drafted, place(i));
    accepted += out.accepted ? 1 : 0;
    if (out.accepted) {
      ASSERT_EQ(out.value, drafted);
      continue;
    }
    // Reflection keeps the length of the noise and flips its component along the means' difference.
    double before = 0.0, after = 0.0, along_before = 0.0, along_after = 0.0;
    for (std::size_t k = 0; k < 7; ++k) {
      const double e = static_cast<double>(pair.draft_mean[k]) - pair.target_mean[k];
      const double noise = static_cast<double>(drafted[k]) - pair.draft_mean[k];
      const double reflected = static_cast<double>(out.value[k]) - pair.target_mean[k];
      before += noise * noise;
      after += reflected * reflected;
      along_before += noise * e;
      along_after += reflected * e;
    }
    ASSERT_NEAR(after, before, 1e-5 * before);
    ASSERT_NEAR(along_after, -along_before, 1e-5);
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 1500);
}

TEST(Reflect, DecidesByTheUniformOfThePlaceAndTheDensityRatio) {
  const Pair pair(3, 1.5, 2.0);
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const Vector x = pair.draft().sample(Purpose::kDraft, place(i));
    double log_ratio = 0.0;
    for (std::size_t k = 0; k < 3; ++k) {
      const double p = (static_cast<double>(x[k]) - pair.target_mean[k]) / 2.0;
      const double q = (static_cast<double>(x[k]) - pair.draft_mean[k]) / 2.0;
      log_ratio += 0.5 * (q * q - p * p);
    }
    const double u = place(i).uniform(Purpose::kAccept);
    ASSERT_EQ(couple(pair.target(), pair.draft(), x, place(i)).accepted, std::log(u) < log_ratio);
  }
}

// KS and chi-square at 1e-6, three for each of four cases: fails by chance below 2e-5.
TEST(Reflect, FarMeansAreNeverAcceptedAndStillFollowTheTarget) {
  for (const double distance : {40.0, 1e3}) {
    for (const std::size_t dim : {1U, 64U}) {
      const Look look = look_at(Pair(dim, distance, 0.5), 6400 / dim, kReflect);
      EXPECT_EQ(look.rejected, 1.0);
      EXPECT_GT(look.coordinates_p, 1e-6) << dim;
      EXPECT_GT(look.along_p, 1e-6) << dim;
      EXPECT_GT(look.energy_p, 1e-6) << dim;
    }
  }
}

TEST(Reflect, MeansAMillionthOfASigmaApartAreKeptAndARareReflectionStaysFinite) {
  Pair pair(4, 0.0, 1.0);
  std::fill(pair.target_mean.begin(), pair.target_mean.end(), 0.0F);
  pair.draft_mean = {1e-6F, 0.0F, 0.0F, 0.0F};
  pair.distance = 1e-6;
  const Look look = look_at(pair, 50000, kReflect);
  EXPECT_LT(look.rejected, 1e-4);  // expected 4e-7: at most four in 50,000 below 1e-8
  EXPECT_GT(look.coordinates_p, 1e-6);
  EXPECT_GT(look.along_p, 1e-6);
  // With the uniform forced, the draft is rejected eventually: the reflected value must have its
  // size.
  const Vector far = {3e6F, 1.0F, 0.0F, 0.0F};
  for (std::uint32_t i = 0; i < 50; ++i) {
    const Coupled<Vector> out = couple(pair.target(), pair.draft(), far, place(i));
    EXPECT_NEAR(std::abs(out.value[0]), 3e6F, 1.0F);
    EXPECT_EQ(out.value[1], 1.0F);
  }
}

// Where the density ratio underflows to 0, a uniform of exactly 0 must not keep the draft. The key
// is that of couple_test.cpp.
TEST(Reflect, AtUniformZeroAHopelessDraftIsStillRejected) {
  constexpr RngKey kAcceptZero{7, 0xde29becdU, 0xcba7bfa1U, 0xc8bf7fa8U};
  ASSERT_EQ(kAcceptZero.uniform(Purpose::kAccept), 0.0);
  const Vector target = {0.0F}, draft = {1.0F};
  const Coupled<Vector> out = couple({target, 1e-160}, {draft, 1e-160}, draft, kAcceptZero);
  EXPECT_FALSE(out.accepted);
  EXPECT_EQ(out.value, target);
}

TEST(Reflect, SigmaZeroIsAPointMass) {
  const Vector mean = {1.0F, 2.0F}, other = {1.0F, 2.5F};
  const Coupled<Vector> kept = couple({mean, 0.0}, {other, 0.0}, mean, place(1));
  EXPECT_TRUE(kept.accepted);
  EXPECT_EQ(kept.value, mean);
  const Coupled<Vector> replaced = couple({mean, 0.0}, {other, 0.0}, other, place(1));
  EXPECT_FALSE(replaced.accepted);
  EXPECT_EQ(replaced.value, mean);
}

TEST(Reflect, ABrokenMeanIsNeverAccepted) {
  const Vector nan = {std::numeric_limits<float>::quiet_NaN(), 0.0F}, fine = {0.0F, 0.0F};
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_FALSE(couple({nan, 1.0}, {fine, 1.0}, fine, place(i)).accepted);
    EXPECT_FALSE(couple({fine, 1.0}, {nan, 1.0}, fine, place(i)).accepted);
  }
}

// A draft's mean to which float32 cannot add noise, whatever the drafter.
TEST(Reflect, AGarbageDraftMeanLeavesTheTargetsOwnSample) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Vector mean = {0.5F, -1.0F, 2.0F, 0.0F};
  const Gaussian target{mean, 0.25};
  for (const float garbage : {nan, inf, -inf, 3e38F, -3e38F, 1e9F, 100.0F}) {
    for (std::uint32_t i = 0; i < 200; ++i) {
      Vector off = mean;
      off[i % 4] = garbage;
      if (i % 2 == 0) off.assign(4, garbage);
      const Gaussian draft{off, 0.25};
      const auto out = couple(target, draft, draft.sample(Purpose::kTarget, place(i)), place(i));
      EXPECT_FALSE(out.accepted);
      EXPECT_EQ(out.value, target.sample(Purpose::kTarget, place(i))) << garbage;
    }
  }
}

// Just inside that bound the coupling is exact: sixteen times the target's scale.
TEST(Reflect, TheLargestMeanThatIsReflectedKeepsTheLaw) {
  Pair pair(5, 3.0, 0.5);
  pair.target_mean.assign(5, 0.01F);
  pair.draft_mean.assign(5, 7.9F);
  const Look look = look_at(pair, 20000, [](auto&&... a) { return couple(a...); });
  EXPECT_GT(look.coordinates_p, 1e-6);
  EXPECT_GT(look.energy_p, 1e-6);
}

TEST(Reflect, RefusesWhatItCannotReflect) {
  const Vector two = {0.0F, 0.0F}, three = {0.0F, 0.0F, 0.0F};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RngKey d = place(1);
  EXPECT_THROW(couple({two, 1.0}, {three, 1.0}, two, d), std::invalid_argument);
  EXPECT_THROW(couple({three, 1.0}, {two, 1.0}, two, d), std::invalid_argument);
  EXPECT_THROW(couple({two, 1.0}, {two, 1.0}, three, d), std::invalid_argument);
  EXPECT_THROW(couple({two, 1.0}, {two, 1.1}, two, d), std::invalid_argument);
  EXPECT_THROW(couple({two, 0.0}, {two, 1.0}, two, d), std::invalid_argument);
  EXPECT_THROW(couple({two, -1.0}, {two, -1.0}, two, d), std::invalid_argument);
  EXPECT_THROW(couple({two, nan}, {two, nan}, two, d), std::invalid_argument);
  EXPECT_THROW(couple({two, 1.0}, {two, nan}, two, d), std::invalid_argument);
}

TEST(Relaxed, OneIsTheExactCouplingAndZeroKeepsAll) {
  const Vector target = {0.3F, -1.0F, 2.0F}, draft = {0.5F, -1.4F, 2.2F};
  for (std::uint32_t i = 0; i < 200; ++i) {
    const Vector x = Gaussian{draft, 0.7}.sample(Purpose::kDraft, place(i));
    const auto exact = couple({target, 0.7}, {draft, 0.7}, x, place(i));
    const auto one = couple_relaxed({target, 0.7}, {draft, 0.7}, x, place(i), 1.0);
    EXPECT_EQ(one.value, exact.value);
    EXPECT_EQ(one.accepted, exact.accepted);
    const auto zero = couple_relaxed({target, 0.7}, {draft, 0.7}, x, place(i), 0.0);
    EXPECT_TRUE(zero.accepted);
    EXPECT_EQ(zero.value, x);
  }
}

// Acceptance and mean along the draft's direction match the formulas to 5 standard errors of 40,000
// draws; the total variation is the gain in acceptance.
TEST(Relaxed, ChangesTheLawAsStated) {
  constexpr int kDraws = 40000;
  for (const double delta : {0.25, 1.0, 2.0}) {
    for (const double relaxation : {0.0, 0.5, 0.9, 1.0}) {
      const Vector target = {0.0F}, draft = {static_cast<float>(delta)};
      double kept = 0.0, sum = 0.0;
      for (std::uint32_t i = 0; i < kDraws; ++i) {
        const RngKey d{.seed = 3, .position = i};
        const auto out =
            couple_relaxed({target, 1.0}, {draft, 1.0},
                           Gaussian{draft, 1.0}.sample(Purpose::kDraft, d), d, relaxation);
        kept += out.accepted ? 1.0 : 0.0;
        sum += out.value[0];
      }
      const RelaxedLaw law = relaxed_law(delta, relaxation);
      EXPECT_NEAR(kept / kDraws, law.accept, 5.0 * std::sqrt(0.25 / kDraws));
      EXPECT_NEAR(sum / kDraws, law.shift, 5.0 * 1.2 / std::sqrt(kDraws)) << delta << relaxation;
      EXPECT_NEAR(law.distance, law.accept - relaxed_law(delta, 1.0).accept, 1e-12);
      if (relaxation == 1.0) {
        EXPECT_NEAR(law.shift, 0.0, 1e-12);
      }
      if (relaxation == 0.0) {
        EXPECT_NEAR(law.shift, delta, 1e-12);
      }
    }
  }
  EXPECT_NEAR(relaxed_law(1.0, 0.5).shift, 0.309, 5e-4);  // by quadrature
  EXPECT_NEAR(relaxed_law(0.25, 0.5).shift, 0.113, 5e-4);
}

// KS at 1e-6.
TEST(Gaussian, SamplesFollowMeanAndSigma) {
  const Vector mean = {5.0F};
  std::vector<double> u, wrong;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const float x = Gaussian{mean, 3.0}.sample(Purpose::kTarget, place(i))[0];
    u.push_back(normal_cdf((x - 5.0) / 3.0));
    wrong.push_back(normal_cdf((x - 5.0) / 3.3));
  }
  EXPECT_GT(ks_uniform(u).p, 1e-6);
  EXPECT_LT(ks_uniform(wrong).p, 1e-6);
}

}  // namespace
}  // namespace forerun
