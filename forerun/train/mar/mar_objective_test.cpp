#include "forerun/train/mar/mar_objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "forerun/models/mar/init_mar.h"
#include "forerun/models/mar/mar_file.h"
#include "forerun/models/mar/mar_schedule.h"
#include "forerun/train/adamw.h"
#include "forerun/train/autocast.h"
#include "forerun/train/mar/calibrate.h"
#include "forerun/train/mar/mar_batch.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

// Class 0 is dark above, class 1 below.
LabelledImages two_halves(std::int64_t count) {
  LabelledImages out{.width = 8, .height = 8, .channels = 1, .classes = {"a", "b"}};
  for (std::int64_t i = 0; i < count; ++i) {
    out.labels.push_back(static_cast<std::int32_t>(i % 2));
    for (std::int64_t p = 0; p < 64; ++p) {
      const bool above = p < 32;
      out.pixels.push_back(above == (i % 2 == 0) ? 20 : static_cast<std::uint8_t>(200 + i % 7));
    }
  }
  return out;
}

MarConfig trained_config() {
  MarConfig c;
  c.side = 8;
  c.classes = 2;
  c.hidden = 32;
  c.heads = 2;
  c.mlp = 64;
  c.depth = 2;
  c.head_width = 32;
  c.head_blocks = 1;
  c.scale = 0.7;
  c.noise = 0.1;
  return c;
}

std::shared_ptr<Mar> fresh_network(std::uint64_t seed) {
  return std::make_shared<Mar>(random_mar(trained_config(), seed));
}

std::vector<std::size_t> first(std::size_t n) {
  std::vector<std::size_t> out(n);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

double mean_of(const LossSum& l) { return l.loss.item<double>() / l.weight; }

TEST(MarBatch, IsAFunctionOfSeedAndImage) {
  const LabelledImages images = two_halves(6);
  const std::vector<std::size_t> all = first(6), one{4};
  const MarBatch a = mar_batch(trained_config(), images, all, 3, {.draws = 2});
  const MarBatch b = mar_batch(trained_config(), images, one, 3, {.draws = 2});
  EXPECT_TRUE(a.tokens[4].equal(b.tokens[0]));
  EXPECT_TRUE(a.time.narrow(0, 16, 4).equal(b.time));
  EXPECT_TRUE(a.noise.narrow(0, 16, 4).equal(b.noise));
  const MarBatch c = mar_batch(trained_config(), images, one, 4, {.draws = 2});
  EXPECT_FALSE(b.noise.equal(c.noise));
}

// Two pictures of three colours, and a tiny autoencoder.
LabelledImages colours(std::int64_t count) {
  LabelledImages out{.width = 8, .height = 8, .channels = 3, .classes = {"a", "b"}};
  for (std::int64_t i = 0; i < count; ++i) {
    out.labels.push_back(static_cast<std::int32_t>(i % 2));
    for (std::int64_t p = 0; p < 3 * 64; ++p) {
      out.pixels.push_back(static_cast<std::uint8_t>((p * 37 + i % 2 * 101) % 256));
    }
  }
  return out;
}
VaeEncoder tiny_encoder() { return load_vae_encoder(FORERUN_SOURCE_DIR "/tests/data/mar/kl"); }

TEST(MarImages, LatentsAreDrawnFromTheLawOfTheImageOrOfItsMirrorImage) {
  const VaeEncoder vae = tiny_encoder();
  const LabelledImages pictures = colours(3);
  const MarImages data(pictures, vae, true);
  EXPECT_EQ(data.shape("x").side, 2);
  EXPECT_EQ(data.shape("x").channels, 4);
  const at::Tensor bytes = at::tensor(at::ArrayRef<std::uint8_t>(pictures.pixels), at::kByte);
  const at::Tensor all = bytes.view({3, 3, 8, 8}).to(at::kFloat) / 127.5 - 1.0;
  for (const bool flip : {false, true}) {
    const LatentLaw law = encode(vae, (flip ? all.flip(3) : all).narrow(0, 1, 1));
    const at::Tensor sum = at::zeros({16}, at::kDouble), squares = at::zeros({16}, at::kDouble);
    constexpr int kDraws = 2000;
    for (std::uint32_t r = 0; r < kDraws; ++r) {
      const at::Tensor x = at::tensor(data.values(1, flip, {.seed = 5, .request = r}), at::kDouble);
      sum.add_(x);
      squares.add_(x.square());
    }
    const at::Tensor mean = sum / kDraws, wanted = law.mean.flatten().to(at::kDouble),
                     deviation = law.deviation.flatten().to(at::kDouble);
    const at::Tensor z = (mean - wanted) / deviation * std::sqrt(double{kDraws});
    EXPECT_LT(z.abs().max().item<double>(), 4.5) << flip;
    const at::Tensor ratio = (squares / kDraws - mean.square()).sqrt() / deviation;
    EXPECT_LT((ratio - 1.0).abs().max().item<double>(), 0.1) << flip;
    const LatentLaw other = encode(vae, (flip ? all : all.flip(3)).narrow(0, 1, 1));
    EXPECT_GT((other.mean - law.mean).abs().max().item<double>(), 0.05) << flip;
  }
  EXPECT_THROW(MarImages(pictures, vae, false).values(0, true, {}), std::invalid_argument);
  LabelledImages odd = colours(1);
  odd.width = odd.height = 6;
  EXPECT_THROW(MarImages(odd, vae, false), std::invalid_argument);
}

TEST(MarBatch, NoisyTokensAndVelocitiesGiveTheCleanOnesBack) {
  const at::Tensor tokens = at::randn({2, 4, 16}), noise = at::randn({8, 3, 16});
  const at::Tensor time = at::tensor({0L, 10L, 200L, 500L, 700L, 900L, 990L, 999L});
  const NoisyTokens n = noisy_tokens(MarPrediction::kVelocity, tokens, time, noise);
  for (std::int64_t i = 0; i < 8; ++i) {
    const double bar = mar_alpha_bar(time[i].item<std::int64_t>());
    const at::Tensor x0 = std::sqrt(bar) * n.x[i] - std::sqrt(1.0 - bar) * n.wanted[i];
    EXPECT_TRUE(x0.allclose(tokens.view({8, 1, 16})[i].expand({3, 16}), 1e-4, 1e-5)) << i;
  }
}

TEST(MarObjective, AFreshNetworkPredictsNothing) {
  MarObjective objective(fresh_network(1), two_halves(8), two_halves(4), {});
  const MarBatch batch = mar_batch(trained_config(), two_halves(8), first(8), 5, {});
  const NoisyTokens noisy =
      noisy_tokens(MarPrediction::kVelocity, batch.tokens, batch.time, batch.noise);
  EXPECT_NEAR(mean_of(objective.loss(first(8), 5)), noisy.wanted.square().mean().item<double>(),
              1e-5);
}

// Held-out losses before and after 60 steps.
std::pair<double, double> trained(MarObjective& objective, std::size_t images) {
  std::vector<Parameter> parameters = objective.parameters();
  AdamW adamw(parameters, {});
  const auto held_out = [&] {
    const at::NoGradGuard no_grad;
    return mean_of(objective.held_out_loss(first(objective.held_out())));
  };
  const double before = held_out();
  for (std::int64_t step = 1; step <= 60; ++step) {
    const LossSum l = objective.loss(first(images), static_cast<std::uint64_t>(step));
    (l.loss / l.weight).backward();
    std::vector<at::Tensor> gradients;
    for (const Parameter& p : parameters) gradients.push_back(p.value.grad());
    adamw.update_(gradients, 3e-3, step);
    for (const Parameter& p : parameters) p.value.mutable_grad().zero_();
  }
  return {before, held_out()};
}

TEST(MarObjective, LearnsItsImages) {
  MarObjective objective(fresh_network(1), two_halves(32), two_halves(8), {.flip = false});
  const auto [before, after] = trained(objective, 32);
  EXPECT_LT(after, 0.5 * before);
}

TEST(MarObjective, LearnsLatents) {
  VaeEncoder vae = tiny_encoder();  // made certain of its latents, which are not learnable else
  vae.quant.weight.narrow(0, 4, 4).zero_();
  vae.quant.bias.narrow(0, 4, 4).fill_(-8.0);
  const MarImages images(colours(16), vae, true);
  MarConfig c = trained_config();
  c.side = 2;
  c.patch = 1;
  c.channels = 4;
  c.mean = images.spread().mean;
  c.scale = images.spread().deviation;
  MarObjective objective(std::make_shared<Mar>(random_mar(c, 3)), images,
                         MarImages(colours(8), vae, false), {});
  const auto [before, after] = trained(objective, 16);
  EXPECT_LT(after, 0.7 * before);
}

MarConfig masked_training_config() {
  MarConfig c = trained_config();
  c.form = MarForm::kMasked;
  c.patch = 2;
  c.decoder_depth = 1;
  c.buffer = 2;
  return c;
}

TEST(MarBatch, UnknownTokensAreAsManyInEveryImageOfAStepAndFollowThePublishedLaw) {
  const LabelledImages images = two_halves(6);
  const MarConfig c = masked_training_config();  // 16 tokens
  const std::vector<std::size_t> one{4};
  double sum = 0.0, kept = 0.0;
  constexpr std::uint64_t kSeeds = 2000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const MarBatch some = mar_batch(c, images, one, seed, {.draws = 1});
    const auto unknown = 16 - some.known.sum().item<std::int64_t>();
    EXPECT_GE(unknown, 12);  // ceil(0.7 * 16)
    sum += static_cast<double>(unknown);
    kept += some.known[0][3].item<bool>() ? 1.0 : 0.0;
    if (seed % 100 != 0) continue;
    const MarBatch all = mar_batch(c, images, first(6), seed, {.draws = 1});
    EXPECT_TRUE(all.known[4].equal(some.known[0]));
    EXPECT_TRUE(all.known.sum(1).eq(16 - unknown).all().item<bool>());
    EXPECT_EQ(all.learned(all.time).size(0), 6 * unknown);
  }
  // ceil(16 s), s = 1 - 0.25 |N(0, 1)| held above 0.7: mean 14.351, deviation 1.332 (integrated).
  EXPECT_NEAR(sum / kSeeds, 14.351, 4.5 * 1.332 / std::sqrt(double{kSeeds}));
  EXPECT_NEAR(kept / kSeeds, 1.0 - 14.351 / 16.0, 4.5 * 0.304 / std::sqrt(double{kSeeds}));
}

TEST(MarObjective, TheMaskedFormLearnsInBf16) {
  MarObjective objective(std::make_shared<Mar>(random_mar(masked_training_config(), 1)),
                         two_halves(32), two_halves(8), {.flip = false});
  const double exact = objective.loss(first(6), 3).loss.item<double>();
  const Autocast in_bf16(true);
  const LossSum rounded = objective.loss(first(6), 3);
  EXPECT_NEAR(rounded.loss.item<double>(), exact, 0.02 * exact);
}

TEST(MarObjective, TheMaskedFormLearnsItsImagesAndSavesItsCalibration) {
  const auto network = std::make_shared<Mar>(random_mar(masked_training_config(), 1));
  MarObjective objective(network, two_halves(32), two_halves(8), {.flip = false});
  // The loss is the mean over unknown tokens of an image, and does not depend on the split.
  const double whole = objective.loss(first(6), 3).loss.item<double>();
  double parts = 0.0;
  for (std::size_t i = 0; i < 6; ++i) {
    parts += objective.loss(std::vector<std::size_t>{i}, 3).loss.item<double>();
  }
  EXPECT_NEAR(parts, whole, 1e-4 * whole);
  const auto [before, after] = trained(objective, 32);
  EXPECT_LT(after, 0.5 * before);
  const testing::TempFolder folder;
  std::vector<at::Tensor> values;
  for (const Parameter& p : objective.parameters()) values.push_back(p.value);
  objective.save(folder.path() / "masked", values, nullptr);
  const Mar saved = load_mar(folder.path() / "masked");
  EXPECT_EQ(saved.config.form, MarForm::kMasked);
  const MarCalibration fresh =
      calibrate(random_mar(masked_training_config(), 1), MarImages(two_halves(8)));
  EXPECT_LT(saved.config.calibration.error_at(500), 0.7 * fresh.error_at(500));
}

std::shared_ptr<Mar> calibrated_network(std::uint64_t seed) {
  auto out = fresh_network(seed);
  for (const ModelWeight& w : weights(*out)) *w.tensor += at::randn(w.shape) * 0.05;
  out->config.calibration = {.times = {0, 999}, .errors = {0.01, 1.0}};
  return out;
}

TEST(MarObjective, ACopyOfItsTargetHasNoDistanceToIt) {
  const auto target = calibrated_network(2);
  const auto copy = std::make_shared<Mar>(*target);
  for (const ModelWeight& w : weights(*copy)) *w.tensor = w.tensor->clone();
  MarObjective objective(copy, two_halves(8), {}, {.distill = 1.0}, target);
  EXPECT_EQ(mean_of(objective.loss(first(8), 1)), 0.0);
  MarObjective other(calibrated_network(3), two_halves(8), {}, {.distill = 1.0}, target);
  EXPECT_GT(mean_of(other.loss(first(8), 1)), 1e-3);
}

TEST(MarObjective, SavesACalibrationAndADraftItsTargets) {
  const testing::TempFolder folder;
  const auto save = [&](MarObjective& o, const char* name) {
    std::vector<at::Tensor> values;
    for (const Parameter& p : o.parameters()) values.push_back(p.value);
    o.save(folder.path() / name, values, nullptr);
    return load_mar(folder.path() / name);
  };
  const auto network = fresh_network(1);
  MarObjective alone(network, two_halves(8), two_halves(8), {});
  const Mar saved = save(alone, "target");
  const MarCalibration& c = saved.config.calibration;
  ASSERT_FALSE(c.empty());
  EXPECT_EQ(c.times.front(), 0);
  EXPECT_EQ(c.times.back(), 999);
  // A fresh network predicts no velocity: at time 999 x_0 is 0, and its error the tokens' square.
  const MarBatch batch = mar_batch(trained_config(), two_halves(8), first(8), kHeldOutSeed,
                                   {.draws = 1, .drop = 0.0, .flip = false});
  EXPECT_NEAR(c.errors.back(), batch.tokens.square().mean().item<double>(), 1e-3);

  const auto target = calibrated_network(2);
  MarObjective drafting(fresh_network(4), two_halves(8), {}, {.distill = 0.5}, target);
  const Mar draft = save(drafting, "draft");
  EXPECT_EQ(draft.config.calibration, target->config.calibration);
  EXPECT_EQ(draft.config.follows, digest_of(*target));
}

TEST(MarObjective, RefusesWhatDoesNotFit) {
  LabelledImages larger = two_halves(2);
  larger.width = 16;
  larger.height = 4;
  EXPECT_THROW(MarObjective(fresh_network(1), larger, {}, {}), std::invalid_argument);
  EXPECT_THROW(MarObjective(fresh_network(1), {}, {}, {}), std::invalid_argument);
  MarConfig finer = trained_config();
  finer.patch = 2;
  const auto target = calibrated_network(2);
  EXPECT_THROW(
      MarObjective(std::make_shared<Mar>(random_mar(finer, 1)), two_halves(4), {}, {}, target),
      std::invalid_argument);
  EXPECT_THROW(MarObjective(std::make_shared<Mar>(random_mar(masked_training_config(), 1)),
                            two_halves(4), {}, {}, target),
               std::invalid_argument);  // a draft of the masked form
  EXPECT_THROW(MarObjective(fresh_network(1), two_halves(4), {}, {}, fresh_network(2)),
               std::invalid_argument);  // a target without calibration
}

}  // namespace
}  // namespace forerun
