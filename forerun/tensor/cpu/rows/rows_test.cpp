#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "forerun/tensor/cpu/rows/row_kernels.h"
#include "forerun/tensor/cpu/rows/row_matrix.h"

namespace forerun {
namespace {

std::vector<const rows::Kernels*> available_kernels() {
  std::vector<const rows::Kernels*> out;
  for (const rows::Kernels* k :
       {rows::generic_kernels(), rows::avx2_kernels(), rows::avx512_kernels()}) {
    if (k != nullptr) out.push_back(k);
  }
  return out;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).norm() / b.to(at::kDouble).norm()).item<double>();
}

Linear random_layer(std::int64_t out, std::int64_t in, bool half) {
  at::Tensor weight = at::randn({out, in});
  if (half) weight = weight.to(at::kBFloat16).to(at::kFloat);
  return {weight, at::randn({out})};
}

at::Tensor product_of(const RowMatrix& m, const at::Tensor& x) {
  const at::Tensor out = at::zeros({x.size(0), m.columns()});
  m.multiply({x.const_data_ptr<float>(), x.size(1), out.data_ptr<float>(), m.columns(), x.size(0)});
  return out;
}

TEST(RowMatrix, ProductIsTheLayersInBothTypesOfWeights) {
  for (const bool half : {false, true}) {
    const Linear layer = random_layer(72, 50, half);  // 4.5 panels
    const RowMatrix m = RowMatrix::pack(layer);
    EXPECT_EQ(m.half(), half);
    const at::Tensor x = at::randn({9, 50});
    const at::Tensor expected =
        x.to(at::kDouble).mm(layer.weight.to(at::kDouble).t()) + layer.bias.to(at::kDouble);
    EXPECT_LT(difference(product_of(m, x).narrow(1, 0, 72), expected), 1e-6) << half;
  }
}

TEST(RowMatrix, ARowsBitsDoNotDependOnOtherRowsNorOnPanelsAtOnce) {
  const RowMatrix m = RowMatrix::pack(random_layer(160, 96, true));
  const at::Tensor x = at::randn({13, 96});
  const at::Tensor all = product_of(m, x);
  for (std::int64_t n = 1; n <= 13; ++n) {
    for (std::int64_t from = 0; from + n <= 13; ++from) {
      EXPECT_TRUE(product_of(m, x.narrow(0, from, n)).equal(all.narrow(0, from, n))) << n << from;
    }
  }
  const at::Tensor parts = at::zeros({1, 160});
  for (std::int64_t p = 0; p < m.panels(); p += 3) {
    m.multiply({x.const_data_ptr<float>(), 96, parts.data_ptr<float>(), 160, 1}, p,
               std::min(p + 3, m.panels()));
  }
  EXPECT_TRUE(parts.equal(all.narrow(0, 0, 1)));
}

TEST(RowMatrix, WeightsInBfloat16ChangeNoBit) {
  const Linear layer = random_layer(64, 48, true);
  Linear wide = layer;
  wide.weight = layer.weight.clone();
  wide.weight[0][0] = 1.0F + 0x1p-20F;  // one value that bfloat16 has not got
  const RowMatrix half = RowMatrix::pack(layer), whole = RowMatrix::pack(wide);
  ASSERT_TRUE(half.half());
  ASSERT_FALSE(whole.half());
  const at::Tensor x = at::randn({7, 48});
  EXPECT_TRUE(product_of(half, x).narrow(1, 1, 63).equal(product_of(whole, x).narrow(1, 1, 63)));
}

TEST(RowMatrix, SeveralLayersAreOneAndOthersAreRefused) {
  const Linear a = random_layer(32, 16, false), b = random_layer(48, 16, false),
               odd = random_layer(20, 16, false);
  const RowMatrix m = RowMatrix::pack(std::array{&a, &b});
  const at::Tensor x = at::randn({3, 16}), y = product_of(m, x);
  EXPECT_TRUE(y.narrow(1, 32, 48).equal(product_of(RowMatrix::pack(b), x)));
  EXPECT_THROW(RowMatrix::pack(std::array{&odd, &b}), std::invalid_argument);
}

class RowKernels : public ::testing::TestWithParam<const rows::Kernels*> {
 protected:
  const rows::Kernels& k = *GetParam();
};

TEST_P(RowKernels, ProductsAreThoseOfFloat64) {
  const at::Tensor weights = at::randn({2, 24, 16}), bias = at::randn({32}), x = at::randn({8, 24});
  const at::Tensor out = at::zeros({8, 32});
  const AlignedBuffer<float> room = [&] {
    AlignedBuffer<float> b(static_cast<std::size_t>(weights.numel()));
    std::copy_n(weights.const_data_ptr<float>(), weights.numel(), b.data());
    return b;
  }();
  k.product({room.data(), false, bias.const_data_ptr<float>(), 24, 0, 2, x.const_data_ptr<float>(),
             24, out.data_ptr<float>(), 32, 8});
  const at::Tensor matrix = weights.permute({1, 0, 2}).reshape({24, 32}).to(at::kDouble);
  EXPECT_LT(difference(out, x.to(at::kDouble).mm(matrix) + bias), 1e-6);
}

TEST_P(RowKernels, ActivationsAreThoseOfFloat64) {
  const at::Tensor x = at::cat({at::linspace(-12.0, 12.0, 94), at::full({2}, -200.0F)});
  const at::Tensor silu = x.clone(), gelu = x.clone();
  k.silu(silu.data_ptr<float>(), 96);
  k.gelu(gelu.data_ptr<float>(), 96);
  EXPECT_LT((silu - at::silu(x.to(at::kDouble))).abs().max().item<double>(), 2e-6);
  EXPECT_LT((gelu - at::gelu(x.to(at::kDouble))).abs().max().item<double>(), 2e-6);
}

TEST_P(RowKernels, NormsAreThoseOfFloat64) {
  const at::Tensor x = at::randn({48}) * 3.0 + 1.0, w = at::randn({48}), b = at::randn({48}),
                   shift = at::randn({48}), scale = at::randn({48}), out = at::zeros({48});
  k.norm({x.const_data_ptr<float>(), 48, 1e-6F, w.const_data_ptr<float>(),
          b.const_data_ptr<float>(), shift.const_data_ptr<float>(), scale.const_data_ptr<float>(),
          out.data_ptr<float>()});
  const at::Tensor y =
      at::layer_norm(x.to(at::kDouble), {48}, w.to(at::kDouble), b.to(at::kDouble), 1e-6);
  EXPECT_LT(difference(out, y * (scale + 1.0) + shift), 1e-6);
}

TEST_P(RowKernels, AttentionIsThatOfFloat64) {
  for (const std::int64_t head_dim : {16, 24}) {
    const std::int64_t n = 21, width = 2 * head_dim;
    const at::Tensor q = at::randn({width}) * 3.0, keys = at::randn({n, width}),
                     values = at::randn({n, width}), out = at::zeros({width});
    std::vector<float> scores(32);
    k.attention({q.const_data_ptr<float>(), keys.const_data_ptr<float>(),
                 values.const_data_ptr<float>(), n, 2, head_dim, 0.25F, scores.data(),
                 out.data_ptr<float>()});
    const auto heads = [&](const at::Tensor& x) {
      return x.to(at::kDouble).view({-1, 2, head_dim}).transpose(0, 1);
    };
    const at::Tensor p = at::softmax(0.25 * heads(q).bmm(heads(keys).transpose(1, 2)), -1);
    EXPECT_LT(difference(out, p.bmm(heads(values)).transpose(0, 1).reshape({width})), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, RowKernels, ::testing::ValuesIn(available_kernels()),
                         [](const auto& kind) { return std::string(kind.param->name); });

}  // namespace
}  // namespace forerun
