#include "forerun/tensor/cpu/handover.h"

#include <gtest/gtest.h>

#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun {
namespace {

TEST(Handover, IsMeasuredBetweenTwoThreads) {
  const Handover two = Handover::measured(2);
  EXPECT_EQ(two.cached > 0.0, kernels().streams);
  EXPECT_EQ(two.past > 0.0, kernels().streams);
  EXPECT_LT(two.cached, 1.0);
  EXPECT_EQ(two.there_and_back > 0.0, kernels().streams);
  EXPECT_LE(two.there_and_back, two.all);
  const Handover one = Handover::measured(1);
  EXPECT_EQ(one.cached, 0.0);
  EXPECT_FALSE(one.far());
  EXPECT_FALSE(threads_are_far(1));
}

TEST(Handover, IsFarIfStoresPastTheCachesAreSooner) {
  EXPECT_TRUE((Handover{.cached = 2e-6, .past = 1e-6}).far());
  EXPECT_FALSE((Handover{.cached = 1e-6, .past = 2e-6}).far());
}

TEST(Handover, TheWayOfALineTellsOfACommonCache) {
  EXPECT_TRUE((Handover{.there_and_back = 145e-9}).common_cache());
  EXPECT_FALSE((Handover{.there_and_back = 320e-9}).common_cache());
  EXPECT_FALSE(Handover::measured(1).common_cache());
  EXPECT_EQ(threads_have_common_cache(1), std::nullopt);
  EXPECT_EQ(threads_have_common_cache(2).has_value(), kernels().streams);
}

TEST(Handover, TestsChoose) {
  for (const bool far : {true, false}) {
    set_threads_are_far(far);
    EXPECT_EQ(threads_are_far(2), far && kernels().streams);
  }
  set_threads_are_far({});
}

}  // namespace
}  // namespace forerun
