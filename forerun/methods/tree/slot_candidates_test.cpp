#include "forerun/methods/tree/slot_candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace forerun {
namespace {

// By sorting the whole row.
SlotCandidates sorted(std::span<const float> logits, double temperature) {
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto value = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return value(a) > value(b); });
  const float best = value(order[0]);
  SlotCandidates out;
  double rest = 1e-12;
  for (const std::int32_t id : order) {
    if (value(id) < best - SlotCandidates::kDrafted.within * std::max(1.0, temperature)) break;
    if (out.ids.size() < SlotCandidates::kDrafted.most) {
      out.ids.push_back(id);
    } else {
      rest += std::exp((static_cast<double>(value(id)) - static_cast<double>(best)) / temperature);
    }
  }
  out.rest = temperature * std::log(rest) + static_cast<double>(best);
  return out;
}

TEST(SlotCandidates, AreThoseOfASortedRow) {
  std::mt19937 random(5);
  for (const std::size_t vocab : {1U, 15U, 127U, 128U, 129U, 1000U, 4111U}) {
    for (const float spread : {0.0F, 0.1F, 3.0F, 30.0F}) {
      std::normal_distribution<float> normal(0.0F, std::max(spread, 1e-3F));
      std::vector<float> logits(vocab);
      for (float& x : logits) x = spread == 0.0F ? 1.5F : normal(random);  // all alike: ids decide
      for (const double temperature : {0.5, 1.0, 2.0}) {
        SlotCandidates got = slot_candidates(logits, temperature);
        SlotCandidates want = sorted(logits, temperature);
        for (std::size_t i = 0; i < got.ids.size(); ++i) {
          EXPECT_EQ(got.logits[i], logits[static_cast<std::size_t>(got.ids[i])]);
        }
        std::sort(got.ids.begin(), got.ids.end());
        std::sort(want.ids.begin(), want.ids.end());
        EXPECT_EQ(got.ids, want.ids) << vocab << ' ' << spread;
        EXPECT_NEAR(got.rest, want.rest, 1e-6);
      }
    }
  }
}

// A shortlist, of which some logits change, gives the candidates of the whole row with those
// changes.
TEST(SlotCandidates, OfAShortlistAreThoseOfTheChangedRow) {
  std::mt19937 random(6);
  for (const float spread : {0.3F, 2.0F, 6.0F}) {
    for (const double temperature : {0.5, 1.0, 1.5}) {
      std::normal_distribution<float> normal(0.0F, spread);
      std::vector<float> logits(5000);
      for (float& x : logits) x = normal(random);
      const SlotCandidates list = slot_candidates(logits, temperature, SlotCandidates::kShortlist);
      ASSERT_GT(list.ids.size(), SlotCandidates::kDrafted.most);
      ASSERT_LE(list.ids.size(), SlotCandidates::kShortlist.most);
      std::vector<float> changed = logits, given;
      for (const std::int32_t id : list.ids) {
        float& x = changed[static_cast<std::size_t>(id)];
        x += 0.5F + 0.2F * normal(random);
        given.push_back(x);
      }
      SlotCandidates got = slot_candidates(list, given, temperature);
      SlotCandidates want = slot_candidates(changed, temperature);
      for (std::size_t i = 0; i < got.ids.size(); ++i) {  // the row's, not the changed ones
        EXPECT_EQ(got.logits[i], logits[static_cast<std::size_t>(got.ids[i])]);
      }
      std::sort(got.ids.begin(), got.ids.end());
      std::sort(want.ids.begin(), want.ids.end());
      EXPECT_EQ(got.ids, want.ids) << spread << ' ' << temperature;
      EXPECT_TRUE(std::binary_search(
          got.ids.begin(), got.ids.end(),
          static_cast<std::int32_t>(std::max_element(changed.begin(), changed.end()) -
                                    changed.begin())));
      // Of the others some are left out as too far away: of the row those far from its new best, of
      // the list fewer.
      const double best = *std::max_element(changed.begin(), changed.end());
      const auto weight = [&](double logit) { return std::exp((logit - best) / temperature); };
      double others = 0.0;
      for (std::size_t i = 0; i < changed.size(); ++i) {
        const bool kept =
            std::binary_search(got.ids.begin(), got.ids.end(), static_cast<std::int32_t>(i));
        if (!kept) others += weight(changed[i]);
      }
      EXPECT_GT(weight(got.rest) + 1e-9, 0.95 * weight(want.rest)) << spread << ' ' << temperature;
      EXPECT_LT(weight(got.rest), 1.001 * others + 1e-9) << spread << ' ' << temperature;
    }
  }
}

// Most of a flat row's weight lies outside its candidates, and counts at the temperature.
TEST(SlotCandidates, HaveTheLawOfTheWholeRowAtEveryTemperature) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 0.7F);
  std::vector<float> logits(3000);
  for (float& x : logits) x = normal(random);
  const double best = *std::max_element(logits.begin(), logits.end());
  for (const double temperature : {0.3, 0.7, 1.0, 1.6}) {
    double sum = 0.0;
    for (const float x : logits) sum += std::exp((static_cast<double>(x) - best) / temperature);
    const auto agrees = [&](const SlotCandidates& of) {
      const std::vector<double> p = laws(of, of.logits, temperature);
      const std::vector<double> log_p = log_laws(of, of.logits, temperature);
      ASSERT_EQ(p.size(), of.logits.size());
      ASSERT_EQ(log_p.size(), of.logits.size());
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double own = (static_cast<double>(of.logits[i]) - best) / temperature;
        EXPECT_NEAR(log_p[i], own - std::log(sum), 1e-4) << temperature;
        EXPECT_NEAR(std::log(p[i]), log_p[i], 1e-12) << temperature;
      }
    };
    agrees(slot_candidates(logits, temperature));
    const SlotCandidates list = slot_candidates(logits, temperature, SlotCandidates::kShortlist);
    agrees(list);
    agrees(slot_candidates(list, list.logits, temperature));
  }
}

TEST(SlotCandidates, OfValuesThatAreNoNumbersThereAreNone) {
  const std::vector<float> none(300, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(slot_candidates(none, 1.0).ids.empty());
  EXPECT_TRUE(slot_candidates(none, 1.0, SlotCandidates::kShortlist).ids.empty());
  EXPECT_TRUE(slot_candidates(SlotCandidates{}, {}, 1.0).ids.empty());
}

// Values that are no numbers are passed over, wherever they stand.
TEST(SlotCandidates, OfOneNumberAmongThemThereIsThatOne) {
  for (const std::size_t vocab : {1U, 16U, 300U, 5000U}) {
    for (const std::size_t at : {std::size_t{0}, vocab / 2, vocab - 1}) {
      std::vector<float> one(vocab, std::numeric_limits<float>::quiet_NaN());
      one[at] = 2.0F;
      for (const auto& bounds : {SlotCandidates::kDrafted, SlotCandidates::kShortlist}) {
        const SlotCandidates got = slot_candidates(one, 1.0, bounds);
        ASSERT_EQ(got.ids, std::vector<std::int32_t>{static_cast<std::int32_t>(at)})
            << vocab << ' ' << at;
        EXPECT_EQ(got.logits, std::vector<float>{2.0F});
        EXPECT_NEAR(got.rest, 2.0 + std::log(1e-12), 1e-9);
        EXPECT_NEAR(log_laws(got, got.logits, 1.0)[0], 0.0, 1e-9);
        const std::vector<float> changed = {-3.0F};
        const SlotCandidates again = slot_candidates(got, changed, 1.0);
        ASSERT_EQ(again.ids, got.ids);
        EXPECT_EQ(again.logits, got.logits);
      }
    }
  }
}

TEST(SlotCandidates, OfAShortlistANumberCountsWhereverItStands) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const SlotCandidates list{.ids = {3, 8}, .logits = {1.0F, 0.5F}, .rest = -20.0};
  EXPECT_EQ(slot_candidates(list, std::vector<float>{2.0F, kNan}, 1.0).ids,
            std::vector<std::int32_t>{3});
  EXPECT_EQ(slot_candidates(list, std::vector<float>{kNan, 2.0F}, 1.0).ids,
            std::vector<std::int32_t>{8});
}

TEST(SlotCandidates, OfAShortRowHaveAShorterList) {
  EXPECT_EQ(SlotCandidates::bounds_of(100, true).most, 128U);
  EXPECT_EQ(SlotCandidates::bounds_of(4096, true).most, 128U);
  EXPECT_EQ(SlotCandidates::bounds_of(6400, true).most, 200U);
  EXPECT_EQ(SlotCandidates::bounds_of(49152, true).most, SlotCandidates::kShortlist.most);
  EXPECT_EQ(SlotCandidates::bounds_of(4096, true).within, SlotCandidates::kShortlist.within);
  for (const std::size_t row : {100, 4096, 49152}) {  // nothing brings others to the front
    EXPECT_EQ(SlotCandidates::bounds_of(row, false).most, SlotCandidates::kDrafted.most);
    EXPECT_EQ(SlotCandidates::bounds_of(row, false).within, SlotCandidates::kDrafted.within);
  }
}

}  // namespace
}  // namespace forerun
