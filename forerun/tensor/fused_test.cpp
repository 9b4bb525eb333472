// Fused forward and backward against the same written with ATen's operations and its autograd.
#include "forerun/tensor/fused.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "forerun/tensor/internal/row_math_loops.h"
#include "forerun/tensor/internal/rows.h"

namespace forerun {
namespace {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Tensors&)>;

at::Tensor wide(const at::Tensor& x) { return x.to(at::kDouble); }

// Result and gradients of sum(f(inputs) * direction).
Tensors with_gradients(const Function& f, const Tensors& inputs) {
  Tensors leaves;
  for (const at::Tensor& x : inputs) leaves.push_back(x.detach().clone().requires_grad_(true));
  const at::Tensor out = f(leaves);
  at::manual_seed(9);
  (wide(out) * at::randn(out.sizes(), at::kDouble)).sum().backward();
  Tensors all = {wide(out.detach())};
  for (const at::Tensor& x : leaves) all.push_back(wide(x.grad()));
  return all;
}

// Largest difference of result and gradients, each relative to the largest of it.
double difference(const Function& fused, const Function& plain, const Tensors& inputs) {
  Tensors exact;
  for (const at::Tensor& x : inputs) exact.push_back(wide(x));
  const Tensors a = with_gradients(fused, inputs), b = with_gradients(plain, exact);
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, ((a[i] - b[i]).abs().max() / b[i].abs().max()).item<double>());
  }
  return most;
}

struct Kind {
  at::ScalarType type;
  double bound;  // bfloat16: one rounding of the result, one of each gradient
};

class Fused : public ::testing::TestWithParam<Kind> {
 protected:
  at::Tensor random(at::IntArrayRef shape, double size = 1.0) const {
    return (at::randn(shape, at::kDouble) * size).to(GetParam().type);
  }
  // Weights are wider than bfloat16.
  at::Tensor weight(std::int64_t n) const {
    const auto type = GetParam().type == at::kDouble ? at::kDouble : at::kFloat;
    return (at::randn({n}, at::kDouble) * 0.3 + 1.0).to(type);
  }
  void SetUp() override { at::manual_seed(3); }
};

at::Tensor plain_norm(const at::Tensor& x, const at::Tensor& w, double eps) {
  return x * at::rsqrt(x.square().mean(-1, true) + eps) * w;
}

TEST_P(Fused, RmsNorm) {  // 600 rows: several chunks; 43: no multiple of a vector
  const auto type = GetParam().type;
  const Tensors inputs = {random({600, 43}), weight(43)};
  const auto fused = [&](const Tensors& in) { return fused_rms_norm(in[0], in[1], 1e-3, type); };
  const auto plain = [](const Tensors& in) { return plain_norm(in[0], in[1], 1e-3); };
  EXPECT_LT(difference(fused, plain, inputs), GetParam().bound);
}

TEST_P(Fused, RmsNormIntoBfloat16) {
  if (GetParam().type != at::kFloat) return;
  const Tensors inputs = {random({5, 3, 20}), weight(20)};
  const auto fused = [](const Tensors& in) {
    return fused_rms_norm(in[0], in[1], 1e-6, at::kBFloat16);
  };
  const auto plain = [](const Tensors& in) { return plain_norm(in[0], in[1], 1e-6); };
  EXPECT_LT(difference(fused, plain, inputs), 1e-2);
}

TEST_P(Fused, NormAndRotate) {
  const std::int64_t rows = 300, heads = 3, dim = 14, half = dim / 2;
  const auto type = GetParam().type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor angle = at::randn({rows, 1, half}, at::kDouble);
  const at::Tensor cos = angle.cos().to(type), sin = angle.sin().to(type);
  const Tensors inputs = {random({rows, heads * dim}), weight(dim)};
  const auto fused = [&](const Tensors& in) {
    return fused_norm_rotate(in[0], in[1], 1e-6, cos, sin);
  };
  const auto plain = [&](const Tensors& in) {
    const at::Tensor n = plain_norm(in[0].view({rows, heads, dim}), in[1], 1e-6);
    const at::Tensor a = n.narrow(-1, 0, half), b = n.narrow(-1, half, half);
    return at::cat({a * wide(cos) - b * wide(sin), b * wide(cos) + a * wide(sin)}, -1);
  };
  EXPECT_LT(difference(fused, plain, inputs), GetParam().bound);
}

TEST_P(Fused, SwiGlu) {
  const Tensors inputs = {random({37, 71}, 4.0), random({37, 71})};
  const auto fused = [](const Tensors& in) { return fused_swiglu(in[0], in[1]); };
  const auto plain = [](const Tensors& in) { return at::silu(in[0]) * in[1]; };
  EXPECT_LT(difference(fused, plain, inputs), GetParam().bound);
}

TEST_P(Fused, Gelu) {
  const Tensors inputs = {random({37, 71}, 4.0)};
  const auto fused = [](const Tensors& in) { return fused_gelu(in[0]); };
  const auto plain = [](const Tensors& in) { return at::gelu(in[0], "tanh"); };
  EXPECT_LT(difference(fused, plain, inputs), GetParam().bound);
}

// The path of other devices gives the same; float16 has no kernel here.
TEST_P(Fused, TheFallbackIsTheSameFunction) {
  if (GetParam().type != at::kFloat) return;
  const at::Tensor x = random({4, 12}).to(at::kHalf), w = weight(6).to(at::kHalf);
  const at::Tensor angle = at::randn({4, 1, 3});
  const at::Tensor other = fused_norm_rotate(x, w, 1e-6, angle.cos(), angle.sin()).to(at::kFloat);
  const at::Tensor kernel =
      fused_norm_rotate(x.to(at::kFloat), w.to(at::kFloat), 1e-6, angle.cos(), angle.sin());
  EXPECT_LT((other - kernel).abs().max().item<double>(), 5e-3);
}

INSTANTIATE_TEST_SUITE_P(Types, Fused,
                         ::testing::Values(Kind{at::kDouble, 1e-13}, Kind{at::kFloat, 2e-6},
                                           Kind{at::kBFloat16, 1e-2}),
                         [](const auto& kind) {
                           return std::string(at::toString(kind.param.type));
                         });

TEST(Fused, ExpIsAccurateAndKeepsWhatIsNoNumber) {
  double most = 0.0;
  for (float x = -87.0f; x < 88.0f; x += 0.00917f) {
    const double exact = std::exp(static_cast<double>(x));
    most = std::max(most, std::abs(internal::loops::exp_of(x) - exact) / exact);
  }
  EXPECT_LT(most, 3e-7);
  EXPECT_EQ(internal::loops::exp_of(0.0f), 1.0f);
  EXPECT_EQ(internal::loops::exp_of(-200.0f), 0.0f);
  EXPECT_EQ(internal::loops::exp_of(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_TRUE(std::isinf(internal::loops::exp_of(200.0f)));
  EXPECT_TRUE(std::isnan(internal::loops::exp_of(std::numeric_limits<float>::quiet_NaN())));
}

// The library's loops are compiled for this machine's vectors, those here for any x86-64.
TEST(Fused, RowLoopsHaveTheSameBitsOnEveryProcessor) {
  at::manual_seed(9);
#define FORERUN_SAME(call)                                                                    \
  {                                                                                           \
    const at::Tensor library = at::randn({5, n}) * 3.0, here = library.clone();               \
    for (const at::Tensor& rows : {library, here}) {                                          \
      float* const x = rows.mutable_data_ptr<float>();                                        \
      float *const y = x + n, *const w = y + n, *const a = w + n, *const b = a + n;           \
      static_cast<void>(y), static_cast<void>(w), static_cast<void>(a), static_cast<void>(b); \
      if (rows.is_same(here)) {                                                               \
        internal::loops::call;                                                                \
      } else {                                                                                \
        internal::call;                                                                       \
      }                                                                                       \
    }                                                                                         \
    EXPECT_TRUE(at::equal(library, here)) << #call << ", n = " << n;                          \
  }
  for (const std::int64_t n : {1, 15, 64, 1031}) {
    FORERUN_SAME(rms_norm(x, w, n, 1e-6))
    FORERUN_SAME(rms_norm_backward(x, w, n, 1e-6, y, a))
    FORERUN_SAME(rotate(x, w, y, n / 2, -1.0f))
    FORERUN_SAME(swiglu(x, y, n))
    FORERUN_SAME(swiglu_backward(x, y, a, n))
    FORERUN_SAME(gelu(x, n))
    FORERUN_SAME(gelu_backward(x, y, n))
    FORERUN_SAME(softmax(x, n, 0.3f))
    FORERUN_SAME(softmax_backward(x, y, n, 0.3f))
    FORERUN_SAME(norm_modulate(x, w, y, n, 1e-6))
    FORERUN_SAME(norm_modulate_backward(x, w, n, 1e-6, y, a, b))
    FORERUN_SAME(gated_sum(x, w, y, n))
    FORERUN_SAME(gated_sum_backward(x, w, y, n, a))
    FORERUN_SAME(cross_entropy(x, w, n, 0.9f, n / 2, 0.5f, 0.4f, false))
    FORERUN_SAME(cross_entropy(x, w, n, 0.9f, n / 2, 0.5f, 0.4f, true))
  }
#undef FORERUN_SAME
}

TEST(Fused, GradientsDoNotDependOnThreads) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({3000, 48});
  const auto gradient = [&](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    at::Tensor w = at::ones({48}).requires_grad_(true);
    fused_rms_norm(x, w, 1e-6, at::kFloat).square().sum().backward();
    at::set_num_threads(before);
    return w.grad();
  };
  EXPECT_TRUE(at::equal(gradient(1), gradient(3)));
}

}  // namespace
}  // namespace forerun
