// The state of recurrent layers alone, against whole texts.
#include "forerun/tensor/recurrent_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/support/counted_text.h"

namespace forerun {
namespace {

using counted::CountedText;
using counted::Ids;
using counted::kCounting;

constexpr std::int64_t kAll = 1 << 20;

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
