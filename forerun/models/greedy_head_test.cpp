// Logits of the rows that greedy decoding reaches are those of the whole product; others are
// excluded, and say so.
#include "forerun/models/greedy_head.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "forerun/tensor/cpu/arena.h"
#include "forerun/tensor/cpu/kernels/variants.h"

namespace forerun {
namespace {

constexpr std::int64_t kHeadVocab = 1000, kInputs = 64, kHeadRows = 9;

class GreedyHeadTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (kinds_.empty()) GTEST_SKIP() << "this processor has no AVX2";
    use_.emplace(kinds_[GetParam()]);
    generator_ = at::make_generator<at::CPUGeneratorImpl>(3);
    weight_ = at::randn({kHeadVocab, kInputs}, generator_);
    set_rows(at::randn({kHeadRows, kInputs}, generator_));
  }

  void set_rows(const at::Tensor& rows) {
    head_ = Int8Matrix::pack(weight_, {}, arena_);
    x_ = room_.room_for(kHeadRows, kInputs);
    std::vector<float> work(static_cast<std::size_t>(x_.width));
    for (std::int64_t r = 0; r < kHeadRows; ++r) {
      kernels().quantize_row(rows.data_ptr<float>() + r * kInputs, kInputs, x_, r, work.data());
    }
    all_ = at::empty({kHeadRows, kHeadVocab});
    head_.multiply(0, head_.panels(), x_, kHeadRows, all_.data_ptr<float>(), kHeadVocab, false);
  }

  Token best(std::int64_t row) const { return all_[row].argmax().item<std::int64_t>(); }
  Token other(std::int64_t row) const { return all_[row].argmin().item<std::int64_t>(); }

  struct Follows {
    std::int32_t parent = GreedyHead::kNone;
    Token token = 0;
  };
  // Row by row: of these the reached ones are whole, the others begin with NaN; of those the first
  // `needed` logits but that one are computed.
  void expect(const std::vector<Follows>& rows, const std::set<std::int64_t>& reached, int threads,
              std::int64_t needed = 0) {
    greedy_.clear();
    greedy_.need_first(needed);
    for (const Follows& row : rows) greedy_.add(row.parent, row.token);
    greedy_.start(head_, threads);
    ASSERT_TRUE(greedy_.conditional());
    out_ = at::full({kHeadRows, kHeadVocab}, -1.0);
    at::Tensor& out = out_;
    ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
      greedy_.multiply(w, head_, x_, out.data_ptr<float>());
    });
    greedy_.mark_excluded(out.data_ptr<float>(), kHeadVocab);
    for (std::int64_t r = 0; r < static_cast<std::int64_t>(rows.size()); ++r) {
      if (reached.contains(r)) {
        EXPECT_TRUE(at::equal(out[r], all_[r])) << "row " << r << ", " << threads << " threads";
      } else {
        EXPECT_TRUE(std::isnan(out[r][0].item<float>())) << "row " << r;
        const std::int64_t rest = std::max<std::int64_t>(needed - 1, 0);
        EXPECT_TRUE(at::equal(out[r].narrow(0, 1, rest), all_[r].narrow(0, 1, rest)))
            << "row " << r << ", " << threads << " threads";
      }
    }
  }

  const std::vector<Kernels> kinds_ = runnable_kernels();
  std::optional<ForcedKernels> use_;
  at::Generator generator_;
  at::Tensor weight_, all_, out_;
  Arena arena_{std::size_t{1} << 20};
  Int8Matrix head_;
  Int8Activations room_;
  kernel::Int8Rows x_{};
  GreedyHead greedy_;
};

TEST_P(GreedyHeadTest, OfATreeTheRowsOnTheWayOfTheLargestLogits) {
  const std::vector<Follows> tree = {{},           {0, other(0)}, {0, best(0)},
                                     {1, best(1)}, {2, best(2)},  {2, other(2)},
                                     {5, best(5)}, {4, other(4)}, {3, best(3)}};
  for (const int threads : {1, 2, 3}) {
    for (const std::int64_t needed : {0, 1, 90, 480, 1000}) {
      expect(tree, {0, 2, 4}, threads, needed);
    }
  }
}

TEST_P(GreedyHeadTest, LeavesOutWhatNobodyNeeds) {
  const std::vector<Follows> tree = {{}, {0, other(0)}, {1, best(1)}};
  const auto computed = [&](std::int64_t needed) {
    expect(tree, {0}, 1, needed);
    return (out_[2] != -1.0).sum().item<std::int64_t>();
  };
  EXPECT_EQ(computed(1000), kHeadVocab);
  EXPECT_LT(computed(480), kHeadVocab);
  EXPECT_LT(computed(0), 480);  // what was needed before is not any more
}

TEST_P(GreedyHeadTest, OfAChainTheRowsBeforeTheFirstThatIsNotTheLargest) {
  for (int right = 0; right <= 8; ++right) {
    std::vector<Follows> chain = {{}};
    std::set<std::int64_t> reached = {0};
    for (std::int32_t r = 0; r + 1 < kHeadRows; ++r) {
      chain.push_back({r, r < right ? best(r) : other(r)});
      if (r < right) reached.insert(r + 1);
    }
    expect(chain, reached, 2);
  }
}

TEST_P(GreedyHeadTest, SequencesDoNotExcludeEachOthersRows) {
  expect({{}, {0, other(0)}, {}, {2, best(2)}, {3, other(3)}, {}}, {0, 2, 3, 5}, 2);
}

TEST_P(GreedyHeadTest, EqualLogitsExcludeNothing) {  // which of them is taken is not its business
  const Token first = best(0), second = first < 500 ? 990 : 5;
  weight_[second].copy_(weight_[first]);
  generator_ = at::make_generator<at::CPUGeneratorImpl>(3);
  at::randn({kHeadVocab, kInputs}, generator_);
  set_rows(at::randn({kHeadRows, kInputs}, generator_));
  ASSERT_EQ(all_[0][first].item<float>(), all_[0][second].item<float>());
  expect({{}, {0, first}, {0, second}, {0, other(0)}}, {0, 1, 2}, 2);
}

TEST_P(GreedyHeadTest, OneLargerLogitAnywhereExcludes) {
  for (int i = 0; i < 40; ++i) {
    weight_ = at::randn({kHeadVocab, kInputs}, generator_);
    set_rows(at::randn({kHeadRows, kInputs}, generator_));
    const Token second = std::get<1>(at::topk(all_[0], 2))[1].item<std::int64_t>();
    expect({{}, {0, second}, {1, best(1)}}, {0}, 2);
    expect({{}, {0, best(0)}, {1, best(1)}}, {0, 1, 2}, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, GreedyHeadTest,
    ::testing::Range<std::size_t>(0, std::max<std::size_t>(1, runnable_kernels().size())));

}  // namespace
}  // namespace forerun
