#include "forerun/tensor/fused_modulation.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/support/distance.h"

namespace forerun {
namespace {

constexpr std::int64_t kBatch = 3, kTokens = 37, kDim = 21;  // neither a multiple of a vector
constexpr double kEps = 1e-6;

struct Inputs {
  at::Tensor x, shift, scale, y;
  // Shift and scale are pieces of one row, like a block's modulation.
  Inputs(at::ScalarType type, at::ScalarType narrow) {
    at::manual_seed(5);
    x = (at::randn({kBatch, kTokens, kDim}, at::kDouble) * 2.0 + 0.7).to(type);
    const at::Tensor six = at::randn({kBatch, 6 * kDim}, at::kDouble).to(type);
    shift = six.narrow(1, 2 * kDim, kDim);
    scale = six.narrow(1, 4 * kDim, kDim);
    y = at::randn({kBatch, kTokens, kDim}, at::kDouble).to(narrow);
  }
};

at::Tensor leaf(const at::Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(true); }

struct ModulationCase {
  at::ScalarType type, narrow;
  double bound;
};

class Modulation : public ::testing::TestWithParam<ModulationCase> {};

TEST_P(Modulation, NormAndItsGradientsAreThoseOfTheDefinition) {
  Inputs in(GetParam().type, GetParam().narrow);
  const at::Tensor a = leaf(in.x), b = leaf(in.shift), c = leaf(in.scale);
  const at::Tensor mean = a.mean(-1, true);
  const at::Tensor variance = (a - mean).square().mean(-1, true);
  const at::Tensor expected =
      (a - mean) / (variance + kEps).sqrt() * (1.0 + c.unsqueeze(1)) + b.unsqueeze(1);
  const at::Tensor slope = in.y.to(at::kDouble);
  (expected * slope).sum().backward();

  const at::Tensor x = in.x.requires_grad_(true);
  const at::Tensor shift = in.shift.detach().requires_grad_(true);
  const at::Tensor scale = in.scale.detach().requires_grad_(true);
  const at::Tensor got = fused_layer_norm_modulate(x, shift, scale, kEps, GetParam().narrow);
  EXPECT_EQ(got.scalar_type(), GetParam().narrow);
  EXPECT_LT(distance(got, expected), GetParam().bound);
  got.backward(in.y);
  EXPECT_LT(distance(x.grad(), a.grad()), GetParam().bound);
  // Sums over tokens.
  EXPECT_LT(distance(shift.grad(), b.grad()), 20 * GetParam().bound);
  EXPECT_LT(distance(scale.grad(), c.grad()), 20 * GetParam().bound);
}

TEST_P(Modulation, GatedSumAndItsGradientsAreThoseOfTheDefinition) {
  Inputs in(GetParam().type, GetParam().narrow);
  const at::Tensor a = leaf(in.x), g = leaf(in.scale), b = leaf(in.y);
  const at::Tensor expected = a + g.unsqueeze(1) * b;
  const at::Tensor slope = at::randn_like(in.x);
  (expected * slope.to(at::kDouble)).sum().backward();

  const at::Tensor x = in.x.requires_grad_(true), y = in.y.requires_grad_(true);
  const at::Tensor gate = in.scale.detach().requires_grad_(true);
  const at::Tensor got = fused_gated_sum(x, gate, y);
  EXPECT_EQ(got.scalar_type(), GetParam().type);
  EXPECT_LT(distance(got, expected), GetParam().bound);
  got.backward(slope);
  EXPECT_LT(distance(x.grad(), a.grad()), GetParam().bound);
  EXPECT_LT(distance(y.grad(), b.grad()), 4 * GetParam().bound);
  EXPECT_LT(distance(gate.grad(), g.grad()), 20 * GetParam().bound);
}

INSTANTIATE_TEST_SUITE_P(Types, Modulation,
                         ::testing::Values(ModulationCase{at::kDouble, at::kDouble, 1e-13},
                                           ModulationCase{at::kFloat, at::kFloat, 3e-6},
                                           ModulationCase{at::kFloat, at::kBFloat16, 4e-2}),
                         [](const auto& test) {
                           return std::string(at::toString(test.param.type)) +
                                  at::toString(test.param.narrow);
                         });

// A sample's numbers must not depend on the rest of the batch.
TEST(ModulationRows, DoNotDependOnTheBatchNorOnThreads) {
  Inputs in(at::kFloat, at::kFloat);
  const int before = at::get_num_threads();
  const auto outputs = [&](std::int64_t first, std::int64_t count, int threads) {
    at::set_num_threads(threads);
    const auto part = [&](const at::Tensor& t) { return t.narrow(0, first, count); };
    const at::Tensor normed =
        fused_layer_norm_modulate(part(in.x), part(in.shift), part(in.scale), kEps, at::kFloat);
    return fused_gated_sum(normed, part(in.scale), part(in.y));
  };
  const at::Tensor whole = outputs(0, kBatch, 2);
  for (std::int64_t i = 0; i < kBatch; ++i) {
    EXPECT_TRUE(at::equal(outputs(i, 1, 1), whole.narrow(0, i, 1)));
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace forerun
