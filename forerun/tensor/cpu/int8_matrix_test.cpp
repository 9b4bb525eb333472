// The packed product against a plain loop with the same operations one value at a time: equal bit
// for bit for any shape.
#include "forerun/tensor/cpu/int8_matrix.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

class Int8 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
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

std::vector<float> rotated(std::vector<float> x) {
  x.resize(static_cast<std::size_t>(kernel::rotated_width(static_cast<std::int64_t>(x.size()))));
  kernels().rotate_row(x.data(), static_cast<std::int64_t>(x.size()));
  return x;
}

struct Quantised {
  std::vector<int> values;
  float scale;
};

Quantised quantised(const std::vector<float>& x) {
  Quantised out{};
  float most = 0.0F;
  for (const float v : x) most = std::max(most, std::fabs(v));
  out.scale = most / 127.0F;
  const float inverse = most > 1e-30F ? 127.0F / most : 0.0F;
  for (const float v : x) out.values.push_back(static_cast<int>(std::nearbyint(v * inverse)));
  return out;
}

// [rows, n] by the definition, from the rotated rows.
std::vector<float> reference(const std::vector<float>& w, const std::vector<float>& bias,
                             const std::vector<std::vector<float>>& rows, std::int64_t n,
                             std::int64_t k) {
  std::vector<Quantised> weights;
  for (std::int64_t j = 0; j < n; ++j) {
    weights.push_back(quantised(rotated({w.begin() + j * k, w.begin() + (j + 1) * k})));
  }
  std::vector<float> out;
  for (const auto& x : rows) {
    const Quantised q = quantised(rotated(x));
    for (std::size_t j = 0; j < weights.size(); ++j) {
      int dot = 0;
      for (std::size_t i = 0; i < q.values.size(); ++i) dot += q.values[i] * weights[j].values[i];
      out.push_back(std::fma(static_cast<float>(dot), weights[j].scale * q.scale,
                             bias.empty() ? 0.0F : bias[j]));
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
                        Case{96, 128, 9, true}, Case{97, 250, 6, true}, Case{48, 1536, 8, false},
                        Case{576, 576, 16, false}, Case{50, 40, 33, false}}) {
    const auto w = normal(c.n * c.k, 0.1F);
    const auto bias = c.bias ? normal(c.n) : std::vector<float>();
    std::vector<std::vector<float>> rows;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      rows.push_back(normal(c.k));
      if (r == 0) rows[0][0] = 300.0F;
    }
    const Int8Matrix m = Int8Matrix::pack(
        matrix(w, c.n, c.k), c.bias ? at::tensor(bias, at::kFloat) : at::Tensor(), arena);
    Int8Activations activations;
    const auto x = activations.room_for(c.rows, c.k);
    std::vector<float> work(static_cast<std::size_t>(x.width));
    for (std::int64_t r = 0; r < c.rows; ++r) {
      kernels().quantize_row(rows[static_cast<std::size_t>(r)].data(), c.k, x, r, work.data());
    }
    std::vector<float> out(static_cast<std::size_t>(c.rows * c.n), -7.0F);
    for (const int threads : {1, 2}) {
      ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& worker) {
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
  std::vector<float> work(64);
  for (std::int64_t r = 0; r < 2; ++r) {
    kernels().quantize_row(rows[static_cast<std::size_t>(r)].data(), 64, x, r, work.data());
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

// In 4 bits: rows and outputs that do not fill a panel, outputs without groups, biases.
TEST_F(Int8, GroupedProductsAreThoseOfTheGroupsNumbers) {
  struct Case {
    std::int64_t n, k, rows;
    bool bias;
    LevelKind kind = LevelKind::kLinear;
  };
  for (const Case& c :
       {Case{48, 32, 1, false}, Case{50, 64, 2, true}, Case{1, 96, 3, false},
        Case{150, 576, 5, true}, Case{97, 1536, 13, false}, Case{50, 64, 1, true, LevelKind::kE2m1},
        Case{97, 576, 9, false, LevelKind::kE2m1}}) {
    const std::int64_t groups = c.k / 32;
    std::vector<FourBitGroup> all(static_cast<std::size_t>(c.n * groups));
    at::Tensor w = at::zeros({c.n, c.k});
    for (std::int64_t g = 0; g < c.n * groups; ++g) {
      FourBitGroup& group = all[static_cast<std::size_t>(g)];
      group.scale = 0x1p-8F * static_cast<float>(1 + random_() % 100);  // exact in float16
      group.least = -0x1p-7F * static_cast<float>(random_() % 500);
      for (std::size_t i = 0; i < 32; ++i) {
        group.codes[i] = static_cast<std::uint8_t>(random_() % 16);
        if (g / groups == 7) continue;  // of that output none is given
        w.data_ptr<float>()[g * 32 + static_cast<std::int64_t>(i)] =
            group.scale * levels_of(c.kind)[group.codes[i]] + group.least;
      }
    }
    const auto bias = normal(c.n);
    const Int8Matrix m = Int8Matrix::pack_groups(
        c.n, c.k,
        [&](std::int64_t row, std::span<FourBitGroup> out) {
          if (row == 7) return false;
          std::copy_n(all.begin() + row * groups, groups, out.begin());
          return true;
        },
        c.kind, c.bias ? at::tensor(bias, at::kFloat) : at::Tensor(), arena);
    EXPECT_TRUE(m.grouped());
    EXPECT_EQ(m.bytes(), m.panels() * 48 * groups * 20);
    Int8Activations activations;
    const auto x = m.in_form(activations.room_for(c.rows, c.k));
    std::vector<float> work(static_cast<std::size_t>(x.width));
    at::Tensor rounded = at::empty({c.rows, c.k});
    for (std::int64_t r = 0; r < c.rows; ++r) {
      auto row = normal(c.k);
      row[0] = 300.0F;
      kernels().quantize_row(row.data(), c.k, x, r, work.data());
      for (std::int64_t i = 0; i < c.k; ++i) {
        rounded[r][i] = x.values[r * c.k + i] * x.groups[r * groups + i / 32].scale;
      }
    }
    const at::Tensor expected = at::linear(rounded.to(at::kDouble), w.to(at::kDouble),
                                           c.bias ? at::tensor(bias, at::kDouble) : at::Tensor());
    at::Tensor one = at::full({c.rows, c.n}, -7.0F);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      m.multiply(0, m.panels(), kernel::rows_from(x, r), 1, one[r].data_ptr<float>(), c.n, false);
    }
    EXPECT_LT((one - expected).abs().max().item<double>(),
              1e-5 * expected.abs().max().item<double>());
    for (const int threads : {1, 2}) {
      at::Tensor out = at::full({c.rows, c.n}, -7.0F);
      ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& worker) {
        m.multiply(worker, x, c.rows, out.data_ptr<float>(), c.n, false);
      });
      EXPECT_TRUE(at::equal(out, one)) << c.n << " x " << c.k << ", " << threads << " threads";
    }
  }
}

TEST_F(Int8, ZerosAndTinyValuesAreZeroAndNanStaysNan) {
  const Int8Matrix m = Int8Matrix::pack(at::ones({3, 64}), {}, arena);
  Int8Activations activations;
  const auto x = activations.room_for(4, 64);
  std::vector<float> work(64);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> zeros(64, 0.0F), tiny(64, 1e-40F), broken(64, 1.0F), endless(64, 1.0F);
  broken[40] = nan;
  endless[3] = std::numeric_limits<float>::infinity();
  std::int64_t r = 0;
  for (const auto* row : {&zeros, &tiny, &broken, &endless}) {
    kernels().quantize_row(row->data(), 64, x, r++, work.data());
  }
  std::vector<float> out(12);
  m.multiply(0, 1, x, 4, out.data(), 3, false);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(out[i], 0.0F);
  for (std::size_t i = 6; i < 12; ++i) EXPECT_FALSE(std::isfinite(out[i]));
  at::Tensor w = at::ones({2, 64});
  w[1][7] = nan;
  const Int8Matrix bad = Int8Matrix::pack(w, {}, arena);
  std::fill(zeros.begin(), zeros.end(), 1.0F);
  kernels().quantize_row(zeros.data(), 64, x, 0, work.data());
  bad.multiply(0, 1, x, 1, out.data(), 2, false);
  EXPECT_NEAR(out[0], 64.0F, 1.0F);
  EXPECT_TRUE(std::isnan(out[1]));
  w[1][7] = std::numeric_limits<float>::infinity();
  const Int8Matrix endless_weight = Int8Matrix::pack(w, {}, arena);
  endless_weight.multiply(0, 1, x, 1, out.data(), 2, false);
  EXPECT_FALSE(std::isfinite(out[1]));
}

TEST_F(Int8, NormThenQuantiseIsNormAndThenQuantise) {
  const auto x = normal(100), weight = normal(100);
  std::vector<float> normed(100);
  kernels().rms_norm_row(x.data(), weight.data(), 1e-5F, 100, normed.data());
  double square = 0.0;
  for (const float v : x) square += static_cast<double>(v) * v;
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(normed[i], x[i] / std::sqrt(square / 100 + 1e-5) * weight[i], 1e-5);
  }
  Int8Activations one, two;
  const auto a = one.room_for(1, 100), b = two.room_for(1, 100);
  std::vector<float> work(static_cast<std::size_t>(a.width));
  kernels().norm_quantize_row(x.data(), weight.data(), 1e-5F, 100, a, 0, work.data());
  kernels().quantize_row(normed.data(), 100, b, 0, work.data());
  for (std::int64_t i = 0; i < a.width; ++i) EXPECT_EQ(a.values[i], b.values[i]);
  EXPECT_EQ(a.scales[0].scale, b.scales[0].scale);
  EXPECT_EQ(a.scales[0].offset, b.scales[0].offset);
}

TEST_F(Int8, AHadamardRowIsTheProductWithTheMatrix) {
  for (const std::int64_t block : {16, 32, 64, 128, 512, 1024}) {
    const auto x = normal(2 * block);
    std::vector<float> y = x;
    kernels().hadamard_row(y.data(), 2 * block, block);
    for (std::int64_t i = 0; i < 2 * block; ++i) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < block; ++j) {
        const bool minus = __builtin_parityll(static_cast<unsigned long long>(i % block & j)) != 0;
        const double v = x[static_cast<std::size_t>(i / block * block + j)];
        sum += minus ? -v : v;
      }
      ASSERT_NEAR(y[static_cast<std::size_t>(i)], sum, 2e-4) << block << ", " << i;
    }
  }
}

// The rotation keeps products and removes outliers of a row: one value, a few, all of one sign or
// of a regular pattern.
TEST_F(Int8, RotationKeepsProductsAndSpreadsOutliers) {
  for (const std::int64_t n : {16, 48, 64, 208, 576, 960, 1024, 1536, 4864}) {
    const auto size = static_cast<std::size_t>(n);
    const auto noise = normal(n);
    std::vector<std::vector<float>> rows(5, noise);
    rows[1][size / 3] += 100.0F;
    for (const std::size_t i : {size / 9, size / 2, size - 1}) rows[2][i] -= 70.0F;
    for (float& x : rows[3]) x += 3.0F;
    for (std::size_t i = 0; i < size; ++i) rows[4][i] += i % 2 == 0 ? 3.0F : -3.0F;
    const auto rotated_noise = rotated(noise);
    for (const auto& row : rows) {
      const auto m = rotated(row);
      double product = 0.0, expected = 0.0, square = 0.0, most = 0.0;
      for (std::size_t i = 0; i < size; ++i) {
        product += static_cast<double>(m[i]) * rotated_noise[i];
        expected += static_cast<double>(row[i]) * noise[i];
        square += static_cast<double>(m[i]) * m[i];
        most = std::max(most, std::abs(static_cast<double>(m[i])));
      }
      EXPECT_NEAR(product, expected, 1e-5 * static_cast<double>(n) + 1e-4 * std::abs(expected));
      if (n >= 208) {
        EXPECT_LT(most, 5.0 * std::sqrt(square / static_cast<double>(n))) << n;
      }
    }
  }
}

TEST_F(Int8, GatesMatchTheirFormulas) {
  const auto gate = normal(77, 4.0F), up = normal(77);
  std::vector<float> silu(77), gelu(77), clamped(77);
  kernels().clamped_gate_row(gate.data(), up.data(), 1.702F, 1.5F, 77, clamped.data(), false);
  kernels().silu_gate_row(gate.data(), up.data(), 77, silu.data(), false);
  kernels().gelu_gate_row(gate.data(), up.data(), 77, gelu.data(), false);
  for (std::size_t i = 0; i < 77; ++i) {
    const double g = gate[i];
    EXPECT_NEAR(silu[i], g / (1 + std::exp(-g)) * up[i], 1e-5);
    EXPECT_NEAR(gelu[i],
                0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * up[i],
                1e-5);
    const double c = std::min(g, 1.5), u = std::clamp<double>(up[i], -1.5, 1.5);
    EXPECT_NEAR(clamped[i], c / (1 + std::exp(-1.702F * c)) * (u + 1), 1e-5);
  }
}

}  // namespace
}  // namespace forerun
