#include "forerun/models/dit/bf16_dit.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

#include "forerun/models/dit/guided_dit.h"
#include "forerun/models/free/guided_free.h"
#include "tests/support/noisy_dit.h"

namespace forerun {
namespace {

double relative_error_of(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

DitConfig wide() {
  DitConfig c = testing::small_dit(16, 2, 4);  // 64 tokens, heads of 72
  c.hidden = 144;
  c.mlp = 200;
  c.learned_sigma = true;
  return c;
}
DitConfig odd() {
  DitConfig c = testing::small_dit(9, 3, 3);  // 9 tokens of 27 values, heads of 5
  c.hidden = 20;
  c.heads = 4;
  c.mlp_norm_eps = 1e-5;
  return c;
}

struct DitInputs {
  DitInputs(const DitConfig& c, std::vector<std::int64_t> t, std::vector<std::int64_t> l)
      : times(std::move(t)), labels(std::move(l)) {
    at::manual_seed(3);
    const auto n = static_cast<std::int64_t>(times.size());
    states = at::randn({n, c.channels, c.input, c.input});
    fresh = at::randn_like(states);
    features = at::randn({n, 2, c.tokens(), c.hidden});
  }
  DitRows rows() const { return {states, times, labels}; }
  at::Tensor states, fresh, features;
  std::vector<std::int64_t> times, labels;
};

class Bf16Models : public ::testing::TestWithParam<DitConfig> {
 protected:
  void SetUp() override {
    if (!Bf16Stack::fits(GetParam())) GTEST_SKIP() << "this processor has no AVX2";
  }
  const std::shared_ptr<const Dit> model = std::make_shared<Dit>(testing::noisy_dit(GetParam(), 1));
  const DitInputs in{GetParam(), {0, 999, 500, 17, 3}, {0, 2, 1, 1, 0}};

  GuidedFree free(bool frozen, bool packed) const {
    auto n = std::make_shared<FreeNetwork>(free_from(*model, 2, frozen));
    at::manual_seed(4);
    for (const ModelWeight& w : weights(*n)) w.tensor->add_(at::randn_like(*w.tensor), 0.1);
    return GuidedFree(n, packed ? std::make_shared<Bf16Free>(*n) : nullptr);
  }
};

// Operands of products are rounded to 8 bits; nothing else is.
TEST_P(Bf16Models, AreNearThoseInFloat32) {
  for (const Guidance guidance : {Guidance{1.0, 0}, Guidance{1.5, 0}, Guidance{4.0, 1}}) {
    const GuidedOutput exact = GuidedDit(model, guidance).run(in.rows());
    const GuidedOutput out =
        GuidedDit(model, guidance, std::make_shared<Bf16Dit>(*model)).run(in.rows());
    EXPECT_LT(relative_error_of(out.noise, exact.noise), 0.02) << guidance.scale;
    EXPECT_LT(relative_error_of(out.feature, exact.feature), 0.01);
    EXPECT_GT(relative_error_of(out.noise, exact.noise), 1e-6);  // it is another path
  }
}

TEST_P(Bf16Models, OfFreeAreNearThoseInFloat32) {
  const Guidance guidance{1.5, 0};
  for (const bool frozen : {false, true}) {
    const auto run = [&](bool packed) {
      return free(frozen, packed).run(in.rows(), guidance, in.features, in.fresh);
    };
    const GuidedOutput exact = run(false), out = run(true);
    EXPECT_LT(relative_error_of(out.noise, exact.noise), 0.02);
    EXPECT_LT(relative_error_of(out.feature, exact.feature), 0.01);
  }
}

TEST_P(Bf16Models, DoNotMixRowsOrDependOnThreads) {
  const Guidance guidance{1.5, 0};
  const Bf16Dit packed(*model);
  const GuidedFree network = free(true, true);
  at::set_num_threads(2);
  const GuidedOutput together = packed.run(in.rows(), guidance);
  const GuidedOutput free_together = network.run(in.rows(), guidance, in.features, in.fresh);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (std::int64_t i = 0; i < in.states.size(0); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const DitRows row{in.states.narrow(0, i, 1), {&in.times[at], 1}, {&in.labels[at], 1}};
      const GuidedOutput alone = packed.run(row, guidance);
      EXPECT_TRUE(alone.noise[0].equal(together.noise[i]));
      EXPECT_TRUE(alone.feature[0].equal(together.feature[i]));
      const GuidedOutput free_alone =
          network.run(row, guidance, in.features.narrow(0, i, 1), in.fresh.narrow(0, i, 1));
      EXPECT_TRUE(free_alone.noise[0].equal(free_together.noise[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Bf16Models,
                         ::testing::Values(testing::small_dit(8, 2), testing::small_dit(16, 4, 3),
                                           wide(), odd()));

TEST(GuidedDit, RefusesWhatItCannotRead) {
  const auto model = std::make_shared<Dit>(testing::noisy_dit(testing::small_dit(8, 2)));
  const GuidedDit guided(model, {.scale = 1.5});
  const auto refused = [&](const DitInputs& in) {
    EXPECT_THROW(guided.run(in.rows()), std::invalid_argument);
  };
  refused({model->config, {0}, {4}});
  refused({model->config, {0}, {-1}});
  refused({model->config, {1000}, {0}});
  refused({model->config, {-1}, {0}});
  refused({testing::small_dit(16, 2), {0}, {0}});
  DitInputs uneven(model->config, {0, 1}, {0});
  refused(uneven);
}

TEST(Bf16Dit, NanStaysNan) {
  Dit model = testing::noisy_dit(testing::small_dit(8, 2));
  if (!Bf16Stack::fits(model.config)) GTEST_SKIP() << "this processor has no AVX2";
  model.blocks[0].qkv.weight.fill_(std::numeric_limits<float>::quiet_NaN());
  const DitInputs in(model.config, {5}, {1});
  EXPECT_TRUE(Bf16Dit(model).run(in.rows(), {}).noise.isnan().all().item<bool>());
}

}  // namespace
}  // namespace forerun
