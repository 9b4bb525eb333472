// The adapter between the loop and a drafter: which calls arrive where, and which times do not
// count.
#include "forerun/methods/adaptive_drafter.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

// Drafts as many tokens as planned, each the number it will be compared with; its first call is
// slow.
class CountingDrafter {
 public:
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths) {
    std::vector<TokenDraft> drafts(sequences.size());
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      drafts[i].tokens.assign(lengths[i], Token{1});
      queried += lengths[i];
    }
    if (queried > 0 && prefill_ == 0.0) prefill_ = 5.0;  // seconds, the first time it reads
    return drafts;
  }
  template <class Verified>
  void observe(std::span<TokenSequence* const>, std::span<const TokenDraft>, const Verified&,
               std::span<const Outcome>) {}
  Prefilled prefilled() const { return {prefill_ > 0.0 ? 1000U : 0U, prefill_}; }

  std::size_t queried = 0;

 private:
  double prefill_ = 0.0;
};

using TestRound = Round<TokenSequence, TokenDraft, int>;

// Rounds of 10 ms a pass, 1 ms a drafted token, everything accepted; returns tokens a round.
double tokens_per_round(AdaptiveDrafter<CountingDrafter>& adaptive, int rounds) {
  TokenSequence sequence(1, 0, {1, 2}, 100000);
  TokenSequence* sequences[] = {&sequence};
  double seen_prefill = 0.0;
  for (int r = 0; r < rounds; ++r) {
    const auto drafts = adaptive.propose(sequences);
    const auto k = static_cast<std::uint32_t>(drafts[0].size());
    for (std::uint32_t i = 0; i <= k; ++i) sequence.push(1);
    const Outcome out{.drafted = k, .examined = k, .accepted = k, .emitted = k + 1};
    const bool reads = k > 0 && seen_prefill == 0.0;
    if (reads) seen_prefill = 5.0;
    const Timings seconds{
        .drafter = 1e-5 + 1e-3 * k + (reads ? 5.0 : 0.0), .target = 0.010, .rest = 1e-5};
    const int nothing = 0;
    adaptive.learn(TestRound{sequences, drafts, nothing, {&out, 1}, seconds}, seconds);
    sequence.next_round();
  }
  return static_cast<double>(sequence.outputs().size()) / rounds;
}

TEST(AdaptiveDrafter, ADraftersPrefillIsNotThePriceOfADraft) {
  AdaptiveDrafter<CountingDrafter> adaptive(CountingDrafter(), DraftLength(), 8);
  EXPECT_GT(tokens_per_round(adaptive, 60), 5.0);
}

TEST(AdaptiveDrafter, NeverDraftsMoreThanCanBeEmitted) {
  AdaptiveDrafter<CountingDrafter> adaptive(CountingDrafter(), DraftLength({.adaptive = false}), 8);
  TokenSequence sequence(1, 0, {1, 2}, 4);
  TokenSequence* sequences[] = {&sequence};
  EXPECT_EQ(adaptive.propose(sequences)[0].size(), 3U);
  sequence.push(1);
  sequence.push(1);
  sequence.push(1);
  EXPECT_EQ(adaptive.propose(sequences)[0].size(), 0U);
}

}  // namespace
}  // namespace forerun
