// What top-k, top-p and min-p leave of a slot.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "forerun/methods/tree/slot_source.h"

namespace forerun {
namespace {

// Of one slot, whose law is known once its candidates are weighed.
class OneSlot final : public SlotSource {
 public:
  std::size_t made() const override { return 1; }
  std::vector<std::pair<double, Token>> law() const { return law_; }  // the likeliest first

 private:
  std::size_t slots_of(const TokenSequence&) override { return 1; }
  SlotCandidates likeliest(std::size_t) const override {
    std::vector<float> logits;
    for (int t = 0; t < 40; ++t) logits.push_back(std::sin(static_cast<float>(3 * t)));
    return slot_candidates(logits, temperature(), bounds_of(logits));
  }
  void weigh(const Node& node, std::vector<Ranked>& candidates) override {
    SlotSource::weigh(node, candidates);
    law_.clear();
    for (const Ranked& r : candidates) law_.emplace_back(r.q, r.token);
    std::sort(law_.begin(), law_.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
  }

  std::vector<std::pair<double, Token>> law_;
};

TEST(SlotLimits, AreThoseOfTheSampling) {
  std::map<std::size_t, int> sizes;
  for (const SamplingParams& limits : {SamplingParams{1.0},
                                       {1.0, 1},
                                       {1.0, 3},
                                       {1.0, 0, 0.0},
                                       {1.0, 0, 0.1},
                                       {1.0, 0, 0.2},
                                       {1.0, 0, 1.0, 0.9},
                                       {1.0, 0, 1.0, 0.99}}) {
    OneSlot source;
    const TokenSequence sequence(7, 1, {5, 6, 7}, 100, {},
                                 {.sampling = limits, .rule = Rule::kMatch});
    ASSERT_TRUE(source.begin(sequence));
    std::vector<TreeChild> children;
    source.children(children);
    std::vector<Token> want, got;
    double mass = 0.0;
    for (const auto& [q, token] : source.law()) {
      const bool within = (limits.top_k == 0 || want.size() < limits.top_k) &&
                          mass < limits.top_p && q >= limits.min_p * source.law()[0].first;
      // The likeliest is always drafted, and no more than eight are.
      if (!want.empty() && (!within || want.size() == 8)) break;
      want.push_back(token);
      mass += q;
    }
    for (const TreeChild& child : children) got.push_back(child.token);
    EXPECT_EQ(got, want) << limits.top_k << " " << limits.top_p << " " << limits.min_p;
    ++sizes[want.size()];
  }
  EXPECT_GT(sizes.size(), 3U);
}

}  // namespace
}  // namespace forerun
