// The loss and its gradient against PyTorch's autograd (tools/make_tidar_values.py).
#include <gtest/gtest.h>

#include "forerun/formats/whole_numbers.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tidar_training.h"

namespace forerun {
namespace {

using testing::kTidar;
using testing::shards_in;
using testing::TempFolder;
using testing::TidarParts;

std::vector<std::int64_t> numbers_of(const Safetensors& file, const std::string& name) {
  return *whole_numbers(*file.find(name));
}

class TidarLoss : public ::testing::TestWithParam<const char*> {
 protected:
  TidarLoss() {
    const at::Tensor numbers = tensor_of(e, "numbers");
    parts.options.gamma = numbers[0].item<double>();
    parts.options.distill = numbers[1].item<double>();
    const auto tokens = numbers_of(e, "tokens"), ends = numbers_of(e, "ends"),
               prompts = numbers_of(e, "prompts");
    std::vector<TokenDocument> documents;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); begin = ends[i++]) {
      documents.push_back({.id = static_cast<std::int64_t>(i),
                           .prompt = prompts[i],
                           .tokens = {tokens.begin() + begin, tokens.begin() + ends[i]}});
    }
    parts.data = {shards_in(folder.path() / "data", documents)};
  }

  TempFolder folder;
  TidarParts parts{GetParam()};
  Safetensors e = load_safetensors(kTidar + GetParam() + "/expected.safetensors");
};

TEST_P(TidarLoss, AndItsGradientByEveryWeightMatchPyTorch) {
  TidarObjective objective = parts.make();
  ASSERT_EQ(objective.size(), 3U);
  const auto parameters = objective.parameters();
  const LossSum sum = objective.loss(std::vector<std::size_t>{0, 1, 2}, 1);
  const double loss = tensor_of(e, "loss").item<double>();
  EXPECT_NEAR(sum.loss.item<double>(), loss, 2e-5 * loss);
  EXPECT_NEAR(sum.weight, tensor_of(e, "weight").item<double>(), 1e-4);
  EXPECT_EQ(sum.tokens, 33);
  const at::Tensor right = tensor_of(e, "right");
  EXPECT_EQ(sum.figures.at(0).numerator, right[0].item<double>());
  for (std::int64_t k = 1; k < right.numel(); ++k) {
    EXPECT_EQ(sum.figures.at(static_cast<std::size_t>(k) + 1).numerator, right[k].item<double>());
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
  const std::size_t markov = parts.lora->config.markov_rank > 0 ? 2 : 0;
  EXPECT_EQ(parameters.size(), 1 + 14 * parts.lora->layers.size() + markov);
}

// Documents in separate passes give the same sums: none affects another.
TEST_P(TidarLoss, OfABatchIsTheSumOverItsDocuments) {
  TidarObjective objective = parts.make();
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

INSTANTIATE_TEST_SUITE_P(Tidar, TidarLoss, ::testing::Values("llama_plain", "qwen3", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace forerun
