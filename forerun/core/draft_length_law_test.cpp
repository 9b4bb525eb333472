// Adaptive lengths leave the law of sampled drafts as it is.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "forerun/core/draft_length.h"
#include "forerun/core/rng_key.h"
#include "tests/support/laws.h"

namespace forerun {
namespace {

// Share of token 0 among outputs of law (0.5, 0.5), drafted from (0.9, 0.1) under the maximal rule.
// If `peek`, the draft is not cut to the plan but before the first drafted 0.
double share_of_zero(bool peek, std::uint32_t outputs) {
  const support::OwnedLaw target = support::law_of({0.5, 0.5}),
                          drafter = support::law_of({0.9, 0.1});
  DraftLength control;
  std::uint32_t zeros = 0;
  for (std::uint32_t round = 0, at = 0; at < outputs; ++round) {
    const std::size_t k = control.plan(std::array{SequencePlan{.id = 0, .limit = 4}})[0];
    SequenceOutcome seen{.id = 0};
    for (bool go_on = true; go_on; ++at) {
      const RngKey key{11, 0, round, at};
      const Token drafted = drafter.law().sample(key.uniform(Purpose::kDraft));
      go_on = seen.examined < k && !(peek && drafted == 0);
      Token output = target.law().sample(key.uniform(Purpose::kTarget));
      if (go_on) {
        const auto coupled = couple(target, drafter, drafted, key);
        ++seen.examined;
        seen.accepted += coupled.accepted ? 1 : 0;
        go_on = coupled.accepted;
        output = coupled.value;
      }
      zeros += output == 0 ? 1 : 0;
    }
    // Cheap and expensive in turn, so that the length varies with past rounds.
    control.observe(std::array{seen}, {.rows = 1 + k,
                                       .target_seconds = 0.01 + 0.002 * static_cast<double>(k),
                                       .drafted = k,
                                       .drafter_seconds = k > 0 ? 1e-3 : 1e-6});
  }
  EXPECT_GE(control.report().chosen.size(), 4U);  // the length did vary
  return static_cast<double>(zeros) / outputs;
}

TEST(DraftLength, KeepsTheLawOfSampledDrafts) {  // 5 sigma: fails by chance below 1e-6
  constexpr std::uint32_t kOutputs = 40000;
  const double sigma = std::sqrt(0.25 / kOutputs);
  EXPECT_NEAR(share_of_zero(false, kOutputs), 0.5, 5.0 * sigma);
  EXPECT_GT(std::abs(share_of_zero(true, kOutputs) - 0.5), 5.0 * sigma);  // cut by what was drafted
}

}  // namespace
}  // namespace forerun
