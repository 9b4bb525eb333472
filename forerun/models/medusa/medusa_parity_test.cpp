// Medusa heads against plain PyTorch code (tests/data/medusa, made by tools/make_medusa_values.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "forerun/models/medusa/medusa.h"
#include "forerun/models/medusa/medusa_file.h"
#include "forerun/models/medusa/medusa_passes.h"
#include "tests/support/float64_values.h"
#include "tests/support/medusa_values.h"

namespace forerun {
namespace {

constexpr double kMedusaTolerance = 2e-5;

class MedusaParity : public ::testing::TestWithParam<std::string> {
 protected:
  bool has_markov() const { return GetParam() == "markov"; }

  const Medusa model = load_medusa(kMedusaData + GetParam(), medusa_target());
  const Safetensors expected = medusa_expected(GetParam());
};

TEST_P(MedusaParity, ConfigsSayWhatTheFilesHold) {
  const MedusaConfig& c = model.config;
  EXPECT_EQ(c.hidden, 24);
  EXPECT_EQ(c.vocab, 64);
  EXPECT_EQ(c.target_layers, 9);
  EXPECT_EQ(c.feature_layers, has_markov() ? (std::vector<std::int64_t>{1, 4, 6})
                                           : (std::vector<std::int64_t>{4, 0, 7}));
  EXPECT_EQ(c.width, 32);
  EXPECT_EQ(c.intermediate, 64);
  EXPECT_EQ(c.heads, 3);
  EXPECT_EQ(c.draft_vocab, has_markov() ? 40 : 64);
  EXPECT_EQ(c.markov_rank, has_markov() ? 6 : 0);
  EXPECT_EQ(c.norm_eps, has_markov() ? 1e-6 : 0.03);
  EXPECT_EQ(c.weight_bits, 0);
  EXPECT_EQ(model.markov_w1.defined(), has_markov());
  EXPECT_EQ(model.markov_w2.defined(), has_markov());
  ASSERT_EQ(model.draft_to_target.defined(), has_markov());
  if (has_markov()) {
    EXPECT_TRUE(at::equal(model.draft_to_target, medusa_ids(expected, "tokens")));
  }
}

TEST_P(MedusaParity, StatesOfEveryHeadMatchPyTorch) {
  const at::Tensor have =
      head_states(model, tensor_of(expected, "features"), medusa_ids(expected, "newest"));
  EXPECT_LT(distance(have, tensor_of(expected, "states")), kMedusaTolerance);
}

TEST_P(MedusaParity, LogitsMatchPyTorch) {
  const at::Tensor want = tensor_of(expected, "logits").flatten(0, 1);
  const at::Tensor of_theirs = head_logits(model, tensor_of(expected, "states").flatten(0, 1));
  EXPECT_LT(distance(of_theirs, want), kMedusaTolerance);
  const at::Tensor states =
      head_states(model, tensor_of(expected, "features"), medusa_ids(expected, "newest"));
  EXPECT_LT(distance(head_logits(model, states.flatten(0, 1)), want), kMedusaTolerance);
}

TEST_P(MedusaParity, WhatTheTokenBeforeAddsMatchesPyTorch) {
  if (!has_markov()) GTEST_SKIP() << "no Markov head";
  const at::Tensor have = markov_bias(model, medusa_ids(expected, "previous"));
  EXPECT_LT(distance(have, tensor_of(expected, "bias")), kMedusaTolerance);
}

TEST_P(MedusaParity, PassesMatchPyTorchByTextAndTogether) {
  const auto passes = MedusaPasses::make(model, Precision::kF32);
  const at::Tensor features = tensor_of(expected, "features"),
                   newest = medusa_ids(expected, "newest"), want = tensor_of(expected, "logits");
  std::vector<MedusaInput> inputs;
  for (std::int64_t i = 0; i < features.size(0); ++i) {
    inputs.push_back({.features = features.const_data_ptr<float>() + i * features.size(1),
                      .newest = static_cast<Token>(newest[i].item<std::int64_t>())});
    const at::Tensor alone = passes->forward({&inputs.back(), 1});
    EXPECT_EQ(alone.scalar_type(), at::kFloat);
    EXPECT_TRUE(alone.is_contiguous());
    EXPECT_LT(distance(alone, want[i]), kMedusaTolerance) << i;
  }
  EXPECT_LT(distance(passes->forward(inputs), want.flatten(0, 1)), kMedusaTolerance);
  const at::Tensor tokens = medusa_ids(expected, "tokens");
  for (std::int64_t i = 0; i < tokens.size(0); ++i) {
    EXPECT_EQ(passes->token(i), tokens[i].item<std::int64_t>());
  }
}

TEST_P(MedusaParity, FeaturesOfAnotherWidthAreRefused) {
  const at::Tensor features = tensor_of(expected, "features"),
                   newest = medusa_ids(expected, "newest");
  EXPECT_THROW(head_states(model, features.narrow(1, 0, 71), newest), std::invalid_argument);
  EXPECT_THROW(head_states(model, at::cat({features, features}, 1), newest), std::invalid_argument);
  EXPECT_THROW(head_states(model, features[0], newest), std::invalid_argument);
  EXPECT_THROW(head_states(model, at::zeros({}), newest), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Medusa, MedusaParity, ::testing::Values("markov", "plain"),
                         [](const auto& name) { return name.param; });

// As in the script: head k weighed by exp(-k / 2).
at::Tensor medusa_loss(const Medusa& m, const Safetensors& e) {
  const at::Tensor states = head_states(m, tensor_of(e, "features"), medusa_ids(e, "newest"));
  const at::Tensor logits =
      head_logits(m, states.flatten(0, 1)) + markov_bias(m, medusa_ids(e, "before").flatten());
  const at::Tensor labels = medusa_ids(e, "labels").flatten().unsqueeze(1);
  const at::Tensor entropy = -at::log_softmax(logits, -1).gather(1, labels).squeeze(1);
  const at::Tensor weight =
      at::exp(-at::arange(m.config.heads, entropy.options()) / 2).repeat({states.size(0)});
  return (weight * entropy).sum() / weight.sum();
}

TEST(MedusaGradients, OfEveryWeightMatchPyTorch) {
  const Safetensors e = medusa_expected("markov");
  Medusa m = load_medusa(kMedusaData + "markov", medusa_target(), at::kDouble);
  for (const ModelWeight& w : weights(m)) w.tensor->requires_grad_(true);
  const at::Tensor loss = medusa_loss(m, e);
  ASSERT_EQ(loss.scalar_type(), at::kDouble);
  EXPECT_NEAR(loss.item<double>(), doubles_of(e, "loss").at(0), 1e-11);
  loss.backward();
  int compared = 0;
  for (const ModelWeight& w : weights(m)) {
    const at::Tensor theirs =
        at::tensor(doubles_of(e, "gradient." + w.name), at::kDouble).view(w.shape);
    ASSERT_TRUE(w.tensor->grad().defined()) << w.name;
    EXPECT_GT(theirs.abs().max().item<double>(), 1e-2) << w.name;  // not all zero
    EXPECT_LT(distance(w.tensor->grad(), theirs), 1e-11) << w.name;
    ++compared;
  }
  EXPECT_EQ(compared, 17);
  EXPECT_FALSE(m.embedding.requires_grad());
}

}  // namespace
}  // namespace forerun
