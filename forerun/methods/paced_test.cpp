// What stands between the loop and a drafter: who is told what, and what does not count.
#include "forerun/methods/paced.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

// Drafts as many tokens as asked, each the number it will be compared with; its first call is dear.
class CountingDrafter {
 public:
  std::vector<TokenDraft> propose(std::span<TokenLane* const> lanes,
                                  std::span<const std::size_t> lengths) {
    std::vector<TokenDraft> drafts(lanes.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      drafts[i].tokens.assign(lengths[i], Token{1});
      asked += lengths[i];
    }
    if (asked > 0 && prefill_ == 0.0) prefill_ = 5.0;  // seconds, the first time it reads
    return drafts;
  }
  template <class Verified>
  void observe(std::span<TokenLane* const>, std::span<const TokenDraft>, const Verified&,
               std::span<const Outcome>) {}
  Prefilled prefilled() const { return {prefill_ > 0.0 ? 1000U : 0U, prefill_}; }

  std::size_t asked = 0;

 private:
  double prefill_ = 0.0;
};

using TestRound = Round<TokenLane, TokenDraft, int>;

// Rounds of 10 ms a pass, 1 ms a drafted token, everything accepted; returns tokens a round.
double tokens_per_round(Paced<CountingDrafter>& paced, int rounds) {
  TokenLane lane(1, 0, {1, 2}, 100000);
  TokenLane* lanes[] = {&lane};
  double seen_prefill = 0.0;
  for (int r = 0; r < rounds; ++r) {
    const auto drafts = paced.propose(lanes);
    const auto k = static_cast<std::uint32_t>(drafts[0].size());
    for (std::uint32_t i = 0; i <= k; ++i) lane.push(1);
    const Outcome out{.drafted = k, .examined = k, .accepted = k, .emitted = k + 1};
    const bool reads = k > 0 && seen_prefill == 0.0;
    if (reads) seen_prefill = 5.0;
    const Timings seconds{
        .drafter = 1e-5 + 1e-3 * k + (reads ? 5.0 : 0.0), .target = 0.010, .rest = 1e-5};
    const int nothing = 0;
    paced.learn(TestRound{lanes, drafts, nothing, {&out, 1}, seconds}, seconds);
    lane.next_round();
  }
  return static_cast<double>(lane.outputs().size()) / rounds;
}

TEST(Paced, ADraftersPrefillIsNotThePriceOfADraft) {
  Paced<CountingDrafter> paced(CountingDrafter(), DraftLength(), 8);
  EXPECT_GT(tokens_per_round(paced, 60), 5.0);
}

TEST(Paced, NeverAsksForMoreThanCanBeEmitted) {
  Paced<CountingDrafter> paced(CountingDrafter(), DraftLength({.adaptive = false}), 8);
  TokenLane lane(1, 0, {1, 2}, 4);
  TokenLane* lanes[] = {&lane};
  EXPECT_EQ(paced.propose(lanes)[0].size(), 3U);
  lane.push(1);
  lane.push(1);
  lane.push(1);
  EXPECT_EQ(paced.propose(lanes)[0].size(), 0U);
}

}  // namespace
}  // namespace forerun
