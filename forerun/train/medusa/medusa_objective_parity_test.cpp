// The loss of Medusa heads, its figures and its gradient against plain PyTorch
// (tools/make_medusa_training_values.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/medusa_training.h"
#include "tests/support/medusa_values.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::MedusaParts;
using testing::TempFolder;

std::vector<TokenDocument> medusa_documents(const Safetensors& e) {
  const at::Tensor tokens = medusa_ids(e, "tokens"), ends = medusa_ids(e, "ends"),
                   prompts = medusa_ids(e, "prompts");
  std::vector<TokenDocument> out;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < ends.numel(); ++i) {
    TokenDocument document{.id = i, .prompt = prompts[i].item<std::int64_t>()};
    for (; at < ends[i].item<std::int64_t>(); ++at) {
      document.tokens.push_back(static_cast<Token>(tokens[at].item<std::int64_t>()));
    }
    out.push_back(document);
  }
  return out;
}

class MedusaTrainingLoss : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name(const std::string& what) const { return std::string(GetParam()) + "." + what; }
  double number(const std::string& what) const { return tensor_of(e, name(what)).item<double>(); }

  // The heads of the reference values, without the parts that the case lacks.
  MedusaParts parts() const {
    MedusaParts p;
    p.model = std::make_shared<Medusa>(load_medusa(kMedusaData + "training", *p.target));
    Medusa& m = *p.model;
    const at::Tensor options = medusa_ids(e, name("options"));
    if (options[1].item<std::int64_t>() == 1) {
      m.draft_to_target = medusa_ids(e, "kept");
      m.config.draft_vocab = m.draft_to_target.numel();
      m.head = m.head.index_select(0, m.draft_to_target);
      m.markov_w2 = m.markov_w2.index_select(0, m.draft_to_target);
    }
    if (options[0].item<std::int64_t>() == 0) {
      m.config.markov_rank = 0;
      m.markov_w1 = m.markov_w2 = at::Tensor();
    }
    const at::Tensor numbers = tensor_of(e, name("numbers"));
    p.options.gamma = numbers[0].item<double>();
    p.options.distill = numbers[1].item<double>();
    p.data = {testing::shards_in(folder.path() / "data", medusa_documents(e))};
    return p;
  }

  TempFolder folder;
  const Safetensors e = medusa_expected("training");
};

TEST_P(MedusaTrainingLoss, ItsFiguresAndItsGradientByEveryWeightMatchPyTorch) {
  const MedusaParts p = parts();
  MedusaObjective objective = p.make();
  ASSERT_EQ(objective.size(), 4U);
  const auto parameters = objective.parameters();
  const LossSum sum = objective.loss(std::vector<std::size_t>{0, 1, 2, 3}, 1);
  const double loss = number("loss");
  EXPECT_NEAR(sum.loss.item<double>(), loss, 2e-5 * loss);
  EXPECT_NEAR(sum.weight, number("weight"), 1e-4);
  EXPECT_EQ(sum.tokens, 45);
  const at::Tensor figures = medusa_ids(e, name("figures"));
  const auto places = figures[0].item<double>();
  ASSERT_EQ(sum.figures.size(), 2U);
  EXPECT_EQ(sum.figures[0].name, "first");
  EXPECT_EQ(sum.figures[0].numerator, figures[1].item<double>());
  EXPECT_EQ(sum.figures[0].denominator, places);
  EXPECT_EQ(sum.figures[1].name, "tau");
  EXPECT_EQ(sum.figures[1].numerator, figures[2].item<double>() + places);
  EXPECT_EQ(sum.figures[1].denominator, places);
  sum.loss.backward();

  for (const Parameter& w : parameters) {
    const at::Tensor theirs = tensor_of(e, name("gradient.") + w.name);
    ASSERT_TRUE(w.value.grad().defined()) << w.name;
    const at::Tensor g = w.value.grad();
    const at::Tensor ours =
        g.dim() == 1 ? g : at::matmul(g, at::cos(at::arange(g.size(1), at::kFloat)));
    const double largest = theirs.abs().max().item<double>();
    EXPECT_GT(largest, 1e-2) << w.name;  // not all zero
    EXPECT_LT(distance(ours, theirs), 1e-4 * largest) << w.name;
  }
  // Norms of two features, the embedding, the MLP, its output and three heads; matrices.
  EXPECT_EQ(parameters.size(), 8U + 6U + (p.model->config.markov_rank > 0 ? 2U : 0U));
}

// Documents in separate passes give the same sums: no document affects another.
TEST_P(MedusaTrainingLoss, OfABatchIsTheSumOverItsDocuments) {
  MedusaObjective objective = parts().make();
  const LossSum all = objective.loss(std::vector<std::size_t>{0, 1, 2, 3}, 1);
  double loss = 0.0, weight = 0.0, kept = 0.0;
  const std::vector<std::vector<std::size_t>> passes = {{2}, {3, 0}, {1}};
  for (const std::vector<std::size_t>& some : passes) {
    const LossSum part = objective.loss(some, 1);
    loss += part.loss.item<double>();
    weight += part.weight;
    kept += part.figures.at(1).numerator;
  }
  EXPECT_NEAR(all.loss.item<double>(), loss, 1e-5 * loss);
  EXPECT_NEAR(all.weight, weight, 1e-4);
  EXPECT_EQ(all.figures.at(1).numerator, kept);
}

INSTANTIATE_TEST_SUITE_P(Medusa, MedusaTrainingLoss,
                         ::testing::Values("everything", "tokens", "law", "whole_vocabulary"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace forerun
