#include "forerun/models/free/free_network.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "forerun/base/result.h"
#include "tests/support/distance.h"
#include "tests/support/noisy_dit.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

Dit noisy_dit(std::uint64_t seed, bool learned_sigma = false) {
  DitConfig c = testing::small_dit(4, 2, 3);
  c.learned_sigma = learned_sigma;
  return testing::noisy_dit(c, seed);
}

struct Inputs {
  at::Tensor x = at::randn({3, 3, 4, 4}), fresh = at::randn({3, 3, 4, 4}),
             feature = at::randn({3, 4, 16}), time = at::tensor({5, 800, 1}, at::kLong),
             label = at::tensor({0, 3, 1}, at::kLong);
};

// The lagged feature through the target's head, at the new time.
TEST(FreeNetwork, BeginsAsTheFeatureThatStays) {
  for (const bool learned_sigma : {false, true}) {
    const Dit target = noisy_dit(1, learned_sigma);
    const FreeNetwork n = free_from(target, 2);
    const Inputs in;
    const DitOutput out = run_free(n, in.x, in.feature, in.time, in.label);
    EXPECT_LT(distance(out.feature, in.feature), 1e-6);
    const at::Tensor condition =
        at::silu(embed_time(target.time, in.time, 128.0) + target.labels.index_select(0, in.label));
    const at::Tensor whole = run_head(target.head, target.config, in.feature, condition);
    EXPECT_LT(distance(out.noise, whole.narrow(1, 0, 3)), 1e-5);
  }
}

TEST(FreeNetwork, WithAFrozenImageBeginsAsNothingToAdd) {
  const FreeNetwork n = free_from(noisy_dit(1), 2, true);
  const Inputs in;
  const DitOutput out = run_free(n, in.x, in.feature, in.time, in.label, in.fresh);
  EXPECT_EQ(out.noise.abs().max().item<double>(), 0.0);
  // The fresh noise is still read.
  const DitOutput other = run_free(n, in.x, in.feature, in.time, in.label, -in.fresh);
  EXPECT_GT(distance(out.feature, other.feature), 1e-3);
}

TEST(FreeNetwork, ComesBackAsItWasWritten) {
  const testing::TempFolder folder;
  const Dit target = noisy_dit(1);
  for (const bool frozen : {false, true}) {
    FreeNetwork n = free_from(target, 2, frozen);
    for (const ModelWeight& w : weights(n))
      w.tensor->copy_(at::randn_like(*w.tensor).to(at::kBFloat16));
    const auto path = folder.path() / (frozen ? "frozen" : "paper");
    save_free(path, n, target);
    FreeNetwork back = load_free(path, target);
    EXPECT_EQ(back.frozen_image, frozen);
    const auto theirs = weights(back);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      EXPECT_TRUE(at::equal(*theirs[i].tensor, *weights(n)[i].tensor)) << theirs[i].name;
    }
  }
}

TEST(FreeNetwork, IsOfOneTargetOnly) {
  const testing::TempFolder folder;
  const Dit target = noisy_dit(1), other = noisy_dit(7);
  save_free(folder.path() / "free", free_from(target, 2), target);
  const auto why = [&](const Dit& asked) -> std::string {
    try {
      load_free(folder.path() / "free", asked);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(why(target), "");
  EXPECT_NE(why(other).find("another target of the same sizes"), std::string::npos);
  Dit wider = target;
  wider.config.classes = 9;
  EXPECT_NE(why(wider).find("num_classes 3, this one has 9"), std::string::npos) << why(wider);
  std::filesystem::resize_file(folder.path() / "free/model.safetensors", 900);
  EXPECT_NE(why(target), "");
}

}  // namespace
}  // namespace forerun
