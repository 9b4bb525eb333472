// Loops of recurrent layers against loops in float64, of sizes that leave parts of vectors over.
#include "forerun/tensor/recurrent_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace forerun {
namespace {

using Floats = std::vector<float>;
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

Floats random_floats(std::mt19937& random, std::int64_t n, float scale = 1.0F) {
  std::normal_distribution<float> law(0.0F, scale);
  Floats out(static_cast<std::size_t>(n));
  for (float& x : out) x = law(random);
  return out;
}

void expect_near(float got, double want, double size, const char* what) {
  ASSERT_NEAR(got, want, 2e-6 * size + 1e-30) << what;
}

// Where a matrix [keys, values] has row i, column j: blocks of 32 columns, then one of 16.
std::size_t place(std::int64_t keys, std::int64_t values, std::int64_t i, std::int64_t j) {
  const std::int64_t first = j / 32 * 32, width = std::min<std::int64_t>(32, values - first);
  return static_cast<std::size_t>(first * keys + i * width + j - first);
}

struct StepParts {
  std::int64_t keys, values;
  Floats matrix, key, delta, own_key, query;
  float decay;

  StepParts(std::mt19937& random, std::int64_t k, std::int64_t v)
      : keys(k),
        values(v),
        matrix(random_floats(random, k * v)),
        key(random_floats(random, k)),
        delta(random_floats(random, v)),
        own_key(random_floats(random, k)),
        query(random_floats(random, k)),
        decay(std::uniform_real_distribution<float>(0.1F, 1.0F)(random)) {}

  struct Result {
    Floats to, by_key, by_query;
    bool operator==(const Result&) const = default;
  };
  enum class To { kOther, kSame, kNone };
  Result run(bool adds, bool reads, To to) const {
    // A guard behind each result: nothing is written there.
    Result r{matrix, Floats(static_cast<std::size_t>(values + 1), kPoison),
             Floats(static_cast<std::size_t>(values + 1), kPoison)};
    r.to.push_back(7.0F);
    Floats other(r.to.size(), kPoison);
    other.back() = 7.0F;
    recurrent::Step s{};
    s.from = r.to.data();
    s.to = to == To::kNone ? nullptr : to == To::kSame ? r.to.data() : other.data();
    s.keys = keys;
    s.values = values;
    if (adds) {
      s.key = key.data();
      s.delta = delta.data();
      s.decay = decay;
    }
    if (reads) {
      s.own_key = own_key.data();
      s.query = query.data();
      s.by_key = r.by_key.data();
      s.by_query = r.by_query.data();
    }
    recurrent::step(s);
    if (to != To::kSame) {
      EXPECT_TRUE(std::equal(matrix.begin(), matrix.end(), r.to.begin())) << "`from` has changed";
    }
    if (to == To::kOther) r.to = other;
    EXPECT_EQ(r.to.back(), 7.0F);
    EXPECT_TRUE(std::isnan(r.by_key.back()) && std::isnan(r.by_query.back()));
    r.to.pop_back();
    r.by_key.pop_back();
    r.by_query.pop_back();
    return r;
  }
};

TEST(RecurrentMath, AStepIsThatOfLoopsInFloat64) {
  std::mt19937 random(1);
  for (const std::int64_t keys : {1, 2, 7, 8, 16, 31, 64, 128}) {
    for (const std::int64_t values : {16, 32, 48, 64, 80, 112, 128}) {
      const StepParts p(random, keys, values);
      for (const bool adds : {false, true}) {
        const StepParts::Result r = p.run(adds, true, StepParts::To::kOther);
        for (std::int64_t j = 0; j < values; ++j) {
          const auto column = static_cast<std::size_t>(j);
          double by_key = 0.0, by_query = 0.0, size = 0.0;
          for (std::int64_t i = 0; i < keys; ++i) {
            const auto row = static_cast<std::size_t>(i);
            const std::size_t at = place(keys, values, i, j);
            double x = p.matrix[at];
            if (adds) x = double{p.decay} * x + double{p.key[row]} * p.delta[column];
            expect_near(r.to[at], x, 10.0, "matrix");
            by_key += x * p.own_key[row];
            by_query += x * p.query[row];
            size += std::abs(x) * (std::abs(p.own_key[row]) + std::abs(p.query[row])) + 1.0;
          }
          expect_near(r.by_key[column], by_key, size, "by key");
          expect_near(r.by_query[column], by_query, size, "by query");
        }
      }
    }
  }
}

// Whatever the parts of a step that there are, in place or not, and for any number of columns.
TEST(RecurrentMath, PartsOfAStepHaveTheBitsOfAllOfIt) {
  using To = StepParts::To;
  std::mt19937 random(2);
  for (const std::int64_t keys : {1, 3, 16, 33}) {
    for (const std::int64_t values : {16, 32, 48, 96}) {
      const StepParts p(random, keys, values);
      for (const bool adds : {false, true}) {
        const StepParts::Result whole = p.run(adds, true, To::kOther);
        EXPECT_EQ(p.run(adds, true, To::kSame), whole);
        const StepParts::Result unkept = p.run(adds, true, To::kNone);
        EXPECT_EQ(unkept.by_key, whole.by_key);
        EXPECT_EQ(unkept.by_query, whole.by_query);
        EXPECT_EQ(p.run(adds, false, To::kOther).to, whole.to);
        EXPECT_EQ(p.run(adds, false, To::kSame).to, whole.to);
      }
      // A matrix that is stored, then read, gives what both at once give.
      StepParts later = p;
      later.matrix = p.run(true, false, To::kOther).to;
      const StepParts::Result whole = p.run(true, true, To::kOther);
      EXPECT_EQ(later.run(false, true, To::kNone).by_key, whole.by_key);
      EXPECT_EQ(later.run(false, true, To::kNone).by_query, whole.by_query);
      // Columns do not depend on those beside them.
      StepParts first(random, keys, 16);
      first.key = p.key;
      first.own_key = p.own_key;
      first.query = p.query;
      first.decay = p.decay;
      std::copy_n(p.delta.begin(), 16, first.delta.begin());
      for (std::int64_t i = 0; i < keys; ++i) {
        for (std::int64_t j = 0; j < 16; ++j) {
          first.matrix[place(keys, 16, i, j)] = p.matrix[place(keys, values, i, j)];
        }
      }
      const StepParts::Result some = first.run(true, true, To::kOther);
      EXPECT_TRUE(std::equal(some.by_key.begin(), some.by_key.end(), whole.by_key.begin()));
      EXPECT_TRUE(std::equal(some.by_query.begin(), some.by_query.end(), whole.by_query.begin()));
    }
  }
}

TEST(RecurrentMath, DotsAndUnitLengths) {
  std::mt19937 random(3);
  for (const std::int64_t n : {1, 5, 15, 16, 17, 40, 64, 129}) {
    Floats a = random_floats(random, n), b = random_floats(random, n);
    double dot = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      dot += double{a[i]} * b[i];
      squares += double{a[i]} * a[i];
    }
    expect_near(recurrent::dot(a.data(), b.data(), n), dot, static_cast<double>(n), "dot");
    const Floats before = a;
    a.push_back(3.0F);
    recurrent::unit_length(a.data(), n, 0.25F, 0.5F);
    for (std::size_t i = 0; i < before.size(); ++i) {
      expect_near(a[i], 0.5 * before[i] / std::sqrt(squares + 0.25), 1.0, "unit length");
    }
    EXPECT_EQ(a.back(), 3.0F);
  }
  Floats zero(5, 0.0F);
  recurrent::unit_length(zero.data(), 5, 1e-6F, 1.0F);
  EXPECT_EQ(zero, Floats(5, 0.0F));
}

TEST(RecurrentMath, ConvolutionsHaveTheirTapsInOrder) {
  std::mt19937 random(4);
  for (const std::int64_t n : {1, 15, 16, 33, 100}) {
    for (std::int64_t taps = 1; taps <= 5; ++taps) {
      const std::int64_t stride = n + 3;
      const Floats weights = random_floats(random, taps * stride), base = random_floats(random, n);
      std::vector<Floats> rows;
      std::vector<const float*> inputs;
      for (std::int64_t t = 0; t < taps; ++t) rows.push_back(random_floats(random, n));
      for (const Floats& row : rows) inputs.push_back(row.data());
      for (const bool based : {false, true}) {
        Floats out(static_cast<std::size_t>(n + 1), kPoison);
        recurrent::convolve(inputs.data(), weights.data(), stride, taps,
                            based ? base.data() : nullptr, n, out.data());
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
          double want = based ? base[i] : 0.0;
          for (std::size_t t = 0; t < rows.size(); ++t) {
            want += double{weights[t * static_cast<std::size_t>(stride) + i]} * rows[t][i];
          }
          expect_near(out[i], want, 20.0, "convolution");
        }
        EXPECT_TRUE(std::isnan(out.back()));
      }
    }
  }
}

TEST(RecurrentMath, GatesOfAnySize) {
  std::mt19937 random(5);
  for (const std::int64_t n : {1, 15, 16, 17, 90}) {
    Floats x = random_floats(random, n, 5.0F), gate = random_floats(random, n, 5.0F);
    x[0] = -200.0F;  // whose exponential has no float32
    gate.back() = -200.0F;
    const auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
    Floats product(x.size()), soft = x, gated = x;
    recurrent::multiply(x.data(), gate.data(), n, product.data());
    recurrent::silu(soft.data(), n);
    recurrent::sigmoid_gate(gate.data(), n, gated.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(product[i], x[i] * gate[i]);
      expect_near(soft[i], x[i] * sigmoid(x[i]), std::abs(x[i]) + 1.0, "silu");
      expect_near(gated[i], x[i] * sigmoid(gate[i]), std::abs(x[i]) + 1.0, "gate");
    }
    Floats in_place = x;
    recurrent::multiply(in_place.data(), gate.data(), n, in_place.data());
    EXPECT_EQ(in_place, product);
  }
}

TEST(RecurrentMath, WhatARowChangesAndReads) {
  std::mt19937 random(6);
  for (const std::int64_t n : {1, 16, 31, 80}) {
    const Floats value = random_floats(random, n), by_key = random_floats(random, n),
                 by_query = random_floats(random, n);
    Floats delta(value.size()), out = value;
    const float beta = 0.3F, decay = 0.7F, along = -1.4F;
    recurrent::Change c{value.data(), by_key.data(), by_query.data(), beta,
                        decay,        along,         delta.data(),    out.data()};
    recurrent::change(c, n);
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double changed = double{beta} * (value[i] - double{decay} * by_key[i]);
      expect_near(delta[i], changed, 5.0, "delta");
      expect_near(out[i], double{decay} * by_query[i] + double{along} * changed, 10.0, "out");
    }
    Floats same = value, again(value.size());
    c.value = c.out = same.data();
    c.delta = again.data();
    recurrent::change(c, n);
    EXPECT_EQ(same, out);
    EXPECT_EQ(again, delta);
  }
}

}  // namespace
}  // namespace forerun
