#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <tuple>
#include <vector>

#include "forerun/tensor/cpu/bf16_matrix.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/tensor/cpu/full_attention.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun {
namespace {

std::uint16_t* bits(const at::Tensor& bf16) {
  return reinterpret_cast<std::uint16_t*>(bf16.mutable_data_ptr<at::BFloat16>());
}
at::Tensor as_bf16(const at::Tensor& x) { return x.to(at::kBFloat16).contiguous(); }
double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

class Bf16 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    at::manual_seed(1);
  }
  Arena arena;
};

class Bf16Products : public Bf16,
                     public ::testing::WithParamInterface<std::tuple<int, int, int>> {};

// Both operands rounded, the sum in float32: only the order of the sum differs.
TEST_P(Bf16Products, AreThoseOfRoundedValues) {
  const auto [n, k, rows] = GetParam();
  const at::Tensor weight = at::randn({n, k}), bias = at::randn({n}),
                   x = as_bf16(at::randn({rows, k}));
  const Bf16Matrix m = Bf16Matrix::pack(weight, bias, arena);
  const at::Tensor expected = at::linear(x.to(at::kFloat), as_bf16(weight).to(at::kFloat), bias);
  const at::Tensor out = at::full({rows, m.columns()}, 7.0);
  const Bf16Matrix::Rows all{bits(x), k, out.mutable_data_ptr<float>(), m.columns(), rows};
  m.multiply(all);
  EXPECT_LT(relative(out.narrow(1, 0, n), expected), 1e-6);
  m.multiply(all, true);  // added to the first result, without the bias
  EXPECT_LT(relative(out.narrow(1, 0, n), 2.0 * expected - bias), 1e-6);
}

TEST_P(Bf16Products, OfARowDoNotDependOnTheOthers) {
  const auto [n, k, rows] = GetParam();
  const at::Tensor x = as_bf16(at::randn({rows, k}));
  const Bf16Matrix m = Bf16Matrix::pack(at::randn({n, k}), {}, arena);
  const at::Tensor together = at::empty({rows, m.columns()}),
                   alone = at::empty({rows, m.columns()});
  m.multiply({bits(x), k, together.mutable_data_ptr<float>(), m.columns(), rows});
  for (std::int64_t r = 0; r < rows; ++r) {
    m.multiply({bits(x) + r * k, k, alone[r].mutable_data_ptr<float>(), m.columns(), 1});
  }
  EXPECT_TRUE(together.equal(alone));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Bf16Products,
                         ::testing::Values(std::tuple(1, 2, 1), std::tuple(16, 32, 6),
                                           std::tuple(70, 34, 13), std::tuple(128, 512, 64),
                                           std::tuple(200, 16, 7)));

TEST_F(Bf16, ProductsNeedPairs) {
  EXPECT_THROW(Bf16Matrix::pack(at::randn({4, 3}), {}, arena), std::invalid_argument);
}

class Bf16Attention : public Bf16,
                      public ::testing::WithParamInterface<std::tuple<int, int, int>> {};

TEST_P(Bf16Attention, IsThatOfAllTokens) {
  const auto [tokens, heads, dim] = GetParam();
  const std::int64_t width = heads * dim;
  FullAttention attention;
  const at::Tensor out = at::empty({tokens, width}, at::kBFloat16);
  for (int again = 0; again < 2; ++again) {  // its room was used before
    const at::Tensor qkv = at::randn({tokens, 3, heads, dim}) * 2.0;
    const at::Tensor t = qkv.permute({1, 2, 0, 3});
    const at::Tensor expected = at::scaled_dot_product_attention(t[0], t[1], t[2])
                                    .permute({1, 0, 2})
                                    .reshape({tokens, width});
    attention.room_for({tokens, heads, dim});
    attention.run(qkv.const_data_ptr<float>(), 3 * width, bits(out));
    EXPECT_LT(relative(out.to(at::kFloat), expected), 0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Bf16Attention,
                         ::testing::Values(std::tuple(1, 1, 1), std::tuple(9, 4, 5),
                                           std::tuple(16, 2, 8), std::tuple(64, 4, 32),
                                           std::tuple(100, 3, 72), std::tuple(256, 2, 64)));

TEST_F(Bf16, AttentionTakesAnotherShape) {
  FullAttention attention;
  for (const std::int64_t tokens : {33, 7, 50}) {
    const at::Tensor qkv = at::randn({tokens, 3, 2, 10}), t = qkv.permute({1, 2, 0, 3});
    const at::Tensor out = at::empty({tokens, 20}, at::kBFloat16);
    attention.room_for({tokens, 2, 10});
    attention.run(qkv.const_data_ptr<float>(), 60, bits(out));
    const at::Tensor expected =
        at::scaled_dot_product_attention(t[0], t[1], t[2]).permute({1, 0, 2}).reshape({tokens, 20});
    EXPECT_LT(relative(out.to(at::kFloat), expected), 0.01);
  }
}

TEST_F(Bf16, RowsOfADiTAreThoseOfPyTorch) {
  for (const std::int64_t n : {16, 36, 130}) {
    const at::Tensor x = at::randn({n}) * 3.0 + 1.0, shift = at::randn({n}), scale = at::randn({n});
    const at::Tensor y = at::empty({n}, at::kBFloat16);
    const auto data = [](const at::Tensor& t) { return t.const_data_ptr<float>(); };
    kernels().layer_norm_modulate_row(data(x), data(shift), data(scale), 1e-6F, n, bits(y));
    const at::Tensor modulated = at::layer_norm(x, {n}, {}, {}, 1e-6) * (scale + 1.0) + shift;
    EXPECT_LE((y.to(at::kFloat) - modulated).abs().max().item<float>(),
              modulated.abs().max().item<float>() / 256.0F);
    kernels().gelu_row(data(x), n, bits(y));
    EXPECT_LT(relative(y.to(at::kFloat), at::gelu(x, "tanh")), 4e-3);
    const at::Tensor sum = shift.clone();
    kernels().add_gated_row(data(scale), data(x), n, sum.mutable_data_ptr<float>());
    EXPECT_LT(relative(sum, shift + scale * x), 1e-6);
  }
}

}  // namespace
}  // namespace forerun
