// Keys and values together with the state of recurrent layers: both change, or neither.
#include "forerun/tensor/kv_cache.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace forerun {
namespace {

constexpr RecurrentState::Shape kSmallState{.layers = 1,
                                            .channels = 4,
                                            .window = 2,
                                            .key_heads = 1,
                                            .key_dim = 2,
                                            .value_heads = 1,
                                            .value_dim = 2};

class KvCacheWithState : public ::testing::TestWithParam<bool> {
 protected:
  static KvCache make(std::shared_ptr<KvPool> pool = nullptr) {
    KvCache out = GetParam() ? KvCache(KvPages({1, 1, 8}, std::move(pool)))
                             : KvCache({1, 1, 8, at::kFloat}, 8, std::move(pool));
    out.set_recurrent(kSmallState);
    return out;
  }
  static void run(KvCache& cache, const RowPlan& rows, float value = 1.0F) {
    cache.reserve(rows);
    cache.recurrent()->begin();
    if (!GetParam()) {
      const at::Tensor k = at::full({rows.rows(), 1, 8}, value);
      cache.write(0, k, k);
    }
    cache.recurrent()->close(0, rows, [&](std::int64_t i, const RecurrentState::Row& to) {
      std::fill_n(to.inputs, 4, value + static_cast<float>(i));
    });
    cache.advance(rows);
  }
  // 40 rows after each other, and one more that follows row 20.
  static RowPlan long_tree() {
    std::vector<std::int32_t> parents;
    for (std::int32_t i = 0; i < 40; ++i) parents.push_back(i - 1);
    parents.push_back(20);
    return RowPlan::of(41, parents, {});
  }
};

TEST_P(KvCacheWithState, AFullPoolChangesNeitherPart) {
  KvCache probe = make();
  const std::size_t all = probe.bytes_to_reserve(30);
  for (std::size_t limit = 0; limit < all; limit += 8) {
    const auto pool = std::make_shared<KvPool>(limit);
    KvCache cache = make(pool);
    EXPECT_EQ(cache.bytes_to_reserve(30), all);
    EXPECT_THROW(cache.reserve(30), KvPoolFull);
    EXPECT_EQ(pool->used(), 0U) << limit << " of " << all;
    EXPECT_EQ(cache.bytes(), 0U);
    EXPECT_EQ(cache.bytes_to_reserve(30), all);
  }
  const auto pool = std::make_shared<KvPool>(all);
  {
    KvCache cache = make(pool);
    run(cache, RowPlan(30));
    EXPECT_EQ(pool->used(), all);
    EXPECT_EQ(cache.bytes(), all);
    EXPECT_THROW(cache.reserve(400), KvPoolFull);
    EXPECT_EQ(pool->used(), all);
    EXPECT_EQ(cache.length(), 30);
  }
  EXPECT_EQ(pool->used(), 0U);
}

TEST_P(KvCacheWithState, APathThatIsRefusedLeavesTheRowsPending) {
  KvCache cache = make();
  run(cache, RowPlan(3));
  run(cache, long_tree());
  const std::vector<std::int32_t> short_path = {0, 1, 2}, wrong = {0, 2};
  EXPECT_THROW(cache.keep(short_path), std::logic_error);
  EXPECT_THROW(cache.keep(wrong), std::invalid_argument);
  EXPECT_TRUE(cache.pending());
  EXPECT_EQ(cache.length(), 3);
  std::vector<std::int32_t> path;
  for (std::int32_t i = 0; i <= 20; ++i) path.push_back(i);
  path.push_back(40);
  cache.keep(path);
  EXPECT_EQ(cache.length(), 25);
  EXPECT_EQ(cache.recurrent()->length(), 25);
  EXPECT_EQ(cache.recurrent()->input_before(0, 1)[0], 41.0F);
  EXPECT_EQ(cache.recurrent()->input_before(0, 2)[0], 21.0F);
}

TEST_P(KvCacheWithState, PendingRowsAreNotShared) {
  KvCache cache = make();
  run(cache, RowPlan(3));
  run(cache, RowPlan::of(3, std::vector<std::int32_t>{-1, 0, 0}, {}));
  EXPECT_EQ(cache.sharable(100), 3);
  EXPECT_EQ(cache.share(3).length(), 3);
  cache.truncate(3);
  EXPECT_EQ(cache.length(), 3);
  run(cache, long_tree());
  EXPECT_EQ(cache.sharable(100), 0);  // the state is that of more positions
  EXPECT_THROW(cache.share(4), std::invalid_argument);
  cache.truncate(3);
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.recurrent()->length(), 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, KvCacheWithState, ::testing::Values(false, true),
                         [](const auto& pages) { return pages.param ? "Pages" : "Tensors"; });

}  // namespace
}  // namespace forerun
