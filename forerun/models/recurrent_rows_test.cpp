// Recurrent layers of random texts in any passes, against texts read row by row, bit for bit, and
// against the formulas of transformers' modeling_lfm2.py and modeling_qwen3_5.py in float64.
#include "forerun/models/recurrent_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/recurrent_readings.h"

namespace forerun {
namespace {

std::size_t u(std::int64_t n) { return static_cast<std::size_t>(n); }

BlockConfig short_conv(std::int64_t taps, std::int64_t hidden) {
  BlockConfig c;
  c.hidden = hidden;
  c.recurrent = {.kind = RecurrentConfig::Kind::kShortConv, .taps = taps};
  return c;
}

BlockConfig gated_delta(std::int64_t taps, std::int64_t key_heads, std::int64_t times, bool tiled,
                        std::int64_t key_dim, std::int64_t value_dim) {
  BlockConfig c;
  c.hidden = 24;
  c.recurrent = {.kind = RecurrentConfig::Kind::kGatedDelta,
                 .taps = taps,
                 .key_heads = key_heads,
                 .key_dim = key_dim,
                 .value_heads = key_heads * times,
                 .value_dim = value_dim,
                 .tiled = tiled};
  return c;
}

// The states of a text after each position, by both readings.
struct Known {
  ByRows rows;
  InFloat64 exact;
};

struct RandomText {
  RandomText(const RandomLayers& all, std::shared_ptr<KvPool> pool)
      : state(state_shape(all.c, RandomLayers::kLayers), std::move(pool)) {
    known.push_back(std::make_shared<Known>(Known{ByRows(all.c), InFloat64(all.c)}));
  }
  RandomText(RecurrentState s, std::vector<std::shared_ptr<const Known>> k)
      : state(std::move(s)), known(std::move(k)) {}
  std::int64_t length() const { return static_cast<std::int64_t>(known.size()) - 1; }

  RecurrentState state;
  std::vector<std::shared_ptr<const Known>> known;  // of 0 positions, of 1, ...
  std::int64_t reach = 0;  // positions from this one on are promised to be there
};

// The part of one text in a pass.
struct Part {
  RandomText* text;
  RowPlan plan;
  std::vector<std::int64_t> ids;
  std::vector<std::shared_ptr<const Known>> after{};  // of each row
};

class RecurrentPasses {
 public:
  RecurrentPasses(const BlockConfig& config, std::uint32_t seed)
      : all(config, seed), random(seed + 1), rows_(config) {}

  // Runs a pass, its items in any order, and compares all outputs.
  void run(std::vector<Part>& parts) {
    rows_.clear();
    for (Part& p : parts) {
      const std::size_t before = pool->used(), journal = p.text->state.bytes();
      const std::size_t more = p.text->state.bytes_to_reserve(p.plan);
      p.text->state.reserve(p.plan);
      ASSERT_LE(pool->used(), before + more);
      ASSERT_EQ(pool->used() - before, p.text->state.bytes() - journal);
      rows_.add_sequence(&p.text->state, &p.plan);
    }
    const std::int64_t workers = 1 + below(3);
    rows_.start(workers);
    std::vector<std::vector<std::vector<float>>> outputs;
    for (std::int64_t layer = 0; layer < RandomLayers::kLayers; ++layer) {
      outputs.push_back(layer_outputs(parts, layer, workers));
    }
    std::size_t row = 0;
    for (Part& p : parts) {
      for (std::int64_t i = 0; i < p.plan.rows(); ++i, ++row) {
        const std::int64_t parent = p.plan.parent(i);
        Known own = parent < 0 ? *p.text->known.back() : *p.after[u(parent)];
        for (std::int64_t layer = 0; layer < RandomLayers::kLayers; ++layer) {
          const std::vector<float>& got = outputs[u(layer)][row];
          const std::vector<float> want = own.rows.read(all, layer, p.ids[u(i)]);
          ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
              << "row " << i << " of " << p.plan.rows() << " after " << p.text->length()
              << ", layer " << layer;
          const std::vector<double> exact = own.exact.read(all, layer, p.ids[u(i)]);
          for (std::size_t j = 0; j < exact.size(); ++j) {
            ASSERT_NEAR(got[j], exact[j], 2e-4 * (1.0 + std::abs(exact[j]))) << "row " << i;
          }
        }
        p.after.push_back(std::make_shared<Known>(std::move(own)));
      }
      const std::int64_t length = p.text->length();
      p.text->state.advance(p.plan);
      if (!p.plan.chain()) continue;
      p.text->known.insert(p.text->known.end(), p.after.begin(), p.after.end());
      ASSERT_EQ(p.text->state.length(), p.text->length());
      passed(*p.text, length, p.text->length() - RecurrentState::kJournal);
    }
  }
  Part chain(RandomText& text, std::int64_t n) { return {&text, RowPlan(n), ids(n)}; }
  // The first `straight` rows follow each other, the others any of the `near` before them.
  Part tree(RandomText& text, std::int64_t straight, std::int64_t n, std::int64_t near) {
    std::vector<std::int32_t> parents;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t back = i < straight ? 0 : below(std::min(i + 1, near));
      parents.push_back(static_cast<std::int32_t>(i - 1 - back));
    }
    return {&text, RowPlan::of(n, parents, {}), ids(n)};
  }
  // Keeps nothing of a tree that has run.
  void drop(Part& p, std::int64_t length) {
    passed(*p.text, length, length);
    truncate(*p.text, length);
  }
  // Keeps a random path of it.
  void keep(Part& p, std::int64_t settled, std::int64_t length) {
    std::vector<std::int32_t> path;
    for (std::int64_t at = below(p.plan.rows() + 1) - 1; at >= 0; at = p.plan.parent(at)) {
      path.insert(path.begin(), static_cast<std::int32_t>(at));
    }
    for (auto i = static_cast<std::int32_t>(path.size()); i < settled; ++i) path.push_back(i);
    p.text->state.keep(path);
    for (const std::int32_t row : path) p.text->known.push_back(p.after[u(row)]);
    ASSERT_EQ(p.text->state.length(), p.text->length());
    passed(*p.text, length, length + settled);
  }
  void truncate(RandomText& text, std::int64_t position) {
    const std::int64_t reached = text.state.truncate(position);
    ASSERT_LE(reached, position);
    if (position >= text.reach) {
      ASSERT_EQ(reached, position);
    }
    text.known.resize(u(reached) + 1);
    text.reach = std::min(text.reach, reached);
  }
  RandomText share(const RandomText& text, std::int64_t position) {
    RandomText out(text.state.share(position), text.known);
    const std::int64_t reached = out.state.length();
    EXPECT_LE(reached, position);
    if (position >= text.reach) {
      EXPECT_EQ(reached, position);
    }
    out.known.resize(u(reached) + 1);
    out.reach = reached;
    return out;
  }
  void hold(RandomText& text, std::int64_t position) {
    text.state.hold(position);
    held_[&text] = position;
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(n));
  }
  void forget(RandomText& text) { held_.erase(&text); }

  RandomLayers all;
  std::mt19937 random;
  std::shared_ptr<KvPool> pool = std::make_shared<KvPool>();

 private:
  std::vector<std::int64_t> ids(std::int64_t n) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < n; ++i) out.push_back(below(RandomLayers::kIds));
    return out;
  }
  // What may be dropped after a pass that began at `length`: rows of the pass from `from` on, and
  // those that are held.
  void passed(RandomText& text, std::int64_t length, std::int64_t from) {
    const auto held = held_.find(&text);
    const std::int64_t pass = std::max(length, from);
    text.reach = std::min(
        pass, held == held_.end() ? pass : std::max(held->second, std::min(text.reach, pass)));
  }
  // Items in a random order: one after the other by any of the workers, or by all of them at once.
  template <class Work>
  void each(std::int64_t items, std::int64_t workers, const Work& work) {
    std::vector<std::int64_t> order(u(items));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    if (below(8) > 0) {
      for (const std::int64_t i : order) work(i, below(workers));
      return;
    }
    std::vector<std::thread> threads;
    for (std::int64_t w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] {
        for (std::int64_t i = w; i < items; i += workers) work(order[u(i)], w);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<std::vector<float>> layer_outputs(const std::vector<Part>& parts, std::int64_t layer,
                                                std::int64_t workers) {
    std::vector<float> products, steps;
    for (const Part& p : parts) {
      for (const std::int64_t id : p.ids) {
        const float* const x = all.products_of(layer, id);
        products.insert(products.end(), x, x + all.stride);
        const float* const st = all.steps_of(layer, id);
        steps.insert(steps.end(), st, st + 2 * all.c.recurrent.value_heads);
      }
    }
    const bool delta = all.c.recurrent.kind == RecurrentConfig::Kind::kGatedDelta;
    const RecurrentRows::Layer own{.values = &all.values[u(layer)],
                                   .index = layer,
                                   .products = products.data(),
                                   .stride = all.stride,
                                   .steps = delta ? steps.data() : nullptr};
    each(rows_.convolve_items(), workers,
         [&](std::int64_t i, std::int64_t) { rows_.convolve(own, i); });
    if (delta) {
      each(rows_.carry_items(), workers,
           [&](std::int64_t i, std::int64_t w) { rows_.carry(own, i, w); });
    }
    std::vector<std::vector<float>> out(u(rows_.rows()),
                                        std::vector<float>(u(all.c.recurrent_outputs())));
    each(rows_.rows() + rows_.sequences(), workers, [&](std::int64_t i, std::int64_t) {
      if (i >= rows_.rows()) return rows_.close(own, i - rows_.rows());
      rows_.output(own, i, out[u(i)].data());
    });
    return out;
  }

  RecurrentRows rows_;
  std::map<const RandomText*, std::int64_t> held_;
};

struct RecurrentCase {
  std::string name;
  BlockConfig config;
  friend void PrintTo(const RecurrentCase& c, std::ostream* out) { *out << c.name; }
};

class RecurrentRowsOf : public ::testing::TestWithParam<RecurrentCase> {
 protected:
  RecurrentPasses passes_{GetParam().config, 5};
  RandomText text() { return {passes_.all, passes_.pool}; }
  void run(Part part) {
    std::vector<Part> parts;
    parts.push_back(std::move(part));
    passes_.run(parts);
  }
};

TEST_P(RecurrentRowsOf, AnyCutOfATextIsTheTextRowByRow) {
  for (const std::int64_t size : {1, 2, 3, 15, 16, 17, 33, 64, 65, 90, 513, 700}) {
    RandomText own = text();
    const std::int64_t rows = size > 100 ? 700 : 100;
    while (own.length() < rows && !HasFailure()) {
      run(passes_.chain(own, std::min(size, rows - own.length())));
    }
  }
}

TEST_P(RecurrentRowsOf, AnyPassesDropsHoldsAndCopies) {
  std::vector<std::unique_ptr<RandomText>> texts;
  for (int i = 0; i < 4; ++i) texts.push_back(std::make_unique<RandomText>(text()));
  for (int step = 0; step < 250 && !HasFailure(); ++step) {
    std::vector<Part> parts;
    std::vector<std::int64_t> settled, lengths;
    for (auto& own : texts) {
      const std::int64_t kind = passes_.below(12), length = own->length();
      if (length > 300) passes_.truncate(*own, passes_.below(length));
      if (kind >= 8) continue;
      if (kind < 4) {
        const std::int64_t n = kind < 2 ? 6 : kind == 2 ? 20 : passes_.below(25) == 0 ? 700 : 80;
        parts.push_back(passes_.chain(*own, passes_.below(n + 1)));
      } else if (kind < 6) {
        const std::int64_t n = 1 + passes_.below(kind == 4 ? 40 : 12);
        parts.push_back(passes_.tree(*own, 0, n, 1 + passes_.below(8)));
      } else {
        const std::int64_t straight = passes_.below(kind == 6 ? 100 : 30);
        const std::int64_t n = straight + 1 + passes_.below(20);
        parts.push_back(passes_.tree(*own, straight, n, 1 + passes_.below(passes_.below(4) + 5)));
      }
      settled.push_back(own->state.settled(parts.back().plan));
      lengths.push_back(own->length());
    }
    if (!parts.empty()) passes_.run(parts);
    if (HasFailure()) return;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].plan.chain()) continue;
      if (settled[i] == 0 && passes_.below(5) == 0) {  // none of its rows
        passes_.drop(parts[i], lengths[i]);
      } else {
        passes_.keep(parts[i], settled[i], lengths[i]);
      }
    }
    for (auto& own : texts) {
      const std::int64_t kind = passes_.below(24), length = own->length();
      const auto back = [&](std::int64_t n) {
        return std::max<std::int64_t>(0, length - passes_.below(n));
      };
      if (kind < 4) passes_.truncate(*own, back(kind == 0 ? 50 : 8));
      if (kind == 4) passes_.truncate(*own, std::min(own->reach, length));
      if (kind == 5 || kind == 6) passes_.hold(*own, back(6));
      if (kind == 7) passes_.hold(*own, std::int64_t{1} << 40);
      if (kind == 8) own->state.remember();
      if (kind == 9) {
        auto other = std::make_unique<RandomText>(passes_.share(*own, back(40)));
        auto& place = texts[u(passes_.below(4))];
        passes_.forget(*place);
        place = std::move(other);
      }
    }
  }
  texts.clear();
  EXPECT_EQ(passes_.pool->used(), 0U);
}

// Drafts over several passes, then a part of them: what a draft model does.
TEST_P(RecurrentRowsOf, HeldRowsAreDroppedAfterManyPasses) {
  RandomText own = text();
  run(passes_.chain(own, 30));
  for (int round = 0; round < 60 && !HasFailure(); ++round) {
    const std::int64_t length = own.length();
    passes_.hold(own, length);
    const std::int64_t drafts = 1 + passes_.below(9);
    for (std::int64_t i = 0; i < drafts; ++i) run(passes_.chain(own, 1 + passes_.below(3)));
    passes_.truncate(own, length + passes_.below(own.length() - length + 1));
    ASSERT_GE(own.length(), length);
  }
}

// Both go on after one text was taken over by the other, at any of its positions.
TEST_P(RecurrentRowsOf, TextsThatBeginAlikeGoOnApart) {
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    RandomText own = text();
    run(passes_.chain(own, 1 + passes_.below(60)));
    own.state.remember();
    run(passes_.chain(own, 1 + passes_.below(60)));
    passes_.hold(own, own.length());
    run(passes_.chain(own, 1 + passes_.below(5)));
    RandomText other = passes_.share(own, passes_.below(own.length() + 1));
    for (int i = 0; i < 3; ++i) {
      std::vector<Part> parts;
      parts.push_back(passes_.chain(other, 1 + passes_.below(20)));
      parts.push_back(passes_.chain(own, 1 + passes_.below(20)));
      passes_.run(parts);
    }
    passes_.forget(own);
  }
  EXPECT_EQ(passes_.pool->used(), 0U);
}

std::vector<RecurrentCase> all_cases() {
  std::vector<RecurrentCase> out;
  for (const std::int64_t taps : {2, 3, 4, 5}) {
    const std::int64_t hidden = taps == 3 ? 300 : 8 * taps;  // items of 256 channels
    out.push_back({"conv_" + std::to_string(taps), short_conv(taps, hidden)});
    for (const std::int64_t times : {1, 2, 4}) {
      const bool tiled = (taps + times) % 2 == 0;
      const std::int64_t key_dim = taps == 2 ? 7 : taps == 3 ? 16 : taps == 4 ? 8 : 17;
      const std::int64_t value_dim = times == 1 ? 48 : times == 2 ? 32 : 16;
      out.push_back(
          {"delta_" + std::to_string(taps) + "_" + std::to_string(times) + (tiled ? "_tiled" : ""),
           gated_delta(taps, times == 4 ? 2 : 3, times, tiled, key_dim, value_dim)});
    }
  }
  out.push_back({"delta_4_2_both", gated_delta(4, 2, 2, true, 16, 16)});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Layers, RecurrentRowsOf, ::testing::ValuesIn(all_cases()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace forerun
