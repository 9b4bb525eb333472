// The state of recurrent layers alone, with layers whose states are whole numbers: every sum is
// exact, so a state is compared with that of the whole text, added up row by row.
#include "forerun/tensor/recurrent_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

namespace forerun {
namespace {

using Ids = std::vector<std::int64_t>;
constexpr RecurrentState::Shape kCounting{.layers = 2,
                                          .channels = 3,
                                          .window = 2,
                                          .key_heads = 1,
                                          .key_dim = 2,
                                          .value_heads = 2,
                                          .value_dim = 2};
constexpr std::int64_t kAll = 1 << 20;

float input_of(std::int64_t layer, std::int64_t id, std::int64_t channel) {
  return static_cast<float>(100 * id + 10 * layer + channel + 1);
}

void write_row(std::int64_t layer, std::int64_t id, const RecurrentState::Row& to) {
  for (std::int64_t c = 0; c < kCounting.channels; ++c) to.inputs[c] = input_of(layer, id, c);
  if (to.keys == nullptr) return;
  for (std::int64_t i = 0; i < 2; ++i) to.keys[i] = static_cast<float>((id + i * layer) % 5 - 2);
  for (std::int64_t i = 0; i < 4; ++i) to.deltas[i] = static_cast<float>((id * 3 + i) % 7 - 3);
  for (std::int64_t i = 0; i < 2; ++i) to.decays[i] = (id + i) % 11 == 0 ? -1.0F : 1.0F;
}

void add_row(float* matrix, std::int64_t head, const RecurrentState::Row& r) {
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) {
      float& x = matrix[2 * i + j];
      x = r.decays[head] * x + r.keys[i] * r.deltas[2 * head + j];
    }
  }
}

// A state and the rows that it is of.
class CountedText {
 public:
  explicit CountedText(std::shared_ptr<KvPool> pool = nullptr)
      : state(kCounting, std::move(pool)) {}

  // A pass over rows of such numbers, as a model runs it.
  void pass(const RowPlan& plan, const Ids& pass_ids) {
    state.reserve(plan);
    state.begin();
    for (std::int64_t layer = 0; layer < kCounting.layers; ++layer) {
      expect_reads(layer);
      for (std::int64_t h = 0; h < kCounting.value_heads; ++h) {
        for (std::int64_t i = 0; i < state.settled_kept(); ++i) {
          add_row(state.matrix(layer, h), h, state.kept_row(layer, i));
        }
        for (std::int64_t i = 0; i < state.settled(plan); ++i) {
          add_row(state.matrix(layer, h), h, RowOf(layer, pass_ids.at(size(i))).row());
        }
      }
      state.close(layer, plan, [&](std::int64_t i, const RecurrentState::Row& to) {
        write_row(layer, pass_ids.at(size(i)), to);
      });
    }
    state.advance(plan);
    if (plan.chain()) ids.insert(ids.end(), pass_ids.begin(), pass_ids.end());
  }
  void chain(std::int64_t rows) {
    Ids own;
    for (std::int64_t i = 0; i < rows; ++i) own.push_back(next_++);
    pass(RowPlan(rows), own);
    expect_whole();
  }
  // A tree whose rows have the numbers from `first` on, and the path of it that stays.
  void tree(const std::vector<std::int32_t>& parents, const std::vector<std::int32_t>& path) {
    Ids own;
    for (std::size_t i = 0; i < parents.size(); ++i) own.push_back(next_++);
    const RowPlan plan = RowPlan::of(static_cast<std::int64_t>(parents.size()), parents, {});
    pass(plan, own);
    state.keep(path);
    for (const std::int32_t row : path) ids.push_back(own[static_cast<std::size_t>(row)]);
    expect_whole();
  }
  std::int64_t truncate(std::int64_t length) {
    const std::int64_t reached = state.reachable(length);
    EXPECT_LE(reached, std::max<std::int64_t>(length, 0));
    EXPECT_EQ(state.truncate(length), reached);
    ids.resize(size(reached));
    expect_whole();
    return reached;
  }
  CountedText share(std::int64_t positions) const {
    const std::int64_t reached = state.reachable(positions);
    CountedText out(state.share(positions), ids, next_);
    EXPECT_EQ(out.state.length(), reached);
    out.ids.resize(size(reached));
    out.expect_whole();
    return out;
  }
  // The matrices with the kept rows, and the inputs before the next pass, are those of the text.
  void expect_whole() {
    ASSERT_EQ(state.length(), static_cast<std::int64_t>(ids.size()));
    if (ids.empty()) return;
    for (std::int64_t layer = 0; layer < kCounting.layers; ++layer) {
      expect_reads(layer);
      for (std::int64_t h = 0; h < kCounting.value_heads; ++h) {
        std::vector<float> got(state.matrix(layer, h), state.matrix(layer, h) + 4), want(4);
        for (std::int64_t i = 0; i < state.kept(); ++i) {
          add_row(got.data(), h, state.kept_row(layer, i));
        }
        for (const std::int64_t id : ids) add_row(want.data(), h, RowOf(layer, id).row());
        ASSERT_EQ(got, want) << "layer " << layer << ", head " << h << ", length " << ids.size();
      }
    }
  }

  RecurrentState state;
  Ids ids;

 private:
  struct RowOf {
    RowOf(std::int64_t layer, std::int64_t id) { write_row(layer, id, row()); }
    RecurrentState::Row row() { return {inputs, keys, deltas, decays}; }
    float inputs[3], keys[2], deltas[4], decays[2];
  };
  CountedText(RecurrentState s, Ids text, std::int64_t next)
      : state(std::move(s)), ids(std::move(text)), next_(next + 1000) {}
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  void expect_reads(std::int64_t layer) {
    for (std::int64_t back = 1; back <= kCounting.window; ++back) {
      const auto at = static_cast<std::int64_t>(ids.size()) - back;
      for (std::int64_t c = 0; c < kCounting.channels; ++c) {
        const float want = at < 0 ? 0.0F : input_of(layer, ids[size(at)], c);
        ASSERT_EQ(state.input_before(layer, back)[c], want) << "back " << back << " of " << at;
      }
    }
  }
  std::int64_t next_ = 1;
};

TEST(RecurrentState, ChainsOfAnySizeAndDropsWithinThem) {
  for (const std::int64_t first : {1, 2, 15, 16, 17, 18, 40, 600}) {
    for (const std::int64_t second : {1, 2, 15, 16, 17, 18, 40, 600}) {
      for (const std::int64_t drop : {0, 1, 5, 15, 16}) {
        CountedText text;
        text.chain(first);
        text.chain(second);
        const std::int64_t length = first + second - std::min(drop, second);
        EXPECT_EQ(text.truncate(length), length);
        text.chain(3);
        text.chain(1);
      }
    }
  }
}

TEST(RecurrentState, WhatALongPassTookInCannotBeDropped) {
  CountedText text;
  text.chain(40);
  EXPECT_EQ(text.state.reachable(24), 24);
  EXPECT_EQ(text.state.reachable(23), 0);
  EXPECT_EQ(text.state.reachable(kAll), 40);
  text.chain(1);
  EXPECT_EQ(text.state.reachable(40), 40);
  EXPECT_EQ(text.state.reachable(39), 0);
  EXPECT_EQ(text.truncate(39), 0);
  text.chain(5);  // from the beginning
  text.chain(2);
}

TEST(RecurrentState, RowsFromTheHeldPositionOnStayToBeDropped) {
  for (const std::int64_t held : {30, 35, 40, 41}) {
    CountedText text;
    text.chain(40);
    text.state.hold(held);
    for (const std::int64_t rows : {1, 3, 1, 50, 2}) text.chain(rows);
    for (std::int64_t position = 97; position >= held; position -= 9) {
      CountedText own = text.share(position);
      EXPECT_EQ(own.state.length(), position);
      own.chain(2);
    }
    EXPECT_EQ(text.truncate(held), held);
    text.chain(4);
    text.state.hold(text.state.length());  // later: rows before it need not stay
    text.chain(3);
    EXPECT_EQ(text.state.settled_kept(), 0);
    EXPECT_EQ(text.state.kept(), 3);
  }
}

// What is held ends within a pass, or a longer one goes past it.
TEST(RecurrentState, HeldPositionsWithinPasses) {
  for (const std::int64_t ahead : {0, 1, 5, 20, 60, 100, 140}) {
    CountedText text;
    text.chain(30);
    text.state.hold(30 + ahead);
    text.chain(100);
    const std::int64_t reach = std::min<std::int64_t>(30 + ahead, 114);
    EXPECT_EQ(text.state.reachable(reach), reach);
    EXPECT_EQ(text.state.reachable(reach - 1), 0);
    text.chain(20);
    if (ahead <= 84) {
      EXPECT_EQ(text.state.reachable(30 + ahead), 30 + ahead);
    }
    EXPECT_EQ(text.truncate(134), 134);
    text.chain(2);
  }
}

TEST(RecurrentState, PathsOfTreesStay) {
  const std::vector<std::int32_t> tree = {-1, 0, 0, 1, 2, 2, -1, 6, 4};
  for (const std::vector<std::int32_t>& path : std::vector<std::vector<std::int32_t>>{
           {}, {0}, {6}, {0, 1, 3}, {0, 2}, {0, 2, 4, 8}, {0, 2, 5}, {6, 7}}) {
    for (const std::int64_t before : {0, 1, 5, 30}) {
      for (const std::int64_t held : {kAll, before, before - 1, before - 3}) {
        CountedText text;
        if (before > 0) text.chain(before);
        text.state.hold(held);
        text.tree(tree, path);
        text.tree(tree, path);
        const std::int64_t length = text.state.length();
        if (!path.empty()) {
          EXPECT_EQ(text.truncate(length - 1), length - 1);
        }
        text.chain(2);
        text.tree(tree, path);
        text.chain(20);
      }
    }
  }
}

TEST(RecurrentState, LongStraightBeginningsOfTreesGoIntoTheStateUpToTheFirstBranch) {
  for (const std::int32_t from : {0, 20, 39, 61}) {  // where the second branch leaves
    for (const std::int64_t held : {kAll, kAll - 1, std::int64_t{5}, std::int64_t{40}}) {
      std::vector<std::int32_t> parents;
      for (std::int32_t i = 0; i < 63; ++i) parents.push_back(i - 1);
      parents.push_back(from);
      for (std::int32_t i = 64; i < 90; ++i) parents.push_back(i - 1);
      std::vector<std::int32_t> path;
      for (std::int32_t i = 0; i <= from; ++i) path.push_back(i);
      for (std::int32_t i = 63; i < 70; ++i) path.push_back(i);
      CountedText text;
      text.chain(4);
      text.state.hold(held);
      const RowPlan plan = RowPlan::of(90, parents, {});
      const std::int64_t settled = std::min<std::int64_t>(from + 1, held - 4);
      EXPECT_EQ(text.state.settled(plan), settled);
      text.tree(parents, path);
      EXPECT_EQ(text.state.reachable(4 + settled), 4 + settled);
      text.chain(3);
      const std::int64_t earlier = text.state.length() - 2;
      EXPECT_EQ(text.truncate(earlier), earlier);
      text.chain(1);
    }
  }
}

TEST(RecurrentState, RowsThatAreInTheStateAreNotDropped) {
  std::vector<std::int32_t> parents;
  for (std::int32_t i = 0; i < 40; ++i) parents.push_back(i - 1);
  parents.push_back(20);
  CountedText text;
  text.pass(RowPlan::of(41, parents, {}), Ids(41, 3));
  const std::vector<std::int32_t> path = {0, 1, 2};
  EXPECT_THROW(text.state.keep(path), std::logic_error);
  EXPECT_EQ(text.truncate(0), 0);
  text.chain(3);
}

TEST(RecurrentState, CheckpointsServeEarlierPositions) {
  CountedText text;
  text.chain(20);
  text.state.remember();  // of the first state from position 20 on
  EXPECT_EQ(text.state.reachable(19), 19);
  text.chain(1);
  text.chain(1);
  EXPECT_EQ(text.state.reachable(20), 20);
  EXPECT_EQ(text.state.reachable(19), 0);
  text.chain(50);  // 56 positions are in the state
  text.state.remember();
  text.chain(9);
  EXPECT_EQ(text.state.reachable(55), 20);
  EXPECT_EQ(text.state.reachable(71), 20);
  EXPECT_EQ(text.state.reachable(72), 72);
  text.chain(9);
  EXPECT_EQ(text.state.reachable(80), 72);
  for (const std::int64_t position : {0, 19, 20, 50, 72, 75, 81, 85, 90}) {
    CountedText own = text.share(position);
    own.chain(30);
    EXPECT_EQ(own.state.reachable(25), position >= 20 ? 20 : 25);
  }
  EXPECT_EQ(text.truncate(40), 20);
  EXPECT_EQ(text.state.reachable(19), 0);
  text.chain(7);
  text.chain(7);
  EXPECT_EQ(text.truncate(24), 20);  // again: the checkpoint is still there
  text.chain(7);
  EXPECT_EQ(text.truncate(19), 0);
  EXPECT_EQ(text.state.reachable(30), 0);
  text.chain(7);
}

// A checkpoint that was asked for is of a state that has not passed what is held.
TEST(RecurrentState, CheckpointsWaitForHeldRows) {
  CountedText text;
  text.chain(20);
  text.state.hold(20);
  text.chain(4);
  text.state.remember();  // position 24
  text.chain(4);
  text.state.hold(28);
  EXPECT_EQ(text.state.reachable(20), 20);
  text.chain(2);  // the state is that of 28 positions
  text.state.hold(kAll);
  text.chain(1);
  EXPECT_EQ(text.state.reachable(29), 28);
  EXPECT_EQ(text.truncate(29), 28);
  text.chain(1);
}

TEST(RecurrentState, FourCheckpointsAtMostTheNewestAmongThem) {
  std::mt19937 random(3);
  CountedText text;
  for (int i = 0; i < 60; ++i) {
    text.state.remember();
    text.chain(1 + static_cast<std::int64_t>(random() % 40));
    const std::int64_t newest = text.state.length() - text.state.kept();
    text.chain(1);  // all checkpoints are of earlier positions than the state
    const std::int64_t base = text.state.length() - text.state.kept();
    ASSERT_GT(base, newest);
    std::vector<std::int64_t> reached;
    for (std::int64_t p = 1; p < base; ++p) {
      const std::int64_t r = text.state.reachable(p);
      if (r > 0 && (reached.empty() || reached.back() != r)) reached.push_back(r);
    }
    ASSERT_LE(reached.size(), 4U);
    if (newest > 0) {
      ASSERT_EQ(reached.back(), newest);
    }
    for (const std::int64_t position : reached) text.share(position).chain(2);
  }
  EXPECT_EQ(text.share(text.state.length()).state.bytes() / sizeof(float),
            5 * static_cast<std::size_t>(2 * kCounting.state()) +
                static_cast<std::size_t>(2 * kCounting.row()));
}

TEST(RecurrentState, APassThatFailedIsNotGoneOnWith) {
  CountedText text;
  text.chain(3);
  text.state.begin();
  EXPECT_THROW(text.state.begin(), std::logic_error);
}

TEST(RecurrentState, MemoryIsCountedAndGoesBack) {
  const auto pool = std::make_shared<KvPool>(std::size_t{1} << 30);
  {
    CountedText text(pool);
    EXPECT_EQ(pool->used(), 0U);
    std::mt19937 random(9);
    std::size_t journal = 0;  // of the text's bytes
    const std::size_t state = sizeof(float) * static_cast<std::size_t>(2 * kCounting.state());
    for (int i = 0; i < 300; ++i) {
      if (i % 20 == 7) text.state.hold(text.state.length());
      const RowPlan plan(1 + static_cast<std::int64_t>(random() % (i % 10 == 0 ? 100 : 6)));
      const std::size_t more = text.state.bytes_to_reserve(plan), before = pool->used();
      text.state.reserve(plan);
      EXPECT_EQ(text.state.bytes_to_reserve(plan), 0U);
      EXPECT_EQ(pool->used(), text.state.bytes());
      if (i == 0) {
        EXPECT_EQ(before + more, pool->used());
      } else if (more > 0) {  // the new journal in place of the old one
        EXPECT_EQ(before + more - journal, pool->used());
      } else {
        EXPECT_EQ(before, pool->used());
      }
      journal = pool->used() - state;
      text.chain(plan.rows());
      if (i % 4 == 0) text.truncate(text.state.length() - 1);
    }
  }
  EXPECT_EQ(pool->used(), 0U);
  {
    CountedText text(pool);
    text.state.remember();
    text.chain(30);
    text.state.remember();
    text.chain(30);
    EXPECT_EQ(pool->used(), text.state.bytes());
    const CountedText other = text.share(50), early = text.share(14);
    EXPECT_EQ(other.state.length(), 50);
    EXPECT_EQ(early.state.length(), 14);
  }
  EXPECT_EQ(pool->used(), 0U);
}

TEST(RecurrentState, WhereThePoolIsFullNothingChanges) {
  const std::size_t row = sizeof(float) * static_cast<std::size_t>(2 * kCounting.row());
  const std::size_t state = sizeof(float) * static_cast<std::size_t>(2 * kCounting.state());
  for (std::size_t limit = 0; limit < state + 12 * row; limit += 4) {
    const auto pool = std::make_shared<KvPool>(limit);
    CountedText text(pool);
    for (const std::int64_t rows : {3, 1, 5, 6}) {
      const RowPlan plan(rows);
      const std::size_t needed = text.state.bytes_to_reserve(plan), used = pool->used();
      const std::size_t bytes = text.state.bytes();
      if (needed <= pool->available()) {
        text.chain(rows);
        continue;
      }
      EXPECT_THROW(text.state.reserve(plan), KvPoolFull);
      EXPECT_EQ(pool->used(), used);
      EXPECT_EQ(text.state.bytes(), bytes);
      EXPECT_EQ(text.state.bytes_to_reserve(plan), needed);
      text.expect_whole();
    }
  }
}

// Where little is free a checkpoint is left out: it only saves time.
TEST(RecurrentState, CheckpointsTakeNoMemoryThatIsShort) {
  const std::size_t row = sizeof(float) * static_cast<std::size_t>(2 * kCounting.row());
  const std::size_t state = sizeof(float) * static_cast<std::size_t>(2 * kCounting.state());
  for (const std::size_t free : {std::size_t{0}, state, 3 * state, 4 * state}) {
    const auto pool = std::make_shared<KvPool>(state + 16 * row + free);
    CountedText text(pool);
    text.state.remember();
    text.chain(30);
    EXPECT_EQ(text.state.bytes() + (free == 4 * state ? 0U : state), 2 * state + 16 * row);
    text.chain(1);
    EXPECT_EQ(text.truncate(25), free == 4 * state ? 14 : 0);
    text.chain(1);
  }
}

// Everything at once, at random.
TEST(RecurrentState, AnyOrderOfPassesDropsHoldsAndCopies) {
  std::mt19937 random(11);
  const auto pool = std::make_shared<KvPool>();
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(n));
  };
  {
    std::vector<CountedText> texts;
    for (int i = 0; i < 3; ++i) texts.emplace_back(pool);
    for (int step = 0; step < 4000 && !::testing::Test::HasFailure(); ++step) {
      CountedText& text = texts[static_cast<std::size_t>(below(3))];
      const std::int64_t length = text.state.length(), kind = below(10);
      if (length > 400) {
        text.truncate(below(length));
      } else if (kind < 3) {
        text.chain(1 + below(kind == 0 ? 60 : 5));
      } else if (kind < 6) {
        const std::int64_t straight = kind == 3 ? below(40) : 0, rows = straight + 1 + below(20);
        std::vector<std::int32_t> parents, path;
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t back = i < straight ? 0 : below(std::min<std::int64_t>(i + 1, 8));
          parents.push_back(static_cast<std::int32_t>(i - 1 - back));
        }
        const RowPlan plan = RowPlan::of(rows, parents, {});
        const std::int64_t settled = text.state.settled(plan);
        for (auto at = static_cast<std::int32_t>(below(rows + 1)) - 1; at >= 0;
             at = parents[static_cast<std::size_t>(at)]) {
          path.insert(path.begin(), at);
        }
        for (auto i = static_cast<std::int32_t>(path.size()); i < settled; ++i) path.push_back(i);
        text.tree(parents, path);
      } else if (kind == 6) {
        text.state.hold(below(3) == 0 ? kAll : length - below(4));
      } else if (kind == 7) {
        text.state.remember();
      } else if (kind == 8) {
        text.truncate(std::max<std::int64_t>(0, length - below(below(9) == 0 ? 100 : 12)));
      } else {
        CountedText other = text.share(std::max<std::int64_t>(0, length - below(30)));
        texts[static_cast<std::size_t>(below(3))] = std::move(other);
      }
    }
  }
  EXPECT_EQ(pool->used(), 0U);
}

}  // namespace
}  // namespace forerun
