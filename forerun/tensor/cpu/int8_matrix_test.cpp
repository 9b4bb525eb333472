// The packed product against a plain loop that does the same operations one value at a time: equal
// bit for bit, whatever the shape.
#include "forerun/tensor/cpu/int8_matrix.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

class Int8 : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
  }
  std::mt19937 random_{7};
  Arena arena;

  std::vector<float> normal(std::int64_t n, float scale = 1.0F) {
    std::normal_distribution<float> law(0.0F, scale);
    std::vector<float> out(static_cast<std::size_t>(n));
    for (float& x : out) x = law(random_);
    return out;
  }
};

struct Quantised {
  std::vector<int> values;
  std::vector<float> scales;
};

Quantised quantised(const std::vector<float>& x) {
  Quantised out;
  for (std::size_t g = 0; g < x.size(); g += 32) {
    float most = 0.0F;
    for (std::size_t i = g; i < std::min(g + 32, x.size()); ++i) {
      most = std::max(most, std::fabs(x[i]));
    }
    out.scales.push_back(most < 1e-30F ? 0.0F : most / 127.0F);
    const float inverse = most < 1e-30F ? 0.0F : 127.0F / most;
    for (std::size_t i = g; i < std::min(g + 32, x.size()); ++i) {
      out.values.push_back(static_cast<int>(std::nearbyint(x[i] * inverse)));
    }
  }
  return out;
}

// [rows, n] by the definition.
std::vector<float> reference(const std::vector<float>& w, const std::vector<float>& bias,
                             const std::vector<std::vector<float>>& rows, std::int64_t n,
                             std::int64_t k) {
  std::vector<float> out;
  for (const auto& x : rows) {
    const Quantised q = quantised(x);
    for (std::int64_t j = 0; j < n; ++j) {
      const float* row = w.data() + j * k;
      float most = 0.0F;
      for (std::int64_t i = 0; i < k; ++i) most = std::max(most, std::fabs(row[i]));
      const float inverse = most > 0.0F ? 127.0F / most : 0.0F;
      float sum = 0.0F;
      for (std::int64_t g = 0; g * 32 < k; ++g) {
        int dot = 0;
        for (std::int64_t i = 32 * g; i < std::min<std::int64_t>(32 * g + 32, k); ++i) {
          dot += q.values[static_cast<std::size_t>(i)] *
                 static_cast<int>(std::nearbyint(row[i] * inverse));
        }
        sum = std::fma(static_cast<float>(dot), q.scales[static_cast<std::size_t>(g)], sum);
      }
      out.push_back(std::fma(sum, inverse > 0.0F ? most / 127.0F : 0.0F,
                             bias.empty() ? 0.0F : bias[static_cast<std::size_t>(j)]));
    }
  }
  return out;
}

at::Tensor matrix(const std::vector<float>& w, std::int64_t n, std::int64_t k) {
  return at::tensor(w, at::kFloat).view({n, k});
}

TEST_F(Int8, ProductsEqualThePlainLoopBitForBit) {
  struct Case {
    std::int64_t n, k, rows;
    bool bias;
  };
  for (const Case& c : {Case{48, 32, 1, false}, Case{49, 33, 2, true}, Case{1, 1, 3, false},
                        Case{100, 70, 4, true}, Case{47, 96, 5, false}, Case{150, 64, 7, false},
                        Case{96, 128, 9, true}, Case{576, 576, 16, false}}) {
    const auto w = normal(c.n * c.k, 0.1F);
    const auto bias = c.bias ? normal(c.n) : std::vector<float>();
    std::vector<std::vector<float>> rows;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      rows.push_back(normal(c.k));
      if (r == 0) rows[0][0] = 300.0F;  // an outlier has its group to itself
    }
    const Int8Matrix m = Int8Matrix::pack(
        matrix(w, c.n, c.k), c.bias ? at::tensor(bias, at::kFloat) : at::Tensor(), arena);
    Int8Activations activations;
    const auto x = activations.room_for(c.rows, c.k);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      avx512::quantize_row(rows[static_cast<std::size_t>(r)].data(), c.k, x, r);
    }
    std::vector<float> out(static_cast<std::size_t>(c.rows * c.n), -7.0F);
    for (const int threads : {1, 2}) {
      ThreadTeam::instance().run(threads, 1, [&](ThreadTeam::Worker& worker) {
        m.multiply(worker, x, c.rows, out.data(), c.n, false);
      });
      EXPECT_EQ(out, reference(w, bias, rows, c.n, c.k))
          << c.n << " x " << c.k << ", " << c.rows << " rows, " << threads << " threads";
    }
  }
}

TEST_F(Int8, AddsToWhatIsThereAndTouchesNothingElse) {
  constexpr std::int64_t kN = 50, kStride = 60;
  const auto w = normal(kN * 64, 0.1F);
  const Int8Matrix m = Int8Matrix::pack(matrix(w, kN, 64), {}, arena);
  const std::vector<std::vector<float>> rows = {normal(64), normal(64)};
  Int8Activations activations;
  const auto x = activations.room_for(2, 64);
  for (std::int64_t r = 0; r < 2; ++r) {
    avx512::quantize_row(rows[static_cast<std::size_t>(r)].data(), 64, x, r);
  }
  std::vector<float> out(2 * kStride, 5.0F);
  m.multiply(0, m.panels(), x, 2, out.data(), kStride, true);
  const auto expected = reference(w, {}, rows, kN, 64);
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t j = 0; j < kStride; ++j) {
      EXPECT_EQ(out[r * kStride + j], j < kN ? 5.0F + expected[r * kN + j] : 5.0F);
    }
  }
}

TEST_F(Int8, ZerosAndTinyValuesAreZeroAndNanStaysNan) {
  const Int8Matrix m = Int8Matrix::pack(at::ones({3, 64}), {}, arena);
  Int8Activations activations;
  const auto x = activations.room_for(4, 64);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> zeros(64, 0.0F), tiny(64, 1e-40F), broken(64, 1.0F), endless(64, 1.0F);
  broken[40] = nan;
  endless[3] = std::numeric_limits<float>::infinity();
  std::int64_t r = 0;
  for (const auto* row : {&zeros, &tiny, &broken, &endless}) {
    avx512::quantize_row(row->data(), 64, x, r++);
  }
  std::vector<float> out(12);
  m.multiply(0, 1, x, 4, out.data(), 3, false);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(out[i], 0.0F);
  for (std::size_t i = 6; i < 12; ++i) EXPECT_FALSE(std::isfinite(out[i]));
  at::Tensor w = at::ones({2, 64});
  w[1][7] = nan;
  const Int8Matrix bad = Int8Matrix::pack(w, {}, arena);
  std::fill(zeros.begin(), zeros.end(), 1.0F);
  avx512::quantize_row(zeros.data(), 64, x, 0);
  bad.multiply(0, 1, x, 1, out.data(), 2, false);
  EXPECT_NEAR(out[0], 64.0F, 1e-3F);
  EXPECT_TRUE(std::isnan(out[1]));
  w[1][7] = std::numeric_limits<float>::infinity();
  const Int8Matrix endless_weight = Int8Matrix::pack(w, {}, arena);
  endless_weight.multiply(0, 1, x, 1, out.data(), 2, false);
  EXPECT_FALSE(std::isfinite(out[1]));
}

TEST_F(Int8, NormThenQuantiseIsNormAndThenQuantise) {
  const auto x = normal(100), weight = normal(100);
  std::vector<float> normed(100);
  avx512::rms_norm_row(x.data(), weight.data(), 1e-5F, 100, normed.data());
  double square = 0.0;
  for (const float v : x) square += static_cast<double>(v) * v;
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(normed[i], x[i] / std::sqrt(square / 100 + 1e-5) * weight[i], 1e-5);
  }
  Int8Activations one, two;
  const auto a = one.room_for(1, 100), b = two.room_for(1, 100);
  avx512::norm_quantize_row(x.data(), weight.data(), 1e-5F, 100, a, 0);
  avx512::quantize_row(normed.data(), 100, b, 0);
  for (std::int64_t i = 0; i < 128; ++i) EXPECT_EQ(a.values[i], b.values[i]);
  for (std::int64_t g = 0; g < 4; ++g) EXPECT_EQ(a.scales[g], b.scales[g]);
}

TEST_F(Int8, GatesMatchTheirFormulas) {
  const auto gate = normal(77, 4.0F), up = normal(77);
  std::vector<float> silu(77), gelu(77);
  avx512::silu_gate_row(gate.data(), up.data(), 77, silu.data());
  avx512::gelu_gate_row(gate.data(), up.data(), 77, gelu.data());
  for (std::size_t i = 0; i < 77; ++i) {
    const double g = gate[i];
    EXPECT_NEAR(silu[i], g / (1 + std::exp(-g)) * up[i], 1e-5);
    EXPECT_NEAR(gelu[i],
                0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * up[i],
                1e-5);
  }
}

}  // namespace
}  // namespace forerun
