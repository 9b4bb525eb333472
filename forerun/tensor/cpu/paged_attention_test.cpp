// Attention over pages against the definition in double precision, and bit for bit equality with
// other sequences in the pass.
#include "forerun/tensor/cpu/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "forerun/tensor/cpu/arena.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

struct Text {
  std::vector<std::vector<float>> q, k, v;  // by position: [heads * dim], [kv_heads * dim]
};

class Attention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  }

  Text text(std::int64_t positions, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim) {
    std::normal_distribution<float> law;
    const auto values = [&](std::int64_t n) {
      std::vector<float> out(static_cast<std::size_t>(n));
      for (float& x : out) x = law(random_);
      return out;
    };
    Text t;
    for (std::int64_t i = 0; i < positions; ++i) {
      t.q.push_back(values(heads * dim));
      t.k.push_back(values(kv_heads * dim));
      t.v.push_back(values(kv_heads * dim));
    }
    return t;
  }
  std::mt19937 random_{11};
};

struct Setting {
  PagedAttention::Shape shape;
  PagedAttention::Visibility mask = {};
  bool block = false;             // the new rows see each other
  std::vector<float> sinks = {};  // of each head, or none

  float scale() const { return 2.0F / std::sqrt(static_cast<float>(shape.head_dim)); }
};

KvPages pages_of(const Text& t, const Setting& s) {
  KvPages pages({2, s.shape.kv_heads, s.shape.head_dim});
  pages.reserve(0, static_cast<std::int64_t>(t.k.size()));
  for (std::size_t i = 0; i < t.k.size(); ++i) {
    for (std::int64_t h = 0; h < s.shape.kv_heads; ++h) {
      pages.write(1, h, static_cast<std::int64_t>(i), t.k[i].data() + h * s.shape.head_dim,
                  t.v[i].data() + h * s.shape.head_dim);
    }
  }
  return pages;
}

struct Rows {
  const Text* text;
  const KvPages* pages;
  std::int64_t first, count;
  const RowPlan* plan = nullptr;
};

// Outputs [rows, heads * dim] of one pass over rows of several sequences.
std::vector<std::vector<float>> pass(PagedAttention& a, const Setting& s,
                                     const std::vector<Rows>& sequences, int threads) {
  std::vector<PagedAttention::Sequence> plan;
  std::vector<RowPlan> blocks;
  blocks.reserve(sequences.size());
  for (const Rows& l : sequences) {
    const std::vector<std::int32_t> one_group(static_cast<std::size_t>(l.count), 0);
    blocks.push_back(RowPlan::of(l.count, {}, one_group));
    plan.push_back({l.pages, l.first, l.count, s.block ? &blocks.back() : l.plan});
  }
  a.plan(plan, threads);
  std::int64_t row = 0;
  for (const Rows& l : sequences) {
    for (std::int64_t i = l.first; i < l.first + l.count; ++i, ++row) {
      for (std::int64_t h = 0; h < s.shape.heads; ++h) {
        a.set_query(row, h, l.text->q[static_cast<std::size_t>(i)].data() + h * s.shape.head_dim,
                    s.scale());
      }
    }
  }
  ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) { a.attend(w, 1, s.mask); });
  std::vector<std::vector<float>> out;
  for (std::int64_t r = 0; r < row; ++r) {
    auto& values = out.emplace_back(static_cast<std::size_t>(s.shape.heads * s.shape.head_dim));
    for (std::int64_t h = 0; h < s.shape.heads; ++h) {
      const float* const sink = s.sinks.empty() ? nullptr : s.sinks.data() + h;
      a.output(r, h, values.data() + h * s.shape.head_dim, sink);
    }
  }
  return out;
}

// Row `position` of a sequence whose new rows end before `end`.
std::vector<double> expected(const Text& t, const Setting& s, std::size_t position,
                             std::size_t end) {
  const std::size_t behind = s.block ? end : position + 1;
  const auto dim = static_cast<std::size_t>(s.shape.head_dim);
  const auto group = static_cast<std::size_t>(s.shape.heads / s.shape.kv_heads);
  std::vector<double> out;
  for (std::size_t h = 0; h < static_cast<std::size_t>(s.shape.heads); ++h) {
    std::vector<double> sum(dim, 0.0);
    double total = 0.0;
    const std::size_t kv = h / group * dim;
    for (std::size_t j = 0; j < behind; ++j) {
      const std::size_t away = j < position ? position - j : j - position;
      if (s.mask.window > 0 && static_cast<std::int64_t>(away) >= s.mask.window) continue;
      double score = 0.0;
      for (std::size_t d = 0; d < dim; ++d) {
        score += static_cast<double>(t.q[position][h * dim + d]) * t.k[j][kv + d];
      }
      score *= s.scale();
      const double cap = s.shape.softcap;
      const double weight = std::exp(cap > 0 ? cap * std::tanh(score / cap) : score);
      total += weight;
      for (std::size_t d = 0; d < dim; ++d) sum[d] += weight * t.v[j][kv + d];
    }
    if (!s.sinks.empty()) total += std::exp(static_cast<double>(s.sinks[h]));
    for (const double x : sum) out.push_back(x / total);
  }
  return out;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {{.heads = 9, .kv_heads = 3, .head_dim = 64, .softcap = 0.0}},
      {{.heads = 4, .kv_heads = 4, .head_dim = 8, .softcap = 0.0}},
      {{.heads = 16, .kv_heads = 1, .head_dim = 24, .softcap = 20.0}},
      {{.heads = 30, .kv_heads = 1, .head_dim = 80, .softcap = 0.0}},
      {{.heads = 2, .kv_heads = 2, .head_dim = 256, .softcap = 0.0}},
      {{.heads = 2, .kv_heads = 1, .head_dim = 128, .softcap = 0.0}, {.window = 100}},
      {{.heads = 4, .kv_heads = 2, .head_dim = 32, .softcap = 0.0}, {.window = 1}},
      {{.heads = 9, .kv_heads = 3, .head_dim = 64, .softcap = 0.0}, {}, true},
      {{.heads = 4, .kv_heads = 2, .head_dim = 32, .softcap = 0.0}, {.window = 3}, true},
      {{.heads = 4, .kv_heads = 2, .head_dim = 64, .softcap = 0.0},
       {.window = 100},
       false,
       {-2.0F, 1.0F, 4.0F, 6.0F}},
      {{.heads = 2, .kv_heads = 1, .head_dim = 24, .softcap = 0.0}, {}, false, {9.0F, -100.0F}}};
  return all;
}

// Root mean squares of the errors and of the expected values, over rows at many positions.
struct Deviation {
  double error = 0.0, expected = 0.0, worst = 0.0;
};

Deviation deviation(const Text& t, const Setting& s) {
  const KvPages pages = pages_of(t, s);
  PagedAttention a(s.shape);
  Deviation d;
  double n = 0.0;
  for (const std::int64_t first : {0, 63, 255, 511, 590}) {
    const auto out = pass(a, s, {{&t, &pages, first, 5}}, 2);
    for (std::size_t r = 0; r < out.size(); ++r) {
      const auto want =
          expected(t, s, static_cast<std::size_t>(first) + r, static_cast<std::size_t>(first) + 5);
      for (std::size_t i = 0; i < want.size(); ++i, ++n) {
        const double error = std::abs(out[r][i] - want[i]);
        d.error += error * error;
        d.expected += want[i] * want[i];
        d.worst = std::max(d.worst, error);
      }
    }
  }
  d.error = std::sqrt(d.error / n);
  d.expected = std::sqrt(d.expected / n);
  return d;
}

TEST_F(Attention, MatchesTheDefinition) {
  for (const Setting& s : settings()) {
    const Text t = text(600, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
    const Deviation d = deviation(t, s);
    // Rounding to 8 bits changes a value by about 0.006 of its typical size, a score by as much of
    // the product of the vectors' lengths. One key of 600 mistaken for another would be 0.04. One
    // scale serves a head, and the largest of 256 values exceeds that of 128 by 7% on average, so
    // longer heads have their own bound.
    const double bound = s.shape.head_dim > 128 ? 0.019 : 0.018;
    EXPECT_LT(d.error, bound * d.expected) << "dim " << s.shape.head_dim;
    EXPECT_LT(d.worst, 0.1) << "dim " << s.shape.head_dim;
  }
}

// In some models biases make a few channels of all keys a hundred times larger than the others.
// With their scale the others would have 3 bits.
TEST_F(Attention, AFewLargeChannelsDoNotTakeTheOthersPrecision) {
  const Setting& s = settings().front();
  Text t = text(600, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
  for (auto& k : t.k) {
    k[5] += 60.0F;
    k[64 + 40] -= 45.0F;
  }
  for (auto& v : t.v) v[3] *= 20.0F;
  const Deviation d = deviation(t, s);
  EXPECT_LT(d.error, 0.03 * d.expected);
}

TEST_F(Attention, ARowIsTheSameInAnyCompany) {
  for (const Setting& s : settings()) {
    if (s.block) continue;  // there the rows of a pass see each other
    const Text t = text(700, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
    const Text other = text(90, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
    const KvPages pages = pages_of(t, s), other_pages = pages_of(other, s);
    PagedAttention a(s.shape);
    const auto whole = pass(a, s, {{&t, &pages, 0, 700}}, 1);  // not split over keys
    for (const int threads : {1, 2, 3}) {
      for (const std::int64_t first : {0, 1, 254, 640}) {
        const auto alone = pass(a, s, {{&t, &pages, first, 1}}, threads);
        EXPECT_EQ(alone[0], whole[static_cast<std::size_t>(first)]);
        const auto packed =
            pass(a, s, {{&other, &other_pages, 70, 3}, {&t, &pages, first, 7}}, threads);
        for (std::size_t r = 0; r < 7; ++r) {
          EXPECT_EQ(packed[3 + r], whole[static_cast<std::size_t>(first) + r])
              << threads << " threads, from " << first;
        }
      }
    }
  }
}

// Remains of rejected drafts after a sequence's end have no weight, whatever they are.
TEST_F(Attention, WhatStandsBehindARowDoesNotMatter) {
  const Setting& s = settings().front();
  const Text t = text(130, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
  const KvPages clean = pages_of(t, s);
  KvPages used = pages_of(t, s);
  std::vector<float> junk(static_cast<std::size_t>(s.shape.head_dim), 1e30F);
  const float ends[] = {std::numeric_limits<float>::quiet_NaN(),
                        std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()};
  for (std::int64_t i = 101; i < 130; ++i) {
    junk[3] = ends[i % 4];
    for (std::int64_t h = 0; h < s.shape.kv_heads; ++h)
      used.write(1, h, i, junk.data(), junk.data());
  }
  PagedAttention a(s.shape);
  EXPECT_EQ(pass(a, s, {{&t, &clean, 95, 6}}, 2), pass(a, s, {{&t, &used, 95, 6}}, 2));
}

// Pages use recycled memory: here its bytes are NaN as numbers, then arbitrary.
TEST_F(Attention, WhatAPageHeldBeforeDoesNotMatter) {
  const Setting& s = settings().front();
  const Text t = text(101, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
  PagedAttention a(s.shape);
  std::vector<std::vector<std::vector<float>>> seen;
  std::mt19937 random(5);
  for (const bool anything : {false, true}) {
    const std::uint8_t* where = nullptr;
    {
      Arena arena(std::size_t{16} << 20, Arena::Memory::kUsed);
      const auto piece = arena.make<std::uint8_t>(std::size_t{1} << 20);
      where = piece.get();
      std::generate_n(piece.get(), std::size_t{1} << 20,
                      [&] { return anything ? static_cast<std::uint8_t>(random()) : 0xff; });
    }
    const KvPages pages = pages_of(t, s);
    EXPECT_EQ(pages.keys(0, 0, 0), where);
    seen.push_back(pass(a, s, {{&t, &pages, 95, 6}}, 2));
  }
  for (const auto& row : seen[0]) {
    for (const float x : row) EXPECT_TRUE(std::isfinite(x));
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(Attention, NonFiniteValuesAreReported) {
  const Setting& s = settings().front();
  const Text t = text(300, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
  KvPages pages = pages_of(t, s);
  std::vector<float> v(static_cast<std::size_t>(s.shape.head_dim), 1.0F);
  v[5] = std::numeric_limits<float>::infinity();
  pages.write(1, 0, 299, v.data(), v.data());
  PagedAttention a(s.shape);
  const auto out = pass(a, s, {{&t, &pages, 298, 2}}, 2);
  for (const float x : out[0]) EXPECT_TRUE(std::isfinite(x));
  EXPECT_TRUE(std::isnan(out[1][0]));
}

// A tree with blocks: rows of it follow earlier ones at random; some of them see a group.
RowPlan random_plan(std::int64_t rows, bool groups, std::mt19937& random) {
  std::vector<std::int32_t> parents, skips, group(static_cast<std::size_t>(rows), -1);
  for (std::int32_t i = 0; i < rows; ++i) {
    const auto back = static_cast<std::int32_t>(random() % 4);
    parents.push_back(std::max(-1, i - 1 - back));
    skips.push_back(groups && random() % 4 == 0 ? static_cast<std::int32_t>(random() % 5) : 0);
  }
  // Rows of distinct depths: whatever stands between them on the way is a hole for the others.
  const RowPlan plan = RowPlan::of(rows, parents, {}, skips);
  for (std::int64_t row = rows - 1; groups && row >= 0; row = plan.parent(row)) {
    if (random() % 2 == 0) group[static_cast<std::size_t>(row)] = 3;
  }
  return RowPlan::of(rows, parents, groups ? group : std::vector<std::int32_t>(), skips);
}

// Memory of pages holds anything: here the largest numbers.
void spoil(const KvPages& pages, const PagedAttention::Shape& shape, std::int64_t branches) {
  const std::int64_t dim = KvPages::padded(shape.head_dim);
  for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
    for (std::int64_t page = 0; page * kernel::kKeys < pages.capacity() + branches; ++page) {
      auto* const bytes = const_cast<std::uint8_t*>(pages.keys(1, head, page));
      std::memset(bytes, 0x7f, static_cast<std::size_t>(2 * kernel::kKeys * (dim + 4)));
    }
  }
}

// Row `row` of a plan after `length` kept positions; its own values stand at length + row.
std::vector<double> expected(const Text& t, const Setting& s, const RowPlan& plan,
                             std::size_t length, std::int64_t row) {
  Text seen;
  const std::int64_t position = static_cast<std::int64_t>(length) + plan.depth(row);
  std::vector<std::size_t> places;
  for (std::size_t j = 0; j < length; ++j) {
    if (s.mask.window == 0 || position - static_cast<std::int64_t>(j) < s.mask.window) {
      places.push_back(j);
    }
  }
  std::int64_t depth = 0;
  for (const std::int32_t j : plan.seen(row)) {
    const std::int64_t away = std::abs(plan.depth(row) - depth++);
    if (j >= 0 && (s.mask.window == 0 || away < s.mask.window)) {
      places.push_back(length + static_cast<std::size_t>(j));
    }
  }
  for (const std::size_t place : places) {
    seen.k.push_back(t.k[place]);
    seen.v.push_back(t.v[place]);
    seen.q.push_back(t.q[length + static_cast<std::size_t>(row)]);
  }
  Setting all = s;
  all.mask.window = 0;
  return expected(seen, all, places.size() - 1, places.size());
}

// Trees of every shape, with blocks and without, against the definition, and alone against in
// company.
TEST_F(Attention, RowsOfTreesAndBlocksMatchTheDefinition) {
  for (const Setting& s : settings()) {
    if (s.block) continue;
    double error = 0.0, all = 0.0;
    for (const std::int64_t length : {0, 1, 61, 250, 509}) {
      for (const std::int64_t rows : {1, 13, 140}) {
        for (const bool groups : {false, true}) {
          const RowPlan plan = random_plan(rows, groups, random_);
          const Text t = text(length + rows, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
          KvPages pages({2, s.shape.kv_heads, s.shape.head_dim});
          pages.reserve(0, length);
          pages.reserve(length, length + plan.depths(), plan.branches());
          spoil(pages, s.shape, plan.branches());
          for (std::int64_t i = 0; i < length + rows; ++i) {
            const std::int64_t row = i - length, branch = row - plan.straight();
            const std::int64_t place = branch < 0 ? i : pages.capacity() + branch;
            for (std::int64_t h = 0; h < s.shape.kv_heads; ++h) {
              pages.write(1, h, place,
                          t.k[static_cast<std::size_t>(i)].data() + h * s.shape.head_dim,
                          t.v[static_cast<std::size_t>(i)].data() + h * s.shape.head_dim);
            }
          }
          PagedAttention a(s.shape);
          const auto out = pass(a, s, {{&t, &pages, length, rows, &plan}}, 2);
          const Text other = text(90, s.shape.heads, s.shape.kv_heads, s.shape.head_dim);
          const KvPages other_pages = pages_of(other, s);
          const auto packed =
              pass(a, s, {{&other, &other_pages, 70, 3}, {&t, &pages, length, rows, &plan}}, 1);
          for (std::int64_t r = 0; r < rows; ++r) {
            const auto got = static_cast<std::size_t>(r);
            EXPECT_EQ(packed[3 + got], out[got]);
            const auto want = expected(t, s, plan, static_cast<std::size_t>(length), r);
            for (std::size_t i = 0; i < want.size(); ++i) {
              error += (out[got][i] - want[i]) * (out[got][i] - want[i]);
              all += want[i] * want[i];
            }
          }
        }
      }
    }
    EXPECT_LT(error, 0.018 * 0.018 * all) << "dim " << s.shape.head_dim;
  }
}

}  // namespace
}  // namespace forerun
