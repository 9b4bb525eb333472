#include "forerun/models/classifier/classifier.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "forerun/formats/safetensors.h"
#include "forerun/models/classifier/classifier_file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

const fs::path kValues = fs::path(FORERUN_SOURCE_DIR) / "tests/data/classifier";

ClassifierConfig small() {
  return {.input = 12, .channels = 1, .classes = 3, .width = 8, .features = 5};
}

class ClassifierParity : public ::testing::TestWithParam<const char*> {};

TEST_P(ClassifierParity, OutputsArePyTorchs) {
  const fs::path folder = kValues / GetParam();
  const Classifier model = load_classifier(folder);
  const Safetensors expected = load_safetensors(folder / "expected.safetensors");
  const ClassifierOutput out = run_classifier(model, tensor_of(expected, "x"));
  EXPECT_LT(distance(out.logits, tensor_of(expected, "logits")), 1e-4);
  EXPECT_LT(distance(out.features, tensor_of(expected, "features")), 1e-4);
  EXPECT_LT(distance(out.spatial, tensor_of(expected, "spatial")), 1e-4);
  EXPECT_EQ(out.spatial.size(1), model.config.spatial_features());
}

INSTANTIATE_TEST_SUITE_P(Classifier, ClassifierParity, ::testing::Values("grey", "colour"));

TEST(Classifier, APassDoesNotMixItsBatch) {
  const Classifier m = random_classifier(small(), 1);
  at::manual_seed(1);
  const at::Tensor x = at::randn({4, 1, 12, 12});
  const ClassifierOutput all = run_classifier(m, x);
  for (std::int64_t i = 0; i < 4; ++i) {
    const ClassifierOutput one = run_classifier(m, x.narrow(0, i, 1));
    EXPECT_LT(distance(one.features, all.features.narrow(0, i, 1)), 1e-5);
    EXPECT_LT(distance(one.spatial, all.spatial.narrow(0, i, 1)), 1e-5);
  }
}

TEST(Classifier, SpatialFeaturesAreAFewHundred) {
  ClassifierConfig c = small();
  for (const std::int64_t side : {28, 32, 64, 256}) {
    c.input = side;
    EXPECT_GE(c.spatial_features(), 300);
    EXPECT_LE(c.spatial_features(), 500);
  }
}

TEST(Classifier, EveryWeightLearns) {
  Classifier m = random_classifier(small(), 2);
  for (const ModelWeight& w : weights(m)) w.tensor->requires_grad_();
  at::manual_seed(2);
  run_classifier(m, at::randn({3, 1, 12, 12})).logits.square().sum().backward();
  for (const ModelWeight& w : weights(m)) {
    ASSERT_TRUE(w.tensor->grad().defined()) << w.name;
    EXPECT_GT(w.tensor->grad().abs().max().item<double>(), 0.0) << w.name;
  }
}

TEST(Classifier, OtherShapesAndSizesAreRefused) {
  const Classifier m = random_classifier(small(), 1);
  EXPECT_THROW(run_classifier(m, at::zeros({1, 1, 16, 16})), std::invalid_argument);
  EXPECT_THROW(run_classifier(m, at::zeros({1, 3, 12, 12})), std::invalid_argument);
  EXPECT_THROW(run_classifier(m, at::zeros({1, 12, 12})), std::invalid_argument);
  const auto refused = [](auto&& change) {
    ClassifierConfig c = small();
    change(c);
    EXPECT_THROW(random_classifier(c, 1), std::invalid_argument);
  };
  refused([](ClassifierConfig& c) { c.input = 7; });
  refused([](ClassifierConfig& c) { c.width = 12; });
  refused([](ClassifierConfig& c) { c.width = 0; });
  refused([](ClassifierConfig& c) { c.classes = 1; });
  refused([](ClassifierConfig& c) { c.features = 0; });
  refused([](ClassifierConfig& c) { c.channels = 0; });
}

TEST(ClassifierFile, ComesBackAsItWasWritten) {
  const testing::TempFolder folder;
  Classifier m = random_classifier(small(), 3);
  for (const ModelWeight& w : weights(m)) w.tensor->copy_(w.tensor->to(at::kBFloat16));
  save_classifier(folder.path() / "c", m, {{"steps", 7}});
  Classifier back = load_classifier(folder.path() / "c");
  EXPECT_EQ(back.config, m.config);
  EXPECT_EQ(digest_of(back), digest_of(m));
  const auto theirs = weights(back);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_TRUE(at::equal(*theirs[i].tensor, *weights(m)[i].tensor)) << theirs[i].name;
  }
  m.class_bias.add_(1.0);
  EXPECT_NE(digest_of(back), digest_of(m));
}

TEST(ClassifierFile, WhatIsWrongIsSaid) {
  const testing::TempFolder folder;
  const fs::path path = folder.path() / "c";
  const auto why = [&]() -> std::string {
    try {
      load_classifier(path);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "";
  };
  const auto says = [&](const char* word) {
    const std::string message = why();
    EXPECT_NE(message.find(word), std::string::npos) << message;
    EXPECT_EQ(message.find(path.string()), 0U) << message;
  };
  says("");  // the folder is empty
  save_classifier(path, random_classifier(small(), 3));
  EXPECT_EQ(why(), "");
  fs::resize_file(path / "model.safetensors", 900);
  says("model.safetensors");
  fs::remove(path / "model.safetensors");
  EXPECT_NE(why(), "");
  Classifier other = random_classifier(small(), 3);
  other.class_bias[0] = std::nan("");
  save_classifier(path, other);
  says("classes.bias");
  folder.write("c/config.json", R"({"architecture": "dit"})");
  says("train classifier");
  folder.write("c/config.json", R"({"architecture": "classifier", "input_size": 12})");
  says("in_channels");
  nlohmann::json config = classifier_config_json(small());
  config["width"] = 9;
  folder.write("c/config.json", config.dump());
  says("multiple of 8");
  config["width"] = 16;
  folder.write("c/config.json", config.dump());
  says("stages.0.conv.weight");
}

}  // namespace
}  // namespace forerun
