// Images of the masked form: several tokens a pass, drawn as the published loop draws them.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "forerun/core/chain.h"
#include "forerun/models/mar/mar_file.h"
#include "forerun/models/mar/mar_masked.h"
#include "forerun/models/mar/mar_tokens.h"
#include "forerun/token_image.h"
#include "tests/support/noisy_mar.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

MarConfig masked_config() {
  MarConfig c = forerun::testing::small_mar();
  c.form = MarForm::kMasked;
  c.decoder_depth = 1;
  c.buffer = 3;
  return c;
}

// A masked network, and a causal draft of the same tokens.
struct MaskedFolders {
  MaskedFolders() : network(forerun::testing::noisy_mar(masked_config())) {
    save_mar(path("masked"), network, nullptr, at::kFloat);
    save_mar(path("causal"), forerun::testing::noisy_mar(forerun::testing::small_mar()), nullptr,
             at::kFloat);
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  forerun::testing::TempFolder folder;
  Mar network;
};
const MaskedFolders& masked_folders() {
  static const MaskedFolders made;
  return made;
}
TokenImageModel masked_model() {
  return TokenImageModel::load(masked_folders().path("masked"), Precision::kF32);
}

TokenImageOptions masked_options(std::uint32_t passes) {
  TokenImageOptions o;
  o.steps = 8;
  o.seed = 11;
  o.passes = passes;
  o.pictures = false;
  return o;
}
ImageRun sampled(const TokenImageModel& model, std::span<const std::int64_t> labels,
                 const TokenImageOptions& o) {
  return generate_images(model, ImageDrafter::load("none", model), labels, o);
}
const std::vector<std::int64_t> kMaskedLabels = {0, 2, 1};

// The published loop with the same orders and noise, all images in one batch.
at::Tensor by_the_published_loop(const TokenImageOptions& o) {
  const Mar& m = masked_folders().network;
  const auto network = std::make_shared<const MarNetwork>(m);
  const MarHead head(network, {.steps = o.steps, .temperature = o.temperature});
  std::vector<std::vector<std::int64_t>> orders;
  std::vector<std::vector<std::uint32_t>> place;  // of every patch, by image
  for (std::uint32_t i = 0; i < kMaskedLabels.size(); ++i) {
    const std::vector<std::int64_t> order =
        random_order(m.config.tokens(), {.seed = o.seed, .request = i, .position = UINT32_MAX});
    std::vector<std::uint32_t>& own = place.emplace_back(order.size());
    for (std::uint32_t p = 0; p < order.size(); ++p) own[static_cast<std::size_t>(order[p])] = p;
    orders.emplace_back(order.rbegin(), order.rend());  // the loop reveals the last ones first
  }
  const MarNoise noise = [&](std::int64_t image, std::int64_t, std::int64_t token,
                             std::int64_t transition, std::span<float> out) {
    const ChainKey key{
        {.seed = o.seed,
         .request = static_cast<std::uint32_t>(image),
         .position = place[static_cast<std::size_t>(image)][static_cast<std::size_t>(token)]}};
    if (transition < 0) {
      const Latent start = key.start(out.size());
      std::copy(start.begin(), start.end(), out.begin());
    } else {
      key.at(static_cast<std::size_t>(transition) + 1).fill_normal(Purpose::kTarget, out);
    }
  };
  return sample_masked(
      m, *network, head, kMaskedLabels, orders,
      {.steps = o.passes,
       .guidance = o.guidance,
       .schedule = o.linear_guidance ? MarGuidance::kLinear : MarGuidance::kConstant},
      noise);
}

TEST(MaskedImages, AreThoseOfThePublishedLoop) {
  const TokenImageModel model = masked_model();
  const MarConfig config = masked_config();
  for (const double guidance : {1.0, 2.5}) {
    for (const std::uint32_t passes : {1U, 5U, 16U}) {
      TokenImageOptions o = masked_options(passes);
      o.guidance = guidance;
      o.linear_guidance = true;
      const ImageRun run = sampled(model, kMaskedLabels, o);
      const at::Tensor expected = by_the_published_loop(o);
      for (std::size_t i = 0; i < run.values.size(); ++i) {
        const at::Tensor tokens = expected[static_cast<std::int64_t>(i)].contiguous();
        const std::vector<float> image = mar_image(
            config, {tokens.const_data_ptr<float>(), static_cast<std::size_t>(tokens.numel())});
        ASSERT_EQ(run.values[i].size(), image.size());
        double off = 0.0, size = 0.0;
        for (std::size_t v = 0; v < image.size(); ++v) {
          off += std::pow(double{run.values[i][v]} - double{image[v]}, 2);
          size += std::pow(double{image[v]}, 2);
        }
        EXPECT_LT(std::sqrt(off / size), 1e-3) << guidance << " " << passes;
      }
      EXPECT_EQ(run.passes, passes);
      EXPECT_DOUBLE_EQ(run.statistics.tau(), 16.0 / passes);
      EXPECT_EQ(run.statistics.drafted, 0U);
    }
  }
}

TEST(MaskedImages, AreTheSameInAnyBatchAndOnAnyThreads) {
  const TokenImageModel model = masked_model();
  TokenImageOptions o = masked_options(4);
  const ImageRun together = sampled(model, kMaskedLabels, o);
  o.batch_size = 1;
  at::set_num_threads(2);
  const ImageRun alone = sampled(model, kMaskedLabels, o);
  at::set_num_threads(1);
  EXPECT_EQ(together.values, alone.values);
  o.first = 2;
  const std::vector<std::int64_t> one = {kMaskedLabels[2]};
  EXPECT_EQ(sampled(model, one, o).values[0], together.values[2]);
  o.first = 0;
  o.seed = 12;
  EXPECT_NE(sampled(model, kMaskedLabels, o).values, together.values);
}

TEST(MaskedImages, ATraceHasEveryPatchOnceAndNoDrafts) {
  const TokenImageModel model = masked_model();
  TokenImageOptions o = masked_options(5);
  o.trace = o.pictures = true;
  const ImageRun run = sampled(model, std::vector<std::int64_t>{1}, o);
  ASSERT_EQ(run.trace.tokens.size(), 16U);
  EXPECT_EQ(run.trace.rounds.size(), 5U);
  std::vector<bool> seen(16, false);
  std::vector<std::uint32_t> places;
  for (const ImageTrace::Token& t : run.trace.tokens) {
    EXPECT_EQ(t.fate, ImageTrace::Fate::kOwn);
    seen.at(t.place) = true;
    places.push_back(t.place);
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 16);
  EXPECT_FALSE(std::is_sorted(places.begin(), places.end()));  // a random order
}

TEST(MaskedImages, TakeNoDrafterAndNoMorePassesThanTokens) {
  const TokenImageModel model = masked_model();
  const auto refuses = [&](const TokenImageModel& m, const char* name, std::uint32_t passes) {
    EXPECT_THROW(
        generate_images(m, ImageDrafter::load(name, m), kMaskedLabels, masked_options(passes)),
        UsageError)
        << name << passes;
  };
  refuses(model, "self", 4);
  refuses(model, "none", 17);
  EXPECT_THROW(ImageDrafter::load("cspd:" + masked_folders().path("causal"), model), UsageError);
  const auto causal = TokenImageModel::load(masked_folders().path("causal"), Precision::kF32);
  refuses(causal, "none", 4);
  EXPECT_THROW(ImageDrafter::load("cspd:" + masked_folders().path("masked"), causal), UsageError);
  EXPECT_EQ(sampled(model, kMaskedLabels, masked_options(0)).passes, 16U);
}

}  // namespace
}  // namespace forerun
