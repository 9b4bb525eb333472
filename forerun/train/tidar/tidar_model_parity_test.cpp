// The loss of a whole model and its gradient by every weight against PyTorch's autograd over the
// doubled sequence (tools/make_tidar_values.py).
#include <gtest/gtest.h>

#include "forerun/formats/whole_numbers.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tidar_model.h"

namespace forerun {
namespace {

using testing::shards_in;
using testing::TempFolder;
using testing::TidarModelParts;

class TidarModelLoss : public ::testing::TestWithParam<const char*> {
 protected:
  TidarModelLoss() {
    const at::Tensor given = tensor_of(e, "numbers");
    parts.options.gamma = given[0].item<double>();
    parts.options.distill = given[1].item<double>();
    parts.options.alpha = given[2].item<double>();
    for (const ModelWeight& w : weights(*parts.masks)) *w.tensor = tensor_of(e, "start." + w.name);
    const auto tokens = whole("tokens"), ends = whole("ends"), prompts = whole("prompts");
    std::vector<TokenDocument> documents;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); begin = ends[i++]) {
      documents.push_back({.id = static_cast<std::int64_t>(i),
                           .prompt = prompts[i],
                           .tokens = {tokens.begin() + begin, tokens.begin() + ends[i]}});
    }
    parts.data = {shards_in(folder.path() / "data", documents)};
  }
  std::vector<std::int64_t> whole(const std::string& name) const {
    return *whole_numbers(*e.find(name));
  }

  TempFolder folder;
  Safetensors e = load_safetensors(std::string(FORERUN_SOURCE_DIR "/tests/data/tidar/full_") +
                                   GetParam() + "/expected.safetensors");
  std::vector<std::int64_t> design = whole("design");
  TidarModelParts parts{GetParam(), design[0], design[1], design[2]};
};

TEST_P(TidarModelLoss, AndItsGradientByEveryWeightMatchPyTorch) {
  TidarModelObjective objective = parts.make();
  ASSERT_EQ(objective.size(), 3U);
  const auto parameters = objective.parameters();
  const LossSum sum = objective.loss(std::vector<std::size_t>{0, 1, 2}, 1);
  const double loss = tensor_of(e, "loss").item<double>(),
               text = tensor_of(e, "text").item<double>();
  EXPECT_NEAR(sum.loss.item<double>(), loss, 2e-5 * loss);
  EXPECT_NEAR(sum.weight, tensor_of(e, "weight").item<double>(), 1e-4);
  EXPECT_NEAR(sum.figures.at(0).numerator, text, 2e-5 * text);
  const at::Tensor right = tensor_of(e, "right");
  EXPECT_EQ(sum.figures.at(1).numerator, right[0].item<double>());
  for (std::int64_t k = 1; k < right.numel(); ++k) {
    EXPECT_EQ(sum.figures.at(static_cast<std::size_t>(k) + 2).numerator, right[k].item<double>());
  }
  sum.loss.backward();

  for (const Parameter& w : parameters) {
    const at::Tensor theirs = tensor_of(e, "gradient." + w.name), g = w.value.grad();
    ASSERT_TRUE(g.defined()) << w.name;
    const at::Tensor ours =
        g.dim() == 1 ? g : at::matmul(g, at::cos(at::arange(g.size(1), at::kFloat)));
    const double largest = theirs.abs().max().item<double>();
    EXPECT_GT(largest, 1e-4) << w.name;  // not all zero
    EXPECT_LT(distance(ours, theirs), 2e-4 * largest) << w.name;
  }
  EXPECT_EQ(parameters.size(), weights(*parts.decoder).size() + weights(*parts.masks).size());
}

// Documents in separate passes give the same sums: none affects another.
TEST_P(TidarModelLoss, OfABatchIsTheSumOverItsDocuments) {
  TidarModelObjective objective = parts.make();
  const LossSum all = objective.loss(std::vector<std::size_t>{0, 1, 2}, 1);
  double loss = 0.0, weight = 0.0;
  for (const std::size_t i : {2, 0, 1}) {
    const LossSum one = objective.loss(std::vector<std::size_t>{i}, 1);
    loss += one.loss.item<double>();
    weight += one.weight;
  }
  EXPECT_NEAR(all.loss.item<double>(), loss, 1e-5 * loss);
  EXPECT_NEAR(all.weight, weight, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Tidar, TidarModelLoss, ::testing::Values("llama", "qwen3", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace forerun
