// Attention of float caches against the definition in double precision, for chains, trees and
// blocks.
#include "forerun/tensor/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace forerun {
namespace {

struct AttentionCase {
  std::vector<std::int32_t> parents, groups;
  AttentionOptions options;
  std::vector<std::int32_t> skips = {};
};

at::Tensor expected(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const RowPlan& plan, std::int64_t length, const AttentionOptions& o) {
  const std::int64_t n = q.size(0), heads = q.size(1), group = heads / k.size(1);
  at::Tensor out = at::zeros({n, heads, q.size(2)}, at::kDouble);
  for (std::int64_t r = 0; r < n; ++r) {
    std::vector<bool> mask(static_cast<std::size_t>(k.size(0)), false);
    const auto sees = [&](std::int64_t place, std::int64_t depth) {
      const bool near = !o.window || std::abs(plan.depth(r) - depth) < *o.window;
      if (near) mask[static_cast<std::size_t>(place)] = true;
    };
    for (std::int64_t j = 0; j < length; ++j) sees(j, j - length);
    for (std::int64_t j = r; j >= 0; j = plan.parent(j)) sees(length + j, plan.depth(j));
    if (!plan.chain()) {
      for (const std::int32_t j : plan.seen(r)) {
        if (j >= 0) sees(length + j, plan.depth(j));
      }
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      double total = 0.0;
      for (std::int64_t j = 0; j < k.size(0); ++j) {
        if (!mask[static_cast<std::size_t>(j)]) continue;
        double score = (q[r][h] * k[j][h / group]).sum().item<double>() * o.scale;
        if (o.softcap > 0.0) score = o.softcap * std::tanh(score / o.softcap);
        total += std::exp(score);
        out[r][h] += std::exp(score) * v[j][h / group];
      }
      if (o.sinks.defined()) total += std::exp(o.sinks[h].item<double>());
      out[r][h] /= total;
    }
  }
  return out.reshape({n, -1});
}

TEST(FloatAttention, MatchesTheDefinitionForChainsTreesAndBlocks) {
  const AttentionOptions plain{.scale = 0.5}, near{.scale = 0.5, .window = 3},
      capped{.scale = 0.5, .softcap = 2.0},
      sinks{.scale = 0.5, .window = 3, .sinks = at::tensor({-1.0, 0.5, 2.0, 1.0})};
  std::vector<AttentionCase> cases;
  for (const AttentionOptions& o : {plain, near, capped, sinks}) {
    cases.push_back({{-1, 0, 1, 2, 3, 4}, {}, o});                      // spelled out, a chain
    cases.push_back({{-1, -1, 0, 0, 1, 2}, {}, o});                     // a tree
    cases.push_back({{-1, 0, 1, 0, 3, 4}, {-1, 0, 0, 1, 1, 1}, o});     // two blocks
    cases.push_back({{-1, 0, 1, 2, 3, 1}, {0, -1, -1, -1, 0, -1}, o});  // a block with a hole
    cases.push_back({{-1, 0, 1, 0, 3, 4}, {-1, 0, 0, 1, 1, 1}, o, {0, 1, 0, 2, 0, 1}});
    cases.push_back({{}, {}, o, {1, 0, 0, 3, 0, 0}});
    cases.push_back({{}, {}, o});
  }
  for (const std::int64_t length : {0, 1, 7}) {
    for (const AttentionCase& c : cases) {
      constexpr std::int64_t kRows = 6;
      const RowPlan plan = RowPlan::of(kRows, c.parents, c.groups, c.skips);
      const at::Tensor q = at::randn({kRows, 4, 8}), k = at::randn({length + kRows, 2, 8}),
                       v = at::randn({length + kRows, 2, 8});
      KvCache cache({.layers = 1, .heads = 2, .head_dim = 8, .dtype = at::kFloat});
      cache.reserve(length);
      cache.write(0, k.narrow(0, 0, length), v.narrow(0, 0, length));
      cache.advance(length);
      cache.reserve(plan);
      cache.write(0, k.narrow(0, length, kRows), v.narrow(0, length, kRows));
      const at::Tensor out = attend(q, cache, 0, plan, c.options);
      const at::Tensor want = expected(q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble),
                                       plan, length, c.options);
      EXPECT_LT((out - want).abs().max().item<double>(), 1e-5);
    }
  }
}

TEST(RowPlan, TellsDepthsAndWhatRowsSee) {
  const RowPlan plan = RowPlan::of(6, std::vector<std::int32_t>{-1, 0, 1, 0, 3, -1},
                                   std::vector<std::int32_t>{4, -1, 4, -1, -1, -1});
  EXPECT_EQ(plan.straight(), 3);
  EXPECT_EQ(plan.branches(), 3);
  EXPECT_EQ(plan.depths(), 3);
  EXPECT_EQ(plan.depth(4), 2);
  const auto seen = [&](std::int64_t row) {
    const auto s = plan.seen(row);
    return std::vector<std::int32_t>(s.begin(), s.end());
  };
  EXPECT_EQ(seen(4), (std::vector<std::int32_t>{0, 3, 4}));
  EXPECT_EQ(seen(5), (std::vector<std::int32_t>{5}));
  EXPECT_EQ(seen(0), (std::vector<std::int32_t>{0, -1, 2}));
}

TEST(RowPlan, RowsMaySkipPositions) {
  using Rows = std::vector<std::int32_t>;
  // A token, and after it a block of three masks whose first one is not run.
  const RowPlan plan = RowPlan::of(3, Rows{-1, 0, 1}, Rows{-1, 7, 7}, Rows{0, 1, 0});
  EXPECT_FALSE(plan.chain());
  EXPECT_EQ(plan.straight(), 1);
  EXPECT_EQ(plan.depths(), 4);
  EXPECT_EQ(plan.depth(1), 2);
  EXPECT_EQ(plan.depth(2), 3);
  for (const std::int64_t row : {1, 2}) {
    const auto seen = plan.seen(row);
    EXPECT_EQ(Rows(seen.begin(), seen.end()), (Rows{0, -1, 1, 2}));
  }
  // Without parents and groups: a chain with a gap.
  const RowPlan gap = RowPlan::of(2, {}, {}, Rows{0, 4});
  EXPECT_EQ(gap.depth(1), 5);
  EXPECT_EQ(gap.straight(), 1);
  EXPECT_THROW(RowPlan::of(2, {}, {}, Rows{0, -1}), std::invalid_argument);
  EXPECT_THROW(RowPlan::of(2, {}, {}, Rows{0}), std::invalid_argument);
  // A row of a gap is never kept.
  KvCache cache({.layers = 1, .heads = 1, .head_dim = 4, .dtype = at::kFloat});
  cache.reserve(gap);
  cache.advance(gap);
  EXPECT_THROW(cache.keep(Rows{0, 1}), std::invalid_argument);
  cache.keep(Rows{0});
  EXPECT_EQ(cache.length(), 1);
}

TEST(RowPlan, RefusesWhatHasNoMeaning) {
  using Rows = std::vector<std::int32_t>;
  EXPECT_THROW(RowPlan::of(3, Rows{-1, 0}, {}), std::invalid_argument);
  EXPECT_THROW(RowPlan::of(2, {}, Rows{0}), std::invalid_argument);
  EXPECT_THROW(RowPlan::of(2, Rows{-1, 1}, {}), std::invalid_argument);
  EXPECT_THROW(RowPlan::of(2, Rows{-1, -2}, {}), std::invalid_argument);
  // Row 2 would see rows 0 and 1, both of the first position.
  EXPECT_THROW(RowPlan::of(3, Rows{-1, -1, 0}, Rows{-1, 5, 5}), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
