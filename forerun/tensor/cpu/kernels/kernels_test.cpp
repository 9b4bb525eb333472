// Every kind of kernels that this processor runs against the definition: the shared code over plain
// loops, and products as plain sums. Equal to the definition, the kinds are equal to each other, so
// a text does not depend on the processor. Bit for bit, but for what kind of NaN a NaN is.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "forerun/tensor/cpu/int8_matrix.h"
#include "forerun/tensor/cpu/kernels/kernels_fixture.h"
#include "forerun/tensor/cpu/kernels/scalar_products.h"

namespace forerun {
namespace {

using kernel::kKeys;
using kernel::kPanel;

class KernelsTest : public KernelsFixture {
 protected:
  void compare_far();
  void compare_int8_panels();
  void compare_keys_and_values();
};

constexpr int kTrials = 300;

TEST_F(KernelsTest, RowsInPlace) {
  for (int t = 0; t < kTrials; ++t) {
    const std::int64_t n = up_to(90);
    const bool odd = t % 3 == 0;
    const Row a = numbers(2 * n, odd), b = numbers(n, odd), c = numbers(n, odd);
    const std::string what = std::to_string(n) + " values";
    const auto row = [&](const char* name, const std::function<void(const Kernels&, Row&)>& call) {
      compare(a, call, name + (", " + what));
    };
    row("rms_norm_row",
        [&](const Kernels& k, Row& x) { k.rms_norm_row(x.data(), b.data(), 1e-5F, n, x.data()); });
    const Row in = numbers(3 * n, odd);
    row("dot_rows", [&](const Kernels& k, Row& x) {
      const std::int64_t rows = n % 4;
      Row out(static_cast<std::size_t>(2 * rows + 1), 7.0F);
      k.dot_rows(x.data(), 2, n, in.data(), rows, out.data(), 2);
      x = out;
    });
    row("add_row", [&](const Kernels& k, Row& x) { k.add_row(b.data(), n, x.data()); });
    row("scale_row", [&](const Kernels& k, Row& x) { k.scale_row(x.data(), n, 0.37F); });
    row("rope_row",
        [&](const Kernels& k, Row& x) { k.rope_row(x.data(), b.data(), c.data(), n, x.data()); });
    row("silu_gate_row", [&](const Kernels& k, Row& x) {
      k.silu_gate_row(b.data(), c.data(), n, x.data(), n % 2 == 0);
    });
    row("gelu_gate_row", [&](const Kernels& k, Row& x) {
      k.gelu_gate_row(b.data(), c.data(), n, x.data(), n % 2 == 0);
    });
    row("clamped_gate_row", [&](const Kernels& k, Row& x) {
      k.clamped_gate_row(b.data(), c.data(), 1.702F, 1.5F, n, x.data(), n % 2 == 0);
    });
    row("add_gated_row",
        [&](const Kernels& k, Row& x) { k.add_gated_row(b.data(), c.data(), n, x.data()); });
    row("merge_softmax", [&](const Kernels& k, Row& x) {
      kernel::SoftmaxPart total{b[0], 2.0F};
      k.merge_softmax(x.data(), &total, c.data(), {c[0], 3.0F}, n);
      x.push_back(total.max);
      x.push_back(total.sum);
    });
    row("merge_softmax of nothing", [&](const Kernels& k, Row& x) {
      kernel::SoftmaxPart total{-INFINITY, 0.0F};
      k.merge_softmax(x.data(), &total, c.data(), {c[0], 3.0F}, n);
      x.push_back(total.max);
    });
  }
}

TEST_F(KernelsTest, Rotations) {
  for (int t = 0; t < kTrials; ++t) {
    const std::int64_t block = 16LL << (t % 7), n = block * up_to(3), k = up_to(700);
    const Row a = numbers(n, t % 3 == 0), b = numbers(k, false);
    compare(
        a, [&](const Kernels& kind, Row& x) { kind.hadamard_row(x.data(), n, block); },
        "hadamard_row");
    compare(
        a, [&](const Kernels& kind, Row& x) { kind.rotate_row(x.data(), n); }, "rotate_row");
    for (const bool norm : {false, true}) {
      compare(
          numbers(k, t % 5 == 0),
          [&](const Kernels& kind, Row& x) {
            const std::int64_t width = kernel::rotated_width(k);
            std::vector<std::int8_t> values(static_cast<std::size_t>(width));
            Row work(static_cast<std::size_t>(width));
            kernel::RowScale scale{};
            std::vector<std::int16_t> halves(static_cast<std::size_t>(width));
            const kernel::Int8Rows rows{values.data(), &scale, width,
                                        t % 2 == 0 ? halves.data() : nullptr};
            if (norm) {
              kind.norm_quantize_row(x.data(), b.data(), 1e-6F, k, rows, 0, work.data());
            } else {
              kind.quantize_row(x.data(), k, rows, 0, work.data());
            }
            append(x, values);
            x.push_back(scale.scale);
            x.push_back(static_cast<float>(scale.offset));
            append(x, halves);
            append(x, work);
          },
          "quantize_row");
    }
  }
}

TEST_F(KernelsTest, RoundingToInt8) {
  for (int t = 0; t < kTrials; ++t) {
    const std::int64_t n = up_to(90);
    Row row = numbers(n, t % 4 == 0);
    if (t % 10 == 0) std::fill(row.begin(), row.end(), t % 20 == 0 ? 0.0F : 1e-38F);
    compare(
        row,
        [&](const Kernels& kind, Row& x) {
          std::vector<std::int8_t> values(static_cast<std::size_t>(n + 20), 99);
          const kernel::Rounded r = kind.round_to_int8(x.data(), n, values.data());
          x.push_back(r.scale);
          x.push_back(static_cast<float>(r.sum));
          append(x, values);
        },
        std::to_string(n) + " values");
  }
}

// Their parts, with plain loops: sums of one order, one rounding each.
kernel::Rounded rounded_in_parts(std::vector<float> x, std::int64_t n, std::int8_t* values) {
  scalar::kKernels.hadamard_row(x.data(), n, n);
  return scalar::kKernels.round_to_int8(x.data(), n, values);
}

TEST_F(KernelsTest, HeadsAreRoundedAndTurnedBackAsInParts) {
  constexpr std::size_t kGuard = 20;
  for (int t = 0; t < kTrials; ++t) {
    const std::int64_t n = std::int64_t{16} << (t % 5);
    const auto size = static_cast<std::size_t>(n);
    const float by = t % 9 == 0 ? INFINITY : t % 11 == 0 ? NAN : numbers(1, false)[0];
    Row row = numbers(n, t % 4 == 0);
    if (t % 7 == 0) std::fill(row.begin(), row.end(), t % 14 == 0 ? 0.0F : 1e-38F);
    const Row before = row;
    std::vector<std::int8_t> expected(size + kGuard, 99);
    const kernel::Rounded in_parts = rounded_in_parts(row, n, expected.data());
    Row turned = row;
    scalar::kKernels.hadamard_row(turned.data(), n, n);
    scalar::kKernels.scale_row(turned.data(), n, by);
    turned.resize(size + kGuard, 7.0F);
    for (const Kernels& kind : kinds_) {
      std::vector<std::int8_t> values(size + kGuard, 99);
      const kernel::Rounded at_once = kind.round_head(row.data(), n, values.data());
      EXPECT_EQ(difference({at_once.scale}, {in_parts.scale}), 1U) << kind.name << ", " << n;
      EXPECT_EQ(at_once.sum, in_parts.sum) << kind.name << ", " << n;
      EXPECT_EQ(values, expected) << kind.name << ", " << n;
      Row got(size + kGuard, 7.0F);
      kind.turn_head_back(row.data(), n, by, got.data());
      EXPECT_EQ(difference(got, turned), turned.size()) << kind.name << ", " << n;
      EXPECT_EQ(difference(row, before), size) << kind.name << ", " << n;
    }
  }
}

TEST_F(KernelsTest, RowsInBf16) {
  for (int t = 0; t < kTrials; ++t) {
    const std::int64_t n = up_to(90);
    const Row a = numbers(n, t % 3 == 0), b = numbers(n, false), c = numbers(n, t % 3 == 1);
    const auto words = [&](const char* name,
                           const std::function<void(const Kernels&, std::uint16_t*)>& call) {
      compare(
          {},
          [&](const Kernels& kind, Row& x) {
            std::vector<std::uint16_t> y(static_cast<std::size_t>(2 * n + 40), 7);
            call(kind, y.data());
            append(x, y);
          },
          name);
    };
    words("round_to_bf16",
          [&](const Kernels& k, std::uint16_t* y) { k.round_to_bf16(a.data(), n, 1.7F, y); });
    words("gelu_row", [&](const Kernels& k, std::uint16_t* y) { k.gelu_row(a.data(), n, y); });
    words("pair_rows",
          [&](const Kernels& k, std::uint16_t* y) { k.pair_rows(a.data(), c.data(), n, y); });
    words("layer_norm_modulate_row", [&](const Kernels& k, std::uint16_t* y) {
      k.layer_norm_modulate_row(a.data(), b.data(), c.data(), 1e-6F, n, y);
    });
    const std::int64_t whole = (n + 15) / 16 * 16;
    Row scores = numbers(whole, t % 3 == 0);
    if (t % 10 == 0) std::fill(scores.begin(), scores.end(), -INFINITY);
    compare(
        scores,
        [&](const Kernels& kind, Row& x) {
          std::vector<std::uint16_t> y(static_cast<std::size_t>(whole));
          const kernel::SoftmaxPart part = kind.exp_row(x.data(), whole, y.data());
          append(x, y);
          append(x, std::vector<float>{part.max, part.sum});
        },
        "exp_row");
    const auto encoded = bytes<std::uint16_t>(n, 0, 65535);
    compare(
        Row(static_cast<std::size_t>(n + 20), 5.0F),
        [&](const Kernels& kind, Row& x) { kind.widen_bf16(encoded.data(), n, 0.3F, x.data()); },
        "widen_bf16");
  }
}

TEST_F(KernelsTest, WeightsOfASoftmax) {
  for (int t = 0; t < 4 * kTrials; ++t) {
    const std::int64_t n = 16 * up_to(16);
    std::int64_t begin = t % 2 == 0 ? 0 : up_to(n) - 1, end = up_to(n);
    if (t % 17 != 0) end = std::max(begin, end);
    Row scores = numbers(256, t % 5 == 0), scales = numbers(256, false);
    for (float& x : scales) x = std::fabs(x);
    if (t % 13 == 0) scales[static_cast<std::size_t>(begin)] = NAN;
    if (t % 11 == 0) std::fill(scores.begin(), scores.end(), -INFINITY);
    if (t % 23 == 0) std::fill(scales.begin(), scales.end(), 0.0F);
    compare(
        scores,
        [&](const Kernels& kind, Row& x) {
          std::vector<std::uint8_t> weights(static_cast<std::size_t>(n + 8), 3);
          float unit = -1.0F;
          const kernel::SoftmaxPart part =
              kind.weigh_row(x.data(), 0.2F, scales.data(), {begin, end}, n, weights.data(), &unit);
          append(x, weights);
          append(x, std::vector<float>{unit, part.max, part.sum});
        },
        std::to_string(begin) + " to " + std::to_string(end) + " of " + std::to_string(n));
  }
}

// Some rows of the largest and smallest values: sums of two products that do not fit 16 bits.
void KernelsTest::compare_int8_panels() {
  for (const bool extreme : {false, true}) {
    for (std::int64_t rows = 1; rows <= 35; ++rows) {
      // Wider ones are more than what is fetched ahead.
      const std::int64_t width = rows % 3 == 0   ? 16 * up_to(8)
                                 : rows % 3 == 1 ? 64 * up_to(3)
                                                 : 16 * up_to(40);
      const std::int64_t outputs = up_to(kPanel), stride = 60;
      auto values = bytes<std::int8_t>(rows * width, -127, 127);
      auto data = bytes<std::uint8_t>(2 * kPanel * width + 64, 1, 255);
      if (extreme) {
        for (auto& x : values) x = static_cast<std::int8_t>(x < 0 ? -127 : 127);
        for (auto& x : data) x = x % 4 == 0 ? 1 : 255;
      }
      Row scales = numbers(2 * kPanel, false), bias = numbers(2 * kPanel, false);
      std::vector<kernel::RowScale> row_scales;
      for (std::int64_t r = 0; r < rows; ++r) {
        std::int32_t total = 0;
        for (std::int64_t i = 0; i < width; ++i) {
          total += values[static_cast<std::size_t>(r * width + i)];
        }
        row_scales.push_back({numbers(1, false)[0], -128 * total});
      }
      std::vector<std::int16_t> halves(values.size());
      for (std::size_t i = 0; i < values.size(); i += 16) {
        scalar::store_halves(&halves[i], &values[i]);
      }
      const std::uint8_t* const panels = aligned(data);
      for (const bool add : {false, true}) {
        compare(
            numbers(rows * stride, false),
            [&](const Kernels& kind, Row& x) {
              kind.int8_panel({panels, scales.data(), add ? bias.data() : nullptr, width}, 1,
                              {values.data(), row_scales.data(), width,
                               kind.needs_halves ? halves.data() : nullptr},
                              rows, x.data(), stride, outputs, add, add ? panels : nullptr);
            },
            std::to_string(rows) + " rows of " + std::to_string(width) + ", " +
                std::to_string(outputs) + " outputs");
      }
    }
  }
}

// Stores past the caches, of whole and other lines.
void KernelsTest::compare_far() {
  for (int t = 0; t < kTrials; ++t) {
    const std::int64_t n = t % 2 == 0 ? 64 * up_to(12) : up_to(700), rows = up_to(12);
    const std::int64_t width = kernel::rotated_width(n), shift = t % 3 == 0 ? 1 : 0;
    const Row x = numbers(n, t % 5 == 0), up = numbers(n, false);
    const Row w_scales = numbers(kPanel, false), start = numbers(rows * 2 * kPanel, false);
    auto data = bytes<std::uint8_t>(kPanel * width + 64, 1, 255);
    for (const Kernels& kind : kinds_) {
      const auto all = [&](bool far) {
        Int8Activations room;
        const kernel::Int8Rows q = room.room_for(rows, n, far);
        AlignedBuffer<float> work(static_cast<std::size_t>(width)),
            gated(static_cast<std::size_t>(n + 1)), out(start.size() + 1);
        for (std::int64_t r = 0; r < rows; ++r) kind.quantize_row(x.data(), n, q, r, work.data());
        kind.silu_gate_row(x.data(), up.data(), n, gated.data() + shift, far);
        Row got(gated.data() + shift, gated.data() + shift + n);
        kind.gelu_gate_row(x.data(), up.data(), n, gated.data() + shift, far);
        got.insert(got.end(), gated.data() + shift, gated.data() + shift + n);
        std::copy(start.begin(), start.end(), out.data());
        const std::int64_t columns = t % 4 == 0 ? 17 : kPanel;
        kind.int8_panel({aligned(data), w_scales.data(), nullptr, width}, 0, q,
                        kind.needs_halves ? 1 : rows, out.data() + shift, 2 * kPanel, columns,
                        t % 2 == 1, nullptr);
        got.insert(got.end(), out.data(), out.data() + start.size() + 1);
        for (std::int64_t i = 0; i < rows * width; ++i) got.push_back(q.values[i]);
        return got;
      };
      const Row near = all(false), far = all(true);
      ASSERT_EQ(near.size(), far.size());
      ASSERT_EQ(difference(far, near), near.size()) << kind.name << ", " << n << " values";
    }
  }
}

TEST_F(KernelsTest, StoresPastTheCachesChangeNoBit) { compare_far(); }

TEST_F(KernelsTest, Int8Panels) { compare_int8_panels(); }

void KernelsTest::compare_keys_and_values() {
  for (const bool extreme : {false, true}) {
    for (std::int64_t rows = 1; rows <= 35; ++rows) {
      const std::int64_t dim = rows % 3 == 0 ? 16 * up_to(9) : 64 * up_to(2);
      const std::int64_t pages = up_to(4), stride = 300;
      auto q = bytes<std::int8_t>(rows * dim, -127, 127);
      auto keys = bytes<std::uint8_t>(kKeys * dim + 64, 1, 255);
      auto values = bytes<std::int8_t>(pages * kKeys * dim + 64, -128, 127);
      auto weights = bytes<std::uint8_t>(rows * stride, 0, 255);
      if (extreme) {
        for (auto& x : q) x = static_cast<std::int8_t>(x < 0 ? -127 : 127);
        for (auto& x : keys) x = x % 4 == 0 ? 1 : 255;
        for (auto& x : values) x = static_cast<std::int8_t>(x < 64 ? -127 : 127);
        for (auto& x : weights) x = 255;
      }
      std::vector<std::int32_t> starts;
      for (std::int64_t r = 0; r < rows; ++r) {
        std::int32_t total = 0;
        for (std::int64_t i = 0; i < dim; ++i) total += q[static_cast<std::size_t>(r * dim + i)];
        starts.push_back(-128 * total);
      }
      Row scales = numbers(kKeys + 16, false), units = numbers(rows, false);
      compare(
          numbers(rows * stride, false),
          [&](const Kernels& kind, Row& x) {
            kind.key_product({q.data(), starts.data(), aligned(keys), aligned(scales), x.data(),
                              stride, rows, dim / 4, nullptr, aligned(keys)});
          },
          "key_product of " + std::to_string(rows) + " rows");
      std::vector<const std::int8_t*> at;
      for (std::int64_t p = 0; p < pages; ++p) at.push_back(aligned(values) + p * kKeys * dim);
      compare(
          numbers(rows * dim, false),
          [&](const Kernels& kind, Row& x) {
            kind.value_product({weights.data(), stride, at.data(), pages, rows, dim, units.data(),
                                x.data(), aligned(keys)});
          },
          "value_product of " + std::to_string(rows) + " rows");
    }
  }
}

TEST_F(KernelsTest, KeysAndValues) { compare_keys_and_values(); }

// State that products keep from one call to the next fits other numbers of rows as well.
TEST_F(KernelsTest, ProductsWithinAJob) {
  in_a_job([&] {
    compare_far();
    compare_int8_panels();
    compare_keys_and_values();
  });
  compare_int8_panels();
}

// Native products of pairs round otherwise: no number here shows it but for a small difference.
TEST_F(KernelsTest, PairProducts) {
  for (std::int64_t rows = 1; rows <= 14; ++rows) {
    const std::int64_t pairs = up_to(40), columns = 16 * up_to(9);
    const Row a = numbers(rows * 2 * pairs, false), b = numbers(pairs * 2 * columns, false),
              start = numbers(columns, false);
    std::vector<std::uint16_t> a16(a.size()), b16(b.size());
    const auto size = [](const Row& x) { return static_cast<std::int64_t>(x.size()); };
    scalar::round_to_bf16(a.data(), size(a), 1.0F, a16.data());
    scalar::round_to_bf16(b.data(), size(b), 1.0F, b16.data());
    Row expected = numbers(rows * columns, false), before = expected;
    for (const int how : {0, 1, 2}) {
      kernel::PairProduct p{a16.data(),  2 * pairs,       b16.data(),
                            2 * columns, expected.data(), columns,
                            rows,        pairs,           columns,
                            how == 1,    nullptr,         how == 2 ? start.data() : nullptr};
      expected = before;
      scalar::pair_product_emulated(p);
      for (const Kernels& kind : kinds_) {
        Row got = before;
        p.c = got.data();
        p.next = b16.data();
        kind.pair_product(p);
        const bool native = std::string(kind.name).find("BF16") != std::string::npos;
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (native) {
            ASSERT_NEAR(got[i], expected[i], 1e-3F * (1.0F + std::fabs(expected[i])));
          } else {
            ASSERT_EQ(got[i], expected[i]) << kind.name << ", " << rows << " rows, value " << i;
          }
        }
      }
    }
  }
}

// The comparison itself can fail: a kind that differs in one bit of one sum is found.
TEST_F(KernelsTest, ADifferenceIsFound) {
  const Row a = numbers(33, false);
  for (std::size_t i = 0; i < a.size(); ++i) {
    Row b = a;
    b[i] = std::nextafter(b[i], 1e9F);
    EXPECT_EQ(difference(b, a), i);
  }
  EXPECT_EQ(difference({-0.0F}, {0.0F}), 0);
  EXPECT_EQ(difference({NAN}, {-NAN}), 1);
}

TEST_F(KernelsTest, AnotherKindCanBeForced) {
  const Kernels other = scalar::kKernels;
  const Kernels* const usual = &kernels();
  {
    const ForcedKernels forced(other);
    EXPECT_EQ(&kernels(), &other);
  }
  EXPECT_EQ(&kernels(), usual);
}

}  // namespace
}  // namespace forerun
