#include "forerun/train/classifier/classifier_objective.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "forerun/models/classifier/classifier_file.h"
#include "forerun/train/classifier/augmented_images.h"
#include "forerun/train/trainer.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

// Images of two classes: bright above, or below; no two are alike.
LabelledImages halves(std::int64_t n, std::int64_t channels = 1) {
  LabelledImages out{.width = 8, .height = 8, .channels = channels, .classes = {"above", "below"}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t p = 0; p < 64 * channels; ++p) {
      const bool bright = (p % 64 < 32) == (i % 2 == 0);
      out.pixels.push_back(static_cast<std::uint8_t>((bright ? 150 : 20) + (i * 7 + p * 3) % 90));
    }
    out.labels.push_back(static_cast<std::int32_t>(i % 2));
  }
  return out;
}

ClassifierConfig small() {
  return {.input = 8, .channels = 1, .classes = 2, .width = 8, .features = 4};
}

std::vector<std::size_t> all(std::size_t n) {
  std::vector<std::size_t> out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(AugmentedImages, AreThePixelsWhereNothingMoves) {
  const LabelledImages images = halves(5, 3);
  const at::Tensor x = augmented_images(images, all(5));
  ASSERT_EQ(x.sizes(), (std::vector<std::int64_t>{5, 3, 8, 8}));
  const auto* const values = x.const_data_ptr<float>();
  for (std::size_t i = 0; i < images.pixels.size(); ++i) {
    EXPECT_NEAR(values[i], images.pixels[i] / 127.5 - 1.0, 1e-6);
  }
}

// Each one is the image flipped or not, shifted by -2 to 2 in each direction, its edges repeated;
// all of the 50 occur (in 2,000 draws one is missing with probability 1e-16).
TEST(AugmentedImages, AreFlippedAndShiftedImages) {
  const LabelledImages images = halves(1);
  const at::Tensor plain = augmented_images(images, all(1))[0][0];
  const auto expected = [&](bool flip, std::int64_t across, std::int64_t down) {
    at::Tensor out = at::empty_like(plain);
    for (std::int64_t y = 0; y < 8; ++y) {
      for (std::int64_t x = 0; x < 8; ++x) {
        const std::int64_t row = std::clamp<std::int64_t>(y - down, 0, 7),
                           column = std::clamp<std::int64_t>(x - across, 0, 7);
        out[y][x] = plain[row][flip ? 7 - column : column];
      }
    }
    return out;
  };
  std::vector<at::Tensor> choices;
  for (const bool flip : {false, true}) {
    for (std::int64_t across = -2; across <= 2; ++across) {
      for (std::int64_t down = -2; down <= 2; ++down)
        choices.push_back(expected(flip, across, down).flatten());
    }
  }
  const at::Tensor possible = at::stack(choices);
  std::vector<int> met(50);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const at::Tensor x = augmented_images(images, all(1), seed, {.flip = true, .shift = 2});
    const at::Tensor off = (possible - x.view({1, 64})).abs().sum(1);
    ASSERT_EQ(off.min().item<float>(), 0.0F);
    ++met[static_cast<std::size_t>(off.argmin().item<std::int64_t>())];
  }
  for (const int times : met) EXPECT_GT(times, 0);
}

TEST(AugmentedImages, BelongToTheImageAndTheSeed) {
  const LabelledImages images = halves(20);
  const std::vector<std::size_t> some = {7, 3}, other = {3};
  const AugmentOptions moves{.flip = true, .shift = 3};
  EXPECT_TRUE(at::equal(augmented_images(images, some, 9, moves)[1],
                        augmented_images(images, other, 9, moves)[0]));
  EXPECT_FALSE(at::equal(augmented_images(images, all(20), 9, moves),
                         augmented_images(images, all(20), 10, moves)));
}

TEST(ClassifierLoss, IsTheSmoothedCrossEntropy) {
  const auto model = std::make_shared<Classifier>(random_classifier(small(), 1));
  ClassifierObjective objective(model, halves(6), halves(4),
                                {.flip = false, .shift = 0, .smoothing = 0.2});
  const LossSum sum = objective.loss(all(6), 5);
  const at::Tensor logs =
      at::log_softmax(run_classifier(*model, augmented_images(halves(6), all(6))).logits, 1);
  double expected = 0.0;
  int right = 0;
  for (std::int64_t i = 0; i < 6; ++i) {
    const std::int64_t label = i % 2;
    expected -= 0.9 * logs[i][label].item<double>() + 0.1 * logs[i][1 - label].item<double>();
    right += logs[i][label].item<double>() > logs[i][1 - label].item<double>() ? 1 : 0;
  }
  EXPECT_NEAR(sum.loss.item<double>(), expected, 1e-4);
  EXPECT_EQ(sum.weight, 6.0);
  ASSERT_EQ(sum.figures.size(), 1U);
  EXPECT_EQ(sum.figures[0].numerator, right);
  EXPECT_EQ(objective.held_out(), 4U);
}

TEST(ClassifierLoss, OtherImagesAreRefused) {
  const auto model = std::make_shared<Classifier>(random_classifier(small(), 1));
  EXPECT_THROW(ClassifierObjective(model, halves(2, 3), {}, {}), std::invalid_argument);
  EXPECT_THROW(ClassifierObjective(model, {}, {}, {}), std::invalid_argument);
  LabelledImages other = halves(2);
  other.classes.push_back("nowhere");
  EXPECT_THROW(ClassifierObjective(model, halves(2), other, {}), std::invalid_argument);
}

TEST(ClassifierLoss, OfOtherImagesHasAnotherFingerprint) {
  const auto model = std::make_shared<Classifier>(random_classifier(small(), 1));
  LabelledImages other = halves(4);
  other.labels[2] ^= 1;
  const auto of = [&](const LabelledImages& training, const LabelledImages& held_out) {
    return ClassifierObjective(model, training, held_out, {}).fingerprint();
  };
  EXPECT_EQ(of(halves(4), halves(4)), of(halves(4), halves(4)));
  EXPECT_NE(of(halves(4), halves(4)), of(other, halves(4)));
  EXPECT_NE(of(halves(4), halves(4)), of(halves(4), other));
}

TEST(ClassifierTraining, LearnsAndComesBackFromItsFolder) {
  for (const bool bf16 : {false, true}) {
    const testing::TempFolder folder;
    const auto model = std::make_shared<Classifier>(random_classifier(small(), 1));
    ClassifierObjective objective(model, halves(64), halves(32), {.shift = 1});
    TrainOptions o;
    o.out = folder.path() / "classifier";
    o.steps = 40;
    o.batch = 16;
    o.micro_batch = 8;
    o.learning_rate = 3e-3;
    o.bf16 = bf16;
    Ranks ranks = Ranks::join();
    const TrainReport r = train(objective, o, {}, ranks);
    ASSERT_EQ(r.held_out.figures.size(), 1U);
    EXPECT_GT(r.held_out.figures[0].value(), 0.95) << bf16;
    EXPECT_EQ(load_classifier(folder.path() / "classifier").config, small());
  }
}

}  // namespace
}  // namespace forerun
