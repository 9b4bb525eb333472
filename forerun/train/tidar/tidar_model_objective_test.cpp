#include "forerun/train/tidar/tidar_model_objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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
  differs([](TidarModelParts& p) { p.options.random_masks = true; });
  differs([](TidarModelParts& p) { p.masks->config.first_slot = 0; });
  differs([](TidarModelParts& p) { p.masks->config.block = 5; });
  differs([](TidarModelParts& p) { p.decoder->embedding = p.decoder->embedding * 1.1; });
  differs([](TidarModelParts& p) { p.masks->mask_embedding = p.masks->mask_embedding + 1.0; });
  differs([](TidarModelParts& p) { p.data.push_back(p.data[0]); });
}

// Rows of a block that show tokens, against a pass of decoding whose rows begin as those tokens.
TEST(TidarShownTokens, AreReadAsTheDecoderReadsThem) {
  const TidarModelParts parts("llama_plain", 4, 0, 0);
  const DecoderLm& model = *parts.decoder;
  const std::vector<Token> text = some_tokens(30, 1), shown = {text[9], -1, text[11], -1};
  const at::AutoGradMode no_autograd(false);
  const MaskStates states =
      mask_states(model, *parts.masks, {.documents = {text}, .starts = {{9}}, .shown = shown},
                  MaskTraining::kAll);
  const at::Tensor there = head_logits(model, states.masks.flatten(0, 1)).to(at::kFloat);

  KvCache cache = model.make_cache();
  pass(model, cache, std::span(text).first(9));
  std::vector<float> rows;
  for (const Token t : shown) {
    const at::Tensor row =
        t < 0 ? parts.masks->mask_embedding : embed(model, at::full({1}, t, at::kLong))[0];
    const at::Tensor x = row.to(at::kFloat).contiguous();
    rows.insert(rows.end(), x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel());
  }
  const std::vector<std::int32_t> groups(4, 0), scored = {0, 1, 2, 3};
  const SequenceSpan span{
      .cache = &cache, .groups = groups, .scored_rows = scored, .embeddings = rows};
  const at::Tensor here = forward(model, {&span, 1});
  const double largest = there.abs().max().item<double>();
  EXPECT_LT(distance(here, there), 1e-4 * largest);

  const MaskStates masks =
      mask_states(model, *parts.masks, {.documents = {text}, .starts = {{9}}}, MaskTraining::kAll);
  EXPECT_GT(distance(head_logits(model, masks.masks.flatten(0, 1)).to(at::kFloat), there),
            1e-2 * largest);
  const auto refused = [&](std::vector<Token> wrong) {
    EXPECT_THROW(mask_states(model, *parts.masks,
                             {.documents = {text}, .starts = {{9}}, .shown = std::move(wrong)}),
                 std::invalid_argument);
  };
  refused({-1, -1, -1});
  refused({-1, -1, -1, -2});
  refused({-1, -1, -1, static_cast<Token>(model.config.vocab)});
}

// A document's slots stay masks with one probability, which is uniform over documents and seeds.
TEST(TidarRandomMasks, AreAUniformShareOfTheSlots) {
  constexpr std::size_t kSlots = 200;
  MaskSlots slots;
  for (std::size_t i = 0; i < kSlots; ++i) {
    slots.row.push_back(static_cast<std::int64_t>(i));
    slots.label.push_back(static_cast<std::int64_t>(1000 + i));
    slots.draft.push_back(0);
    slots.previous.push_back(0);
    slots.teacher.push_back(0);
    slots.weight.push_back(1.0F);
  }
  std::array<int, 10> shares{};
  constexpr std::uint64_t kDocuments = 2000;
  for (std::uint64_t key = 0; key < kDocuments; ++key) {
    std::vector<Token> shown(kSlots, -1);
    const AnswerDocument document{.tokens = {}, .prompt = 0, .key = key};
    const MaskSlots kept = mask_at_random(slots, document, 7, shown);
    std::size_t masks = 0;
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (shown[i] < 0) {
        ASSERT_LT(masks, kept.row.size());
        EXPECT_EQ(kept.row[masks++], static_cast<std::int64_t>(i));
      } else {
        EXPECT_EQ(shown[i], static_cast<Token>(1000 + i));
      }
    }
    EXPECT_EQ(masks, kept.row.size());
    ++shares.at(std::min<std::size_t>(9, masks * 10 / kSlots));
  }
  // Standard deviation of a count: 13.4. All masks, or one probability for all, would fill one bin.
  for (const int n : shares) EXPECT_NEAR(n, kDocuments / 10.0, 70.0);
}

TEST_F(TidarModel, MasksAtRandomWhatItLearnsAndAllOfWhatIsHeldOut) {
  const LossSum all = loss_of(parts);
  parts.options.random_masks = true;
  const LossSum some = loss_of(parts);
  EXPECT_NEAR(some.weight, 128.0, 1e-3);  // a document's masks count as its text, however many
  EXPECT_EQ(some.figures.at(0).numerator, all.figures.at(0).numerator);
  EXPECT_EQ(some.figures.size(), 1U);
  EXPECT_NE(some.loss.item<double>(), all.loss.item<double>());

  parts.options.held_out = 0.5;
  std::vector<TokenDocument> documents;
  for (std::int64_t i = 0; i < 20; ++i) {
    documents.push_back({.id = i, .prompt = 0, .tokens = some_tokens(30, 1)});
  }
  parts.data = {shards_in(folder.path() / "more", documents)};
  const auto held_out = [&] {
    TidarModelObjective objective = parts.make();
    EXPECT_GT(objective.held_out(), 2U);
    const LossSum sum = objective.held_out_loss(std::vector<std::size_t>{0, 1, 2});
    EXPECT_GT(sum.figures.size(), 3U);
    return sum.loss.item<double>();
  };
  const double shown = held_out();
  parts.options.random_masks = false;
  EXPECT_EQ(shown, held_out());
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
