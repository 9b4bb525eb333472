#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "forerun/tensor/recurrent_state.h"

/// Recurrent layers whose states are whole numbers: every sum is exact, so a state is compared with
/// that of the whole text, added up row by row.
namespace forerun::counted {

using Ids = std::vector<std::int64_t>;
inline constexpr RecurrentState::Shape kCounting{.layers = 2,
                                                 .channels = 3,
                                                 .window = 2,
                                                 .key_heads = 1,
                                                 .key_dim = 2,
                                                 .value_heads = 2,
                                                 .value_dim = 2};

inline float input_of(std::int64_t layer, std::int64_t id, std::int64_t channel) {
  return static_cast<float>(100 * id + 10 * layer + channel + 1);
}

inline void write_row(std::int64_t layer, std::int64_t id, const RecurrentState::Row& to) {
  for (std::int64_t c = 0; c < kCounting.channels; ++c) to.inputs[c] = input_of(layer, id, c);
  if (to.keys == nullptr) return;
  for (std::int64_t i = 0; i < 2; ++i) to.keys[i] = static_cast<float>((id + i * layer) % 5 - 2);
  for (std::int64_t i = 0; i < 4; ++i) to.deltas[i] = static_cast<float>((id * 3 + i) % 7 - 3);
  for (std::int64_t i = 0; i < 2; ++i) to.decays[i] = (id + i) % 11 == 0 ? -1.0F : 1.0F;
}

inline void add_row(float* matrix, std::int64_t head, const RecurrentState::Row& r) {
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) {
      float& x = matrix[2 * i + j];
      x = r.decays[head] * x + r.keys[i] * r.deltas[2 * head + j];
    }
  }
}

/// A state and the rows that it is of.
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

}  // namespace forerun::counted
