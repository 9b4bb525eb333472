#include "forerun/train/dit/dit_objective.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "forerun/core/rng_key.h"
#include "forerun/models/ddpm_schedule.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/train/free/free_objective.h"
#include "forerun/train/images/image_batch.h"
#include "forerun/train/trainer.h"
#include "tests/support/noisy_dit.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

// Images of two classes: bright above, or below.
LabelledImages halves(std::int64_t n) {
  LabelledImages out;
  out.width = out.height = 8;
  out.classes = {"above", "below"};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t p = 0; p < 64; ++p) {
      const bool bright = (p < 32) == (i % 2 == 0);
      out.pixels.push_back(static_cast<std::uint8_t>(bright ? 200 + i % 50 : p % 8));
    }
    out.labels.push_back(static_cast<std::int32_t>(i % 2));
  }
  return out;
}

DitConfig small() {
  DitConfig c = testing::small_dit(8, 4);
  c.classes = 2;
  return c;
}

std::shared_ptr<Dit> noisy_dit() { return std::make_shared<Dit>(testing::noisy_dit(small())); }

std::vector<std::size_t> all(std::size_t n) {
  std::vector<std::size_t> out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(NoisyImages, FollowTheSchedule) {
  const LabelledImages images = halves(600);
  const auto which = all(600);
  const NoisyImages b = noisy_images(images, which, 3, {.drop = 0.25, .flip = false});
  std::int64_t untold = 0, early = 0;
  for (std::int64_t i = 0; i < 600; ++i) {
    const std::int64_t time = b.time[i].item<std::int64_t>(),
                       label = b.label[i].item<std::int64_t>();
    ASSERT_GE(time, 0);
    ASSERT_LT(time, 1000);
    early += time < 500 ? 1 : 0;
    untold += label == 2 ? 1 : 0;
    if (label != 2) {
      EXPECT_EQ(label, i % 2);
    }
    const double bar = ddpm_alpha_bar(time);
    const at::Tensor expected = b.clean[i] * std::sqrt(bar) + b.noise[i] * std::sqrt(1.0 - bar);
    EXPECT_LT((b.noisy[i] - expected).abs().max().item<double>(), 1e-6);
    EXPECT_NEAR(b.clean[i][0][0][0].item<double>(),
                images.pixels[static_cast<std::size_t>(i) * 64] / 127.5 - 1.0, 1e-6);
  }
  // Five standard deviations of a binomial.
  EXPECT_NEAR(static_cast<double>(untold), 150.0, 5.0 * std::sqrt(600 * 0.25 * 0.75));
  EXPECT_NEAR(static_cast<double>(early), 300.0, 5.0 * std::sqrt(600 * 0.25));
  EXPECT_NEAR(b.noise.mean().item<double>(), 0.0, 5.0 / std::sqrt(600.0 * 64));
  EXPECT_NEAR(b.noise.square().mean().item<double>(), 1.0, 5.0 * std::sqrt(2.0 / (600.0 * 64)));
}

TEST(NoisyImages, BelongToTheImageAndTheSeed) {
  const LabelledImages images = halves(20);
  const std::vector<std::size_t> some = {7, 3}, other = {3};
  const NoiseOptions flips{.drop = 0.5, .flip = true};
  const NoisyImages a = noisy_images(images, some, 9, flips);
  const NoisyImages b = noisy_images(images, other, 9, flips);
  EXPECT_TRUE(at::equal(a.noisy[1], b.noisy[0]));
  EXPECT_TRUE(at::equal(a.label[1], b.label[0]));
  EXPECT_FALSE(at::equal(b.noisy, noisy_images(images, other, 10, flips).noisy));
}

TEST(DitLoss, IsTheErrorOfTheNoise) {
  const auto model = noisy_dit();
  DitObjective objective(model, halves(12), halves(4), {.drop = 0.0, .flip = false});
  const auto which = all(12);
  const LossSum sum = objective.loss(which, 5);
  const NoisyImages b = noisy_images(halves(12), which, 5, {.drop = 0.0, .flip = false});
  const at::Tensor predicted = run_dit(*model, b.noisy, b.time, b.label).noise;
  EXPECT_NEAR(sum.loss.item<double>() / sum.weight, at::mse_loss(predicted, b.noise).item<double>(),
              1e-5);
  EXPECT_EQ(objective.held_out(), 4U);
  EXPECT_EQ(objective.held_out_loss(all(4)).loss.item<double>(),
            objective.held_out_loss(all(4)).loss.item<double>());
}

TEST(DitLoss, ImagesOfAnotherSizeAreRefused) {
  DitConfig c = small();
  c.input = 16;
  EXPECT_THROW(DitObjective(std::make_shared<Dit>(random_dit(c, 1)), halves(2), {}, {}),
               std::invalid_argument);
  EXPECT_THROW(DitObjective(noisy_dit(), {}, {}, {}), std::invalid_argument);
}

// A resumed run must have the same data, including the held-out images.
TEST(ImageFingerprint, DiffersBetweenImagesAndTargets) {
  const auto target = noisy_dit();
  LabelledImages other = halves(4);
  other.pixels[70] ^= 1;
  const auto dit = [&](const LabelledImages& training, const LabelledImages& held_out) {
    return DitObjective(target, training, held_out, {}).fingerprint();
  };
  EXPECT_EQ(dit(halves(4), halves(4)), dit(halves(4), halves(4)));
  EXPECT_NE(dit(halves(4), halves(4)), dit(other, halves(4)));
  EXPECT_NE(dit(halves(4), halves(4)), dit(halves(4), other));
  const auto free = [&](const std::shared_ptr<Dit>& of, const LabelledImages& held_out) {
    auto network = std::make_shared<FreeNetwork>(free_from(*of, 3, true));
    return FreeObjective(of, network, halves(4), held_out, {}).fingerprint();
  };
  const auto changed = noisy_dit();
  changed->head.out.weight = changed->head.out.weight * 2.0;
  EXPECT_EQ(free(target, halves(4)), free(noisy_dit(), halves(4)));
  EXPECT_NE(free(target, halves(4)), free(changed, halves(4)));
  EXPECT_NE(free(target, halves(4)), free(target, other));
}

TEST(DitTraining, LearnsAndComesBackFromItsFolder) {
  const testing::TempFolder folder;
  auto model = std::make_shared<Dit>(random_dit(small(), 1));
  DitObjective objective(model, halves(64), halves(8), {});
  TrainOptions o;
  o.out = folder.path() / "dit";
  o.steps = 60;
  o.batch = 16;
  o.micro_batch = 8;
  o.learning_rate = 5e-3;
  o.muon = true;
  o.bf16 = false;
  Ranks ranks = Ranks::join();
  const TrainReport r = train(objective, o, {}, ranks);
  EXPECT_LT(r.held_out.loss, 0.6);  // 1 at the start
  const Dit back = load_dit(folder.path() / "dit");
  EXPECT_EQ(back.config, small());
}

// The loss from its formulas, one image at a time.
class FreeLossOf : public ::testing::TestWithParam<std::tuple<bool, double>> {};

TEST_P(FreeLossOf, IsThatOfTheFormulas) {
  const auto [frozen, scale] = GetParam();
  const auto target = noisy_dit();
  auto network = std::make_shared<FreeNetwork>(free_from(*target, 3, frozen));
  for (const ModelWeight& w : weights(*network)) w.tensor->add_(at::randn_like(*w.tensor), 0.02);
  const FreeTraining o{.feature = 0.5,
                       .smooth = 0.2,
                       .overlap = 0.3,
                       .guidance = scale,
                       .late = 0.4,
                       .drop = 0.0,
                       .flip = false};
  FreeObjective objective(target, network, halves(6), {}, o);
  const auto which = all(6);
  const LossSum sum = objective.loss(which, 8);
  const NoisyImages b =
      noisy_images(halves(6), which, 8, {.drop = 0.0, .flip = false, .first_time = 2, .late = 0.4});
  const DdpmSchedule schedule;
  const at::Tensor none = at::full({1}, small().classes, at::kLong);
  double expected = 0.0;
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto one = [&](const at::Tensor& t) { return t.narrow(0, i, 1); };
    const auto of_halves = [&](auto pass) {
      std::vector<DitOutput> out;
      out.push_back(pass(one(b.label), 0));
      if (scale != 1.0) out.push_back(pass(none, 1));
      return out;
    };
    const auto noise_of = [&](const std::vector<DitOutput>& out) {
      return scale == 1.0 ? out[0].noise : out[0].noise * scale + out[1].noise * (1.0 - scale);
    };
    const std::int64_t time = b.time[i].item<std::int64_t>();
    const DdpmStep& step = schedule.step(999 - time);
    const DdpmStep& next = schedule.step(999 - time + 1);
    const auto before = of_halves([&](const at::Tensor& label, int) {
      return run_dit(*target, one(b.noisy), one(b.time), label);
    });
    at::Tensor fresh = at::empty_like(one(b.noisy));
    RngKey{.seed = 8, .request = static_cast<std::uint32_t>(i)}.fill_normal(
        Purpose::kResidual, {fresh.data_ptr<float>(), 64});
    const at::Tensor x =
        one(b.noisy) * step.mean_x + noise_of(before) * step.mean_noise + fresh * step.sigma;
    const auto wanted = of_halves(
        [&](const at::Tensor& label, int) { return run_dit(*target, x, one(b.time) - 1, label); });
    const auto predicted = of_halves([&](const at::Tensor& label, int half) {
      return run_free(*network, x, before[static_cast<std::size_t>(half)].feature, one(b.time) - 1,
                      label, fresh);
    });
    at::Tensor noise = noise_of(predicted);
    if (frozen) {
      const at::Tensor image = one(b.noisy) * step.x0_x + noise_of(before) * step.x0_noise;
      noise = noise * free_unit(next, small()) + (image - x * next.x0_x) / next.x0_noise;
    }
    const double error = at::mse_loss(noise, noise_of(wanted)).item<double>();
    const double delta = next.kappa * std::sqrt(error * 64.0);
    expected += error - 0.3 * std::log(std::erfc(delta / (2.0 * std::sqrt(2.0))));
    for (std::size_t half = 0; half < predicted.size(); ++half) {
      const at::Tensor f = predicted[half].feature[0], g = wanted[half].feature[0];
      const at::Tensor cosine = (f * g).sum(1) / (f.norm(2, 1) * g.norm(2, 1));
      expected += (0.5 * (1.0 - cosine.mean().item<double>()) +
                   0.2 * at::smooth_l1_loss(f, g).item<double>()) /
                  static_cast<double>(predicted.size());
    }
  }
  EXPECT_NEAR(sum.loss.item<double>() / sum.weight, expected / 6.0,
              2e-4 * std::abs(expected / 6.0) + 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Forms, FreeLossOf,
                         ::testing::Values(std::tuple(false, 1.0), std::tuple(true, 1.0),
                                           std::tuple(false, 1.5), std::tuple(true, 1.5)));

// The packed target gives the same as the other, up to its precision.
TEST(FreeLoss, ComesOfThePackedTargetToo) {
  const auto target = noisy_dit();
  if (!Bf16Stack::fits(target->config)) GTEST_SKIP() << "this processor has no AVX2";
  for (const double scale : {1.0, 1.5}) {
    const auto loss = [&](std::shared_ptr<const Bf16Dit> packed) {
      auto network = std::make_shared<FreeNetwork>(free_from(*target, 3, true));
      FreeObjective objective(target, network, halves(6), {},
                              {.guidance = scale, .drop = 0.0, .unroll = 2}, std::move(packed));
      objective.parameters();
      const LossSum sum = objective.loss(all(6), 8);
      sum.loss.backward();
      EXPECT_TRUE(network->head.out.weight.grad().defined());
      return sum.loss.item<double>();
    };
    const double exact = loss(nullptr);
    EXPECT_NEAR(loss(std::make_shared<Bf16Dit>(*target)), exact, 0.03 * std::abs(exact));
  }
}

TEST(FreeLoss, OnlyTheNetworkIsTrained) {
  const auto target = noisy_dit();
  auto network = std::make_shared<FreeNetwork>(free_from(*target, 3, true));
  FreeObjective objective(target, network, halves(6), {}, {.unroll = 3});
  const auto parameters = objective.parameters();
  const LossSum sum = objective.loss(all(6), 8);
  EXPECT_EQ(sum.weight, 18.0);
  sum.loss.backward();
  for (const Parameter& p : parameters) {
    EXPECT_TRUE(p.value.grad().defined()) << p.name;
  }
  EXPECT_FALSE(target->head.out.weight.requires_grad());
  EXPECT_FALSE(network->patches.weight.requires_grad());
}

}  // namespace
}  // namespace forerun
