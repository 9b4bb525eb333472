// Which weights are rounded for training, and that gradients reach those behind them.
#include "forerun/models/dflash/four_bit_dflash.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "forerun/tensor/four_bit_weights.h"
#include "tests/support/random_dflash.h"

namespace forerun {
namespace {

DFlash network(bool gated, std::int64_t selector) {
  DFlashConfig c = small_dflash({kFull, kFull});
  c.hidden = 64;
  c.intermediate = 96;
  c.head_dim = 16;
  c.slot_state = c.confidence = c.predicts_next = true;
  c.markov_rank = selector > 0 ? 0 : 8;
  c.markov_gated = gated;
  c.selector_rank = selector;
  c.weight_bits = 4;
  return noisy_dflash(c, at::kFloat, 3);
}

at::Tensor rounded(const at::Tensor& weight) { return four_bit_weights(weight)->unpacked(); }

bool is_rounded(const std::string& name) {
  return name.ends_with("_proj.weight")
             ? !name.starts_with("confidence") && !name.starts_with("markov")
             : name == "fc.weight" || name == "slot_state.weight" ||
                   name.ends_with("hidden_projection.weight");
}

class FourBits : public ::testing::TestWithParam<int> {
 protected:
  DFlash model = network(GetParam() == 1, GetParam() == 2 ? 8 : 0);
};

TEST_P(FourBits, AreThoseOfMatricesThatPassesRead) {
  DFlash out = rounded_to_four_bits(model);
  EXPECT_LT((out.head - rounded(model.head)).abs().max().item<double>(), 1e-6);
  const auto before = weights(model), after = weights(out);
  int count = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor &was = *before[i].tensor, &is = *after[i].tensor;
    if (before[i].name == "markov_head.gate_proj.weight") {
      EXPECT_LT((is.narrow(1, 0, 64) - rounded(was.narrow(1, 0, 64))).abs().max().item<double>(),
                1e-6);
      EXPECT_TRUE(at::equal(is.narrow(1, 64, 8), was.narrow(1, 64, 8)));
    } else if (is_rounded(before[i].name)) {
      EXPECT_FALSE(at::equal(is, was)) << before[i].name;
      EXPECT_LT((is - rounded(was)).abs().max().item<double>(), 1e-6) << before[i].name;
      ++count;
    } else {
      EXPECT_TRUE(at::equal(is, was)) << before[i].name;
    }
  }
  EXPECT_EQ(count, 2 * 7 + 2 + (GetParam() == 2 ? 1 : 0));
}

TEST_P(FourBits, GradientsPassThroughTheRounding) {
  std::vector<at::Tensor> leaves;
  for (const ModelWeight& w : weights(model)) leaves.push_back(w.tensor->requires_grad_());
  DFlash out = rounded_to_four_bits(model);
  at::Tensor sum = at::zeros({});
  const auto factor = [](const at::Tensor& w) { return at::cos(at::arange(w.numel())).view_as(w); };
  for (const ModelWeight& w : weights(out)) sum = sum + (*w.tensor * factor(*w.tensor)).sum();
  sum.backward();
  for (const at::Tensor& leaf : leaves) {
    ASSERT_TRUE(leaf.grad().defined());
    EXPECT_TRUE(at::equal(leaf.grad(), factor(leaf)));
  }
  EXPECT_FALSE(model.head.requires_grad());
}

std::string name_of_head(const ::testing::TestParamInfo<int>& head) {
  return std::vector<std::string>{"Markov", "Gated",
                                  "Selector"}[static_cast<std::size_t>(head.param)];
}
INSTANTIATE_TEST_SUITE_P(DFlash, FourBits, ::testing::Values(0, 1, 2), name_of_head);

}  // namespace
}  // namespace forerun
