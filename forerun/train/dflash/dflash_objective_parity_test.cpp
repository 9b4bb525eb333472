// The loss and its gradient against plain PyTorch (tools/make_dflash_training_values.py).
#include <gtest/gtest.h>

#include "tests/support/dflash_training.h"
#include "tests/support/dflash_values.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::ObjectiveParts;
using testing::shards_in;
using testing::TempFolder;

std::vector<TokenDocument> documents_of(const Safetensors& e) {
  const auto tokens = numbers_of(e, "tokens"), ends = numbers_of(e, "ends"),
             prompts = numbers_of(e, "prompts");
  std::vector<TokenDocument> out;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    out.push_back({.id = static_cast<std::int64_t>(i),
                   .prompt = prompts[i],
                   .tokens = {tokens.begin() + begin, tokens.begin() + ends[i]}});
    begin = ends[i];
  }
  return out;
}

class TrainingLoss : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name(const char* what) const { return std::string(GetParam()) + "." + what; }

  // The network of the reference values, without the parts that the case lacks.
  ObjectiveParts parts() {
    ObjectiveParts p;
    p.model = std::make_shared<DFlash>(load_dflash(kDFlash + "training", DFlashTarget(*p.target)));
    DFlash& m = *p.model;
    const auto options = numbers_of(e, name("options"));
    m.config.predicts_next = options[0] == 0;
    if (options[1] == 0) {
      m.config.markov_rank = 0;
      m.markov_w1 = m.markov_w2 = at::Tensor();
    }
    m.config.confidence = options[2] == 1;
    m.config.confidence_sees_markov = options[4] == 1;
    if (!m.config.confidence) m.confidence_weight = m.confidence_bias = at::Tensor();
    if (m.config.confidence && options[4] == 0) {
      m.confidence_weight = m.confidence_weight.narrow(1, 0, m.config.hidden).contiguous();
    }
    if (options[3] == 0) {
      m.config.draft_vocab = m.config.vocab;
      m.draft_to_target = at::Tensor();
      m.head = p.target->head();
    }
    m.config.slot_state = options[5] == 1;
    if (!m.config.slot_state) m.slot_state = at::Tensor();
    const at::Tensor numbers = tensor_of(e, name("numbers"));
    p.options.gamma = numbers[0].item<double>();
    p.options.distill = numbers[1].item<double>();
    p.options.confidence = numbers[2].item<double>();
    p.data = {shards_in(folder.path() / "data", documents_of(e))};
    return p;
  }

  TempFolder folder;
  Safetensors e = dflash_expected("training");
};

TEST_P(TrainingLoss, AndItsGradientByEveryWeightMatchPyTorch) {
  const ObjectiveParts p = parts();
  DFlashObjective objective = p.make();
  ASSERT_EQ(objective.size(), 3U);
  const auto parameters = objective.parameters();
  const LossSum sum = objective.loss(std::vector<std::size_t>{0, 1, 2}, 1);
  const double loss = tensor_of(e, name("loss")).item<double>();
  EXPECT_NEAR(sum.loss.item<double>(), loss, 2e-5 * loss);
  EXPECT_NEAR(sum.weight, tensor_of(e, name("weight")).item<double>(), 1e-4);
  EXPECT_EQ(sum.tokens, 33);
  sum.loss.backward();

  std::size_t compared = 0;
  for (const Parameter& w : parameters) {
    const at::Tensor theirs = tensor_of(e, name("gradient.") + w.name);
    ASSERT_TRUE(w.value.grad().defined()) << w.name;
    const at::Tensor g = w.value.grad();
    const at::Tensor ours =
        g.dim() == 1 ? g : at::matmul(g, at::cos(at::arange(g.size(1), at::kFloat)));
    const double largest = theirs.abs().max().item<double>();
    EXPECT_GT(largest, 1e-2) << w.name;  // not all zero
    EXPECT_LT(distance(ours, theirs), 1e-4 * largest) << w.name;
    ++compared;
  }
  const DFlashConfig& c = p.model->config;
  const std::size_t more =
      (c.markov_rank > 0 ? 2U : 0U) + (c.confidence ? 2U : 0U) + (c.slot_state ? 1U : 0U);
  EXPECT_EQ(compared, 3U + 2U * 11U + 1U + more);
}

// Documents in separate passes give the same sums: no document affects another.
TEST_P(TrainingLoss, OfABatchIsTheSumOverItsDocuments) {
  DFlashObjective objective = parts().make();
  const LossSum all = objective.loss(std::vector<std::size_t>{0, 1, 2}, 1);
  double loss = 0.0, weight = 0.0, kept = 0.0;
  for (const std::size_t i : {2, 0, 1}) {
    const LossSum one = objective.loss(std::vector<std::size_t>{i}, 1);
    loss += one.loss.item<double>();
    weight += one.weight;
    kept += one.figures.at(1).numerator;
  }
  EXPECT_NEAR(all.loss.item<double>(), loss, 1e-5 * loss);
  EXPECT_NEAR(all.weight, weight, 1e-4);
  EXPECT_EQ(all.figures.at(1).numerator, kept);
}

INSTANTIATE_TEST_SUITE_P(DFlash, TrainingLoss,
                         ::testing::Values("everything", "plain", "law", "own_position"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace forerun
