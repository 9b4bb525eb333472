// The loss of a bidirectional network and its gradient against PyTorch's autograd
// (tools/make_dlm_values.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "forerun/formats/whole_numbers.h"
#include "forerun/train/dlm/dlm_objective.h"
#include "tests/support/dflash_training.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_diffusion.h"

namespace forerun {
namespace {

using testing::shards_in;
using testing::TempFolder;

std::vector<std::int64_t> ids_of(const Safetensors& file, const std::string& name) {
  return *whole_numbers(*file.find(name));
}

class DlmLoss : public ::testing::TestWithParam<const char*> {
 protected:
  DlmLoss() {
    const at::Tensor numbers = tensor_of(expected, "numbers");
    options.gamma = numbers[0].item<double>();
    options.distill = numbers[1].item<double>();
    options.held_out = 0.0;
    options.anchors = 1000;
    *model = diffusion_from_decoder(*target, 2, numbers[2].item<std::int64_t>());
    model->config.attention = DiffusionAttention::kBidirectional;
    model->mask = tensor_of(expected, "start.mask_embedding").clone();
    const auto tokens = ids_of(expected, "tokens"), ends = ids_of(expected, "ends"),
               prompts = ids_of(expected, "prompts");
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); begin = ends[i++]) {
      documents.push_back({.id = static_cast<std::int64_t>(i),
                           .prompt = prompts[i],
                           .tokens = {tokens.begin() + begin, tokens.begin() + ends[i]}});
    }
  }

  TempFolder folder;
  Safetensors expected = load_safetensors(std::string(FORERUN_SOURCE_DIR "/tests/data/dlm/") +
                                          GetParam() + ".safetensors");
  std::shared_ptr<const DecoderLm> target = std::make_shared<DecoderLm>(tiny_decoder(GetParam()));
  std::shared_ptr<DiffusionLm> model = std::make_shared<DiffusionLm>();
  DlmLossOptions options;
  std::vector<TokenDocument> documents;
};

TEST_P(DlmLoss, OfABidirectionalNetworkAndItsGradientsMatchPyTorch) {
  DlmObjective objective(target, model, {shards_in(folder.path() / "data", documents)},
                         testing::head_of(*target, {}), options, "a");
  const auto parameters = objective.parameters();
  const LossSum sum = objective.loss(std::vector<std::size_t>{0, 1, 2}, 1);
  const double loss = tensor_of(expected, "loss").item<double>();
  EXPECT_NEAR(sum.loss.item<double>(), loss, 2e-5 * loss);
  EXPECT_NEAR(sum.weight, tensor_of(expected, "weight").item<double>(), 1e-4);
  const at::Tensor right = tensor_of(expected, "right");
  EXPECT_EQ(sum.figures.at(0).numerator, right[0].item<double>());
  EXPECT_EQ(sum.figures.at(2).numerator, right[1].item<double>());
  sum.loss.backward();
  for (const Parameter& w : parameters) {
    const at::Tensor theirs = tensor_of(expected, "gradient." + w.name), g = w.value.grad();
    ASSERT_TRUE(g.defined()) << w.name;
    const at::Tensor ours =
        g.dim() == 1 ? g : at::matmul(g, at::cos(at::arange(g.size(1), at::kFloat)));
    const double largest = theirs.abs().max().item<double>();
    EXPECT_GT(largest, 1e-4) << w.name;  // not all zero
    EXPECT_LT(distance(ours, theirs), 2e-4 * largest) << w.name;
  }
  std::size_t learned = 0;
  for (const TensorView& t : expected.tensors()) learned += t.name.starts_with("gradient.");
  EXPECT_EQ(parameters.size(), learned);
}

INSTANTIATE_TEST_SUITE_P(Dlm, DlmLoss, ::testing::Values("llama_plain", "qwen2", "qwen3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace forerun
