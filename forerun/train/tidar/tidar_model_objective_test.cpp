#include "forerun/train/tidar/tidar_model_objective.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "forerun/models/random_decoder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tidar_model.h"

namespace forerun {
namespace {

using testing::shards_in;
using testing::some_tokens;
using testing::TempFolder;
using testing::TidarModelParts;

class TidarModel : public ::testing::Test {
 protected:
  TidarModel() {
    parts.data = {shards_in(
        folder.path() / "data",
        std::vector<TokenDocument>{{.id = 0, .prompt = 5, .tokens = some_tokens(40, 1)},
                                   {.id = 1, .prompt = 0, .tokens = some_tokens(30, 2)}})};
  }
  static LossSum loss_of(const TidarModelParts& p) {
    TidarModelObjective objective = p.make();
    return objective.loss(std::vector<std::size_t>{0, 1}, 3);
  }
  TempFolder folder;
  TidarModelParts parts;
};

TEST_F(TidarModel, AndItsTwinHaveTheSameLossOfTheText) {
  TidarModelParts twin = parts;
  twin.options.masks = false;
  const LossSum both = loss_of(parts), text = loss_of(twin);
  ASSERT_EQ(text.figures.size(), 1U);
  EXPECT_EQ(both.figures.at(0).numerator, text.figures[0].numerator);
  EXPECT_EQ(both.figures[0].denominator, 35.0 + 29.0);
  EXPECT_EQ(text.weight, 64.0);
  EXPECT_NEAR(both.weight, 128.0, 1e-4);
  EXPECT_EQ(twin.make().parameters().size(), weights(*twin.decoder).size());
}

TEST_F(TidarModel, WeighsTheTextByAlpha) {
  parts.options.alpha = 0.0;
  const LossSum masks = loss_of(parts);
  parts.options.alpha = 0.25;
  const LossSum both = loss_of(parts);
  const double text = both.figures[0].numerator;
  EXPECT_NEAR(both.loss.item<double>(), masks.loss.item<double>() + 0.25 * text, 1e-3);
  EXPECT_NEAR(both.weight, 64.0 * 1.25, 1e-4);
}

// However many blocks share the pass, the masks of a document count as much as its text.
TEST_F(TidarModel, WeighsTheMasksAsTheTextWhateverTheirNumber) {
  for (const std::int64_t offsets : {1, 2, 4}) {
    parts.options.offsets = offsets;
    EXPECT_NEAR(loss_of(parts).weight, 128.0, 1e-4) << offsets;
  }
}

// What the teacher says is no way for a gradient: with the law alone the text learns nothing.
TEST_F(TidarModel, DoesNotLearnToAgreeWithItsMasks) {
  parts.options.alpha = 0.0;
  parts.options.distill = 1.0;
  parts.decoder->config.tied_head = false;
  parts.decoder->own_head = parts.decoder->embedding.clone();
  TidarModelObjective objective = parts.make();
  const auto parameters = objective.parameters();
  objective.loss(std::vector<std::size_t>{0}, 3).loss.backward();
  // The last token but one is seen by no mask, and its row teaches the last slots.
  const std::vector<Token> all = some_tokens(40, 1);
  ASSERT_EQ(std::count(all.begin(), all.end(), all[38]), 1);
  EXPECT_EQ(parts.decoder->embedding.grad()[all[38]].abs().max().item<double>(), 0.0);
  EXPECT_GT(parts.decoder->embedding.grad()[all[0]].abs().max().item<double>(), 0.0);
}

TEST_F(TidarModel, IsSavedAsADecoderWithItsMasks) {
  TidarModelObjective objective = parts.make();
  std::vector<at::Tensor> values;
  for (const Parameter& p : objective.parameters()) values.push_back(p.value.detach() * 1.5);
  const std::string out = (folder.path() / "out").string();
  objective.save(out, values, nullptr);
  DecoderLm read = load_decoder(load_hf_config(out), load_safetensors(out), out, Precision::kF32);
  GatedLora masks = load_masks(out, read.config);
  EXPECT_EQ(masks.config.block, 4);
  EXPECT_EQ(masks.config.first_slot, 1);
  EXPECT_EQ(masks.config.rank, 0);
  EXPECT_TRUE(masks.layers.empty());
  std::vector<ModelWeight> all = weights(read);
  for (ModelWeight& w : weights(masks)) all.push_back(w);
  ASSERT_EQ(all.size(), values.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool matrix = values[i].dim() == 2;
    const at::Tensor stored = matrix ? values[i].to(at::kBFloat16).to(at::kFloat) : values[i];
    EXPECT_TRUE(at::equal(*all[i].tensor, stored)) << all[i].name;
  }
}

TEST_F(TidarModel, WhatARunMustKeepIsInTheFingerprint) {
  std::set<std::string> seen = {parts.make().fingerprint()};
  EXPECT_TRUE(seen.contains(parts.make().fingerprint()));
  const auto differs = [&](const std::function<void(TidarModelParts&)>& change) {
    TidarModelParts other = parts;
    other.masks = std::make_shared<GatedLora>(*parts.masks);
    other.decoder = std::make_shared<DecoderLm>(*parts.decoder);
    change(other);
    const std::string text = other.make().fingerprint();
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_EQ(text.find('\n'), text.npos);
  };
  differs([](TidarModelParts& p) { p.options.gamma = 5.0; });
  differs([](TidarModelParts& p) { p.options.distill = 0.25; });
  differs([](TidarModelParts& p) { p.options.offsets = 2; });
  differs([](TidarModelParts& p) { p.options.length = 20; });
  differs([](TidarModelParts& p) { p.options.alpha = 0.5; });
  differs([](TidarModelParts& p) { p.options.masks = false; });
  differs([](TidarModelParts& p) { p.masks->config.first_slot = 0; });
  differs([](TidarModelParts& p) { p.masks->config.block = 5; });
  differs([](TidarModelParts& p) { p.decoder->embedding = p.decoder->embedding * 1.1; });
  differs([](TidarModelParts& p) { p.masks->mask_embedding = p.masks->mask_embedding + 1.0; });
  differs([](TidarModelParts& p) { p.data.push_back(p.data[0]); });
}

// Each query head with a copy of the keys and values that it shared: the same numbers.
TEST_F(TidarModel, NeedsNoSharedKeys) {
  const TidarModelParts own = [&] {
    TidarModelParts p = parts;
    p.decoder = std::make_shared<DecoderLm>(*parts.decoder);
    DecoderConfig& c = p.decoder->config;
    const std::int64_t group = c.heads / c.kv_heads;
    EXPECT_GT(group, 1);
    for (TransformerBlock& b : p.decoder->layers) {
      for (Linear* l : {&b.k, &b.v}) {
        l->weight = l->weight.view({c.kv_heads, c.head_dim, c.hidden})
                        .repeat_interleave(group, 0)
                        .flatten(0, 1)
                        .contiguous();
      }
    }
    c.kv_heads = c.heads;
    return p;
  }();
  TidarModelObjective shared = parts.make(), alone = own.make();
  const auto shared_parameters = shared.parameters(), alone_parameters = alone.parameters();
  const LossSum a = shared.loss(std::vector<std::size_t>{0}, 3),
                b = alone.loss(std::vector<std::size_t>{0}, 3);
  EXPECT_NEAR(a.loss.item<double>(), b.loss.item<double>(), 1e-4 * a.loss.item<double>());
  a.loss.backward();
  const at::Tensor of_shared = parts.masks->mask_embedding.grad().clone();
  parts.masks->mask_embedding.mutable_grad().zero_();
  b.loss.backward();
  const double largest = of_shared.abs().max().item<double>();
  EXPECT_GT(largest, 0.0);
  EXPECT_LT(distance(parts.masks->mask_embedding.grad(), of_shared), 1e-4 * largest);
}

TEST(RandomDecoder, DependsOnItsSeedAlone) {
  for (const char* name : {"llama", "qwen2", "qwen3", "gemma3"}) {
    const DecoderConfig c = testing::tiny_target(name)->config;
    DecoderLm a = random_decoder(c, 1), b = random_decoder(c, 1), other = random_decoder(c, 2);
    const auto as = weights(a), bs = weights(b), others = weights(other);
    ASSERT_EQ(as.size(), bs.size());
    EXPECT_FALSE(at::equal(a.embedding, other.embedding));
    for (std::size_t i = 0; i < as.size(); ++i) {
      EXPECT_TRUE(at::equal(*as[i].tensor, *bs[i].tensor)) << as[i].name;
      EXPECT_EQ(as[i].tensor->sizes(), at::IntArrayRef(as[i].shape)) << as[i].name;
    }
    EXPECT_NEAR(a.embedding.std().item<double>(), 0.02, 0.002);
    // Its law is nearly flat: every token is as likely as any other within a few per cent.
    KvCache cache = a.make_cache();
    const std::vector<Token> tokens = {1, 5, 9};
    const at::Tensor p = at::softmax(pass(a, cache, tokens), -1);
    EXPECT_LT(p.max().item<double>(), 3.0 / static_cast<double>(c.vocab)) << name;
  }
}

}  // namespace
}  // namespace forerun
