#include "forerun/train/muon.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using nlohmann::json;

at::Tensor tensor(const json& numbers, const json& shape) {
  return at::tensor(at::ArrayRef<double>(numbers.get<std::vector<double>>()))
      .to(at::kFloat)
      .view(shape.get<std::vector<std::int64_t>>());
}

double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

at::Tensor matrix(std::int64_t rows, std::int64_t columns) {
  at::manual_seed(3);
  return at::randn({rows, columns});
}

TEST(Muon, SingularValuesBecomeAboutOneAndDirectionsStay) {
  for (const auto& [rows, columns] : {std::pair{16, 40}, std::pair{40, 16}}) {
    const at::Tensor x = matrix(rows, columns);
    const at::Tensor y = orthogonalized(x, at::kFloat);
    ASSERT_EQ(y.sizes(), x.sizes());
    const auto [u, s, v] = at::linalg_svd(x, false);
    // In the basis of x's singular vectors it is diagonal.
    const at::Tensor inside = at::mm(at::mm(u.t(), y), v.t());
    const at::Tensor values = inside.diagonal();
    EXPECT_GT(values.min().item<double>(), 0.6);
    EXPECT_LT(values.max().item<double>(), 1.3);
    EXPECT_LT((inside - at::diag(values)).abs().max().item<double>(), 1e-4);
  }
}

TEST(Muon, ZeroGradientsMoveNothing) {
  EXPECT_EQ(orthogonalized(at::zeros({4, 6}), at::kBFloat16).abs().max().item<double>(), 0.0);
}

TEST(Muon, BFloat16IsNearFloat32) {
  const at::Tensor x = matrix(24, 60);
  const double far = relative_distance(orthogonalized(x, at::kBFloat16).to(at::kFloat),
                                       orthogonalized(x, at::kFloat));
  EXPECT_GT(far, 0.0);
  EXPECT_LT(far, 0.03);
}

// torch.optim.Muon (tools/make_train_values.py). Its products are bfloat16: steps are compared
// within that rounding.
TEST(Muon, StepsAsPyTorchDoes) {
  const json e = json::parse(testing::read_file(FORERUN_SOURCE_DIR "/tests/data/train/muon.json"));
  std::vector<Parameter> parameters = {{"wide"}, {"tall"}};
  for (std::size_t i = 0; i < 2; ++i) {
    parameters[i].value = tensor(e["start"][i], e["shapes"][i]).clone().requires_grad_(true);
  }
  AdamW::Options adamw;
  adamw.weight_decay = e["weight_decay"];
  Optimizer optimizer(
      parameters,
      {.adamw = adamw, .muon = true, .momentum = e["momentum"], .products = at::kBFloat16});
  std::int64_t step = 0;
  for (const json& s : e["steps"]) {
    std::vector<at::Tensor> gradients, before;
    for (std::size_t i = 0; i < 2; ++i) {
      gradients.push_back(tensor(s["gradients"][i], e["shapes"][i]));
      before.push_back(parameters[i].value.detach().clone());
    }
    optimizer.update_(gradients, e["rate"], ++step);
    for (std::size_t i = 0; i < 2; ++i) {
      const at::Tensor want = tensor(s["after"][i], e["shapes"][i]);
      EXPECT_LT(relative_distance(parameters[i].value.detach() - before[i], want - before[i]), 0.03)
          << "step " << step << ", matrix " << i;
    }
  }
}

TEST(Muon, LeavesVectorsAndUndecayedTablesToAdamW) {
  const auto made = [] {
    std::vector<Parameter> out = {{"matrix"}, {"norm", {}, 1.0, false}, {"table", {}, 1.0, false}};
    out[0].value = at::ones({4, 6}).requires_grad_(true);
    out[1].value = at::ones({6}).requires_grad_(true);
    out[2].value = at::ones({4, 6}).requires_grad_(true);
    return out;
  };
  const auto with = made(), without = made();
  const AdamW::Options adamw;
  Optimizer muon(with, {.adamw = adamw, .muon = true, .products = at::kFloat});
  Optimizer plain(without, {.adamw = adamw, .products = at::kFloat});
  const std::vector<at::Tensor> gradients = {matrix(4, 6), at::full({6}, 0.5), matrix(4, 6)};
  muon.update_(gradients, 1e-2, 1);
  plain.update_(gradients, 1e-2, 1);
  EXPECT_FALSE(at::equal(with[0].value, without[0].value));
  EXPECT_TRUE(at::equal(with[1].value, without[1].value));
  EXPECT_TRUE(at::equal(with[2].value, without[2].value));
  EXPECT_EQ(muon.state().size(), 5U) << "one moment of the matrix, two of each of the others";
  EXPECT_EQ(plain.state().size(), 6U);
}

}  // namespace
}  // namespace forerun
