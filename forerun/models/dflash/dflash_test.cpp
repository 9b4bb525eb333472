// Properties of one decoding pass, and equality of the training pass over many blocks.
#include "forerun/models/dflash/dflash.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "forerun/models/feature_layers.h"
#include "tests/support/distance.h"
#include "tests/support/random_dflash.h"

namespace forerun {
namespace {

constexpr LayerAttention kCausal{.causal = true};

at::Tensor decoded(const DFlash& model, const at::Tensor& features, std::span<const Token> block) {
  DFlashCache cache(model);
  cache.append(model, features);
  return block_hidden(model, cache, block, features.size(0));
}

TEST(DefaultFeatureLayers, AreThePublishedTable) {
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(default_feature_layers(24, 5), (Ids{1, 6, 11, 16, 21}));
  EXPECT_EQ(default_feature_layers(28, 5), (Ids{1, 7, 13, 19, 25}));
  EXPECT_EQ(default_feature_layers(30, 5), (Ids{1, 8, 14, 20, 27}));  // 20.5 goes to 20
  EXPECT_EQ(default_feature_layers(32, 5), (Ids{1, 8, 15, 22, 29}));
  EXPECT_EQ(default_feature_layers(36, 5), (Ids{1, 9, 17, 25, 33}));
  EXPECT_EQ(default_feature_layers(40, 5), (Ids{1, 10, 19, 28, 37}));
  EXPECT_EQ(default_feature_layers(48, 5), (Ids{1, 12, 23, 34, 45}));
  EXPECT_EQ(default_feature_layers(64, 5), (Ids{1, 16, 31, 46, 61}));
  EXPECT_EQ(default_feature_layers(30, 1), (Ids{15}));
  EXPECT_EQ(default_feature_layers(30, 2), (Ids{1, 27}));
  EXPECT_EQ(default_feature_layers(30, 3), (Ids{1, 14, 27}));
  EXPECT_EQ(default_feature_layers(30, 4), (Ids{1, 10, 18, 27}));
  EXPECT_THROW(default_feature_layers(30, 0), std::invalid_argument);
  EXPECT_THROW(default_feature_layers(3, 2), std::invalid_argument);
}

TEST(DFlash, PermutedFeaturesWithTheirColumnsAreTheSameContext) {
  const DFlash model = noisy_dflash(small_dflash({kFull}), at::kDouble, 1);
  const std::int64_t d = model.config.hidden;
  const at::Tensor x = random_features(model.config, 7, at::kDouble, 2);
  const auto moved = [&](const at::Tensor& t) {  // features 0 1 2 -> 2 0 1
    return at::cat({t.narrow(1, 2 * d, d), t.narrow(1, 0, 2 * d)}, 1);
  };
  DFlash other = model;
  other.fc = moved(model.fc);
  EXPECT_LT(distance(context(other, moved(x)), context(model, x)), 1e-12);
  EXPECT_GT(distance(context(model, moved(x)), context(model, x)), 1e-1);  // the order matters
}

TEST(DFlash, ContextMayArriveInAnySplit) {
  const DFlash model =
      noisy_dflash(small_dflash({kFull, kCausalWindow, kBothWaysWindow}), at::kDouble, 3);
  const at::Tensor x = random_features(model.config, 300, at::kDouble, 4);  // beyond one capacity
  const auto block = masked_block(model, 17);
  const at::Tensor once = decoded(model, x, block);
  DFlashCache cache(model);
  const at::Tensor wrong = random_features(model.config, 3, at::kDouble, 5);
  for (std::int64_t row = 0, n = 1; row < x.size(0); row += n, n = n % 5 + 1) {
    // A round keeps some rows; the rows of a rejected draft are removed.
    cache.append(model, wrong);
    cache.truncate(row);
    cache.append(model, x.narrow(0, row, std::min(n, x.size(0) - row)));
  }
  ASSERT_EQ(cache.length(), x.size(0));
  EXPECT_LT(distance(block_hidden(model, cache, block, x.size(0)), once), 1e-12);
  cache.truncate(x.size(0) - 1);
  cache.append(model, wrong.narrow(0, 0, 1));  // a rejected row that stayed would be seen
  EXPECT_GT(distance(block_hidden(model, cache, block, x.size(0)), once), 1e-6);
}

TEST(DFlash, SlotsNeverEnterTheContext) {
  const DFlash model = noisy_dflash(small_dflash({kFull, kFull}), at::kDouble, 6);
  DFlashCache cache(model);
  cache.append(model, random_features(model.config, 9, at::kDouble, 7));
  const at::Tensor first = block_hidden(model, cache, masked_block(model, 3), 9);
  block_hidden(model, cache, masked_block(model, 30), 9);
  EXPECT_EQ(cache.length(), 9);
  EXPECT_EQ(distance(block_hidden(model, cache, masked_block(model, 3), 9), first), 0.0);
}

TEST(DFlash, SlotOneSeesTheBlocksEndOnlyWhereLayersLookBothWays) {
  const auto moves = [](LayerAttention attention) {
    const DFlash model = noisy_dflash(small_dflash({attention, attention}), at::kDouble, 8);
    const at::Tensor x = random_features(model.config, 12, at::kDouble, 9);
    const std::vector<Token> short_block = {5, kMaskSlot, kMaskSlot};
    return distance(decoded(model, x, masked_block(model, 5))[1],
                    decoded(model, x, short_block)[1]);
  };
  EXPECT_GT(moves(kFull), 1e-3);
  EXPECT_LT(moves(kCausalWindow), 1e-12);
  EXPECT_LT(moves(kCausal), 1e-12);
  EXPECT_GT(moves(kBothWaysWindow), 1e-3);
}

TEST(DFlash, AWindowHidesWhatLiesFartherBack) {
  const DFlash model = noisy_dflash(small_dflash({kCausalWindow}), at::kDouble, 10);
  const at::Tensor x = random_features(model.config, 20, at::kDouble, 11);
  const auto block = masked_block(model, 5);
  at::Tensor far = x.clone(), near = x.clone();
  far.narrow(0, 0, 15).add_(1.0);  // slot 0 at 20 with window 6 sees 15 to 19
  near.narrow(0, 15, 1).add_(1.0);
  EXPECT_EQ(distance(decoded(model, far, block), decoded(model, x, block)), 0.0);
  const at::Tensor moved = (decoded(model, near, block) - decoded(model, x, block)).abs().amax(1);
  EXPECT_GT(moved[0].item<double>(), 1e-6);
  EXPECT_EQ(moved[1].item<double>(), 0.0);  // slot 1 sees from 16 on
}

TEST(DFlash, AMaskVectorReplacesTheRow) {
  DFlash model = noisy_dflash(small_dflash({kFull}), at::kDouble, 12);
  model.config.mask_token = 7;
  const at::Tensor x = random_features(model.config, 4, at::kDouble, 13);
  const at::Tensor whole = decoded(model, x, masked_block(model, 3));
  DFlash poisoned = model;
  poisoned.embedding = model.embedding.clone();
  poisoned.embedding[7].fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(distance(decoded(poisoned, x, masked_block(model, 3)), whole), 0.0);
  // An anchor with that id is an ordinary token.
  EXPECT_TRUE(decoded(poisoned, x, masked_block(model, 7)).isnan().all().item<bool>());
  EXPECT_FALSE(decoded(model, x, masked_block(model, 7)).isnan().any().item<bool>());

  DFlash row = model;
  row.mask_embedding = at::Tensor();
  EXPECT_GT(distance(decoded(row, x, masked_block(model, 3)), whole), 1e-3);
  row.embedding = model.embedding.clone();
  row.embedding[7].copy_(model.mask_embedding);
  EXPECT_EQ(distance(decoded(row, x, masked_block(model, 3)), whole), 0.0);
}

TEST(DFlash, HeadsScaleAndCap) {
  DFlashConfig c = small_dflash({kFull});
  c.draft_vocab = 11;
  c.markov_rank = 3;
  c.confidence = true;
  DFlash model = noisy_dflash(c, at::kDouble, 14);
  const at::Tensor g = at::randn({6, c.hidden}, at::kDouble);
  const at::Tensor plain = block_logits(model, g);
  EXPECT_LT(distance(plain, at::matmul(g, model.head.t())), 1e-12);
  model.config.output_multiplier = 0.5;
  model.config.final_softcap = 2.0;
  EXPECT_LT(distance(block_logits(model, g), at::tanh(plain * 0.5 / 2.0) * 2.0), 1e-12);

  const at::Tensor previous = at::tensor({4, 49, 0, 4, 1, 2}, at::kLong);
  const at::Tensor w1 = model.markov_w1.index_select(0, previous);
  EXPECT_LT(distance(markov_bias(model, {}, previous), at::matmul(w1, model.markov_w2.t())), 1e-12);
  const at::Tensor both = at::cat({g, w1}, 1);
  const at::Tensor logit =
      at::matmul(both, model.confidence_weight.t()).squeeze(1) + model.confidence_bias;
  EXPECT_LT(distance(confidence(model, g, previous), logit), 1e-12);
  model.config.confidence_sees_markov = false;
  model.confidence_weight = model.confidence_weight.narrow(1, 0, c.hidden);
  EXPECT_LT(distance(confidence(model, g, previous),
                     at::matmul(g, model.confidence_weight.t()).squeeze(1) + model.confidence_bias),
            1e-12);
}

TEST(DFlash, RefusesBlocksThatCannotBe) {
  DFlash model = noisy_dflash(small_dflash({kFull}), at::kDouble, 15);
  DFlashCache cache(model);
  cache.append(model, random_features(model.config, 4, at::kDouble, 16));
  const auto pass = [&](std::vector<Token> block, std::int64_t start) {
    return block_hidden(model, cache, block, start);
  };
  EXPECT_THROW(pass({}, 4), std::invalid_argument);
  EXPECT_THROW(pass({kMaskSlot}, 4), std::invalid_argument);
  EXPECT_THROW(pass({50}, 4), std::invalid_argument);
  EXPECT_THROW(pass({1, -2}, 4), std::invalid_argument);
  EXPECT_THROW(pass({1, kMaskSlot}, 3), std::invalid_argument);
  EXPECT_NO_THROW(pass({1, kMaskSlot}, 5));
  model.mask_embedding = at::Tensor();
  EXPECT_THROW(pass({1, kMaskSlot}, 4), std::invalid_argument);
  EXPECT_THROW(cache.append(model, at::zeros({2, 5}, at::kDouble)), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
