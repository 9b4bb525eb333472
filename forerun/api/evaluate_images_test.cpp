#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

#include "forerun/evaluate.h"
#include "forerun/image.h"
#include "forerun/train.h"
#include "tests/support/striped_images.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

const std::string kDit = FORERUN_SOURCE_DIR "/tests/data/dit/reference_pixel";

// A data set and the classifier of it, for all tests.
class Evaluation : public ::testing::Test {
 protected:
  static TrainReport train(const ClassifierTraining& o, const std::string& out) {
    TrainOptions t;
    t.out = out;
    t.steps = 30;
    t.batch = 16;
    t.micro_batch = 16;
    t.learning_rate = 3e-3;
    t.threads = 1;
    return train_classifier(data(), o, t);
  }
  static void SetUpTestSuite() {
    folder = new testing::TempFolder;
    testing::write_striped(data(), 30, 12);
    report = train({.width = 8, .features = 6, .flip = false, .shift = 0}, classifier());
  }
  static void TearDownTestSuite() { delete folder; }
  static std::string data() { return folder->path() / "data"; }
  static std::string classifier() { return folder->path() / "classifier"; }

  // Images like those of the data, or of something else.
  static ImageSet striped(std::uint32_t first, std::size_t n, int darker = 0) {
    ImageSet out;
    for (std::size_t i = 0; i < n; ++i) {
      const auto label = static_cast<std::int64_t>(i % 5);
      out.images.push_back(testing::striped_image(label, first + static_cast<std::uint32_t>(i)));
      for (std::uint8_t& p : out.images.back().pixels) p = static_cast<std::uint8_t>(p >> darker);
      out.labels.push_back(label);
    }
    return out;
  }
  static ImageEvaluation evaluated(const std::vector<ImageSet>& sets) {
    return evaluate_images(ImageReference::load(classifier(), data()), sets, {.replicates = 20});
  }

  static inline testing::TempFolder* folder = nullptr;
  static inline TrainReport report;
};

TEST_F(Evaluation, TheClassifierLearnsAndReportsItsAccuracy) {
  ASSERT_TRUE(report.has_held_out);
  ASSERT_EQ(report.held_out.figures.size(), 1U);
  EXPECT_EQ(report.held_out.figures[0].name, "accuracy");
  EXPECT_GT(report.held_out.figures[0].value(), 0.9);
  const ImageReference r = ImageReference::load(classifier(), data());
  EXPECT_EQ(r.classes(), (std::vector<std::string>{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(r.side(), 16);
  EXPECT_EQ(r.images(), 60);
}

TEST_F(Evaluation, ImagesLikeTheDataReachTheFloorAndOthersDoNot) {
  const ImageEvaluation e = evaluated({striped(5000, 40), striped(5000, 40, 2)});
  EXPECT_EQ(e.images, 40);
  EXPECT_EQ(e.floor_images, 40);
  EXPECT_GT(e.test_agreement, 0.9);
  ASSERT_EQ(e.sets.size(), 2U);
  const double near = e.sets[0].frechet.value, floor = e.floor.frechet.value;
  EXPECT_LT(near, 3.0 * floor + 0.1);
  EXPECT_GT(e.sets[1].frechet.value, 3.0 * near);
  EXPECT_GT(e.sets[0].agreement.value, 0.9);
  EXPECT_GT(e.sets[0].recall.value, e.sets[1].recall.value);
  ASSERT_EQ(e.sets[0].agreement_by_class.size(), 5U);
  ASSERT_EQ(e.differences.size(), 1U);
  const Estimate difference = e.differences[0].frechet;
  EXPECT_DOUBLE_EQ(difference.value, e.sets[1].frechet.value - near);
  EXPECT_GT(difference.value, 2.0 * difference.error);
  EXPECT_GT(difference.error, 0.0);
}

// Equal sets are drawn again alike: no error is left.
TEST_F(Evaluation, ASetDoesNotDifferFromItself) {
  const ImageEvaluation e = evaluated({striped(5000, 20), striped(5000, 20)});
  EXPECT_EQ(e.differences[0].frechet.value, 0.0);
  EXPECT_EQ(e.differences[0].frechet.error, 0.0);
  EXPECT_EQ(e.differences[0].recall.error, 0.0);
  EXPECT_GT(e.sets[0].frechet.error, 0.0);
}

TEST_F(Evaluation, AgreementIsWithTheRequestedClass) {
  ImageSet wrong = striped(5000, 20);
  for (std::int64_t& label : wrong.labels) label = (label + 1) % 5;
  const ImageEvaluation e = evaluated({wrong});
  EXPECT_LT(e.sets[0].agreement.value, 0.2);
  EXPECT_EQ(e.differences.size(), 0U);
}

TEST_F(Evaluation, AFolderOfClassesIsASet) {
  const ImageReference r = ImageReference::load(classifier(), data());
  const ImageSet test = load_image_set(data() + "/test", r);
  EXPECT_EQ(test.images.size(), 60U);
  EXPECT_EQ(test.labels[12], 1);
  const ImageEvaluation e = evaluate_images(r, std::span(&test, 1), {.replicates = 2});
  EXPECT_NEAR(e.sets[0].frechet.value, 0.0, 1e-5);
  EXPECT_NEAR(e.sets[0].spatial_frechet.value, 0.0, 1e-5);
  EXPECT_EQ(e.sets[0].precision.value, 1.0);
  // Some of the classes only: known by their names.
  std::filesystem::create_directories(folder->path() / "some/c");
  std::filesystem::copy(data() + "/test/c/0.png", folder->path() / "some/c/0.png",
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(load_image_set(folder->path() / "some", r).labels, std::vector<std::int64_t>{2});
  std::filesystem::create_directories(folder->path() / "strange/z");
  std::filesystem::copy(data() + "/test/c/0.png", folder->path() / "strange/z/0.png",
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_THROW(load_image_set(folder->path() / "strange", r), UsageError);
  EXPECT_THROW(load_image_set(folder->path() / "none", r), std::runtime_error);
}

TEST_F(Evaluation, WhatCannotBeEvaluatedIsSaid) {
  EXPECT_THROW(evaluated({}), UsageError);
  EXPECT_THROW(evaluated({striped(1, 3)}), UsageError);
  EXPECT_THROW(evaluated({striped(1, 10), striped(1, 9)}), UsageError);
  ImageSet other = striped(1, 10);
  other.labels[3] = 5;
  EXPECT_THROW(evaluated({other}), UsageError);
  other = striped(1, 10);
  other.labels.pop_back();
  EXPECT_THROW(evaluated({other}), UsageError);
  other = striped(1, 10);
  other.images[9] = {
      .width = 8, .height = 8, .channels = 1, .pixels = std::vector<std::uint8_t>(64)};
  EXPECT_THROW(evaluated({other}), UsageError);
  EXPECT_THROW(ImageReference::load(kDit, data()), std::runtime_error);
  EXPECT_THROW(ImageReference::load(classifier(), folder->path() / "none"), std::runtime_error);
  EXPECT_THROW(train({.width = 9}, folder->path() / "no"), UsageError);
  EXPECT_THROW(train({.side = 8}, folder->path() / "no"), UsageError);
  EXPECT_THROW(train({.shift = -1}, folder->path() / "no"), UsageError);
  EXPECT_THROW(train({.smoothing = 1.0}, folder->path() / "no"), UsageError);
}

// What lets a run be cut into parts: an image belongs to its place.
TEST(ImagePlaces, PartsOfARunAreTheRun) {
  const DiffusionModel model = DiffusionModel::load(kDit, DitDialect::kReference, Precision::kF32);
  const ImageDrafter drafter = ImageDrafter::load("asd", model);
  ImageOptions o;
  o.steps = 8;
  o.seed = 3;
  o.max_draft = 3;
  o.fixed_draft = true;  // as far as pays would depend on the clock
  const std::vector<std::int64_t> labels = {0, 1, 2, 3, 4};
  std::map<std::uint32_t, std::vector<std::uint8_t>> finished;
  ImageListener listener;
  listener.on_image = [&](std::uint32_t place, const Image& image) {
    finished[place] = image.pixels;
  };
  const ImageRun whole = generate_images(model, drafter, labels, o, listener);
  ASSERT_EQ(finished.size(), 5U);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(finished[i], whole.images[i].pixels);
  o.first = 2;
  finished.clear();
  const ImageRun part = generate_images(model, drafter, std::span(labels).subspan(2), o, listener);
  ASSERT_EQ(part.images.size(), 3U);
  for (std::uint32_t i = 2; i < 5; ++i) EXPECT_EQ(finished[i], whole.images[i].pixels);
  o.first = 0xffffffffU;
  EXPECT_THROW(generate_images(model, drafter, labels, o), UsageError);
}

}  // namespace
}  // namespace forerun
