// A network initialised from a target's last blocks attends to the context as they would.
#include "forerun/models/dflash/init_dflash.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "forerun/models/dflash/internal/slots.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

DecoderLm tiny(const std::string& name) {
  const std::string folder = kTiny + name;
  return load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kF32);
}

// llama_plain has three blocks: one is copied, and its input is the output of block 1.
DFlashConfig config_of(const DecoderLm& target) {
  DFlashConfig c = dflash_config_for(target.config, 1, 1, 4);
  c.feature_layers = {0, 1};
  return c;
}

// The outputs of blocks 0 and 1 of the target, a row a token: used as captured features.
at::Tensor features_of(const DecoderLm& target, std::int64_t rows) {
  at::manual_seed(5);
  return at::randn({rows, 2 * target.config.hidden});
}

// The target's own keys or values in its last block for a residual stream that enters it.
at::Tensor projected(const DecoderLm& target, const at::Tensor& stream, std::int64_t first,
                     std::int64_t heads) {
  const DecoderConfig& t = target.config;
  const TransformerBlock& last = target.layers.back();
  return at::linear(last.attention_norm(stream), joined({&last.q, &last.k, &last.v}).weight)
      .narrow(1, first * t.head_dim, heads * t.head_dim)
      .view({-1, heads, t.head_dim});
}

at::Tensor cosines(const at::Tensor& a, const at::Tensor& b) {
  return (a * b).sum(-1) / (a.norm(2, -1) * b.norm(2, -1));
}

TEST(InitDFlash, KeysAndValuesOfTheContextBeginAsTheTargets) {
  const DecoderLm target = tiny("llama_plain");
  const DecoderConfig& t = target.config;
  const DFlashConfig c = config_of(target);
  const at::Tensor features = features_of(target, 40);
  DFlash m = dflash_from_target(target, c, features, 1);
  // Without the added noise, fc passes on exactly the feature that enters the block.
  m.fc.narrow(1, 0, c.hidden).zero_();
  const at::Tensor stream = features.narrow(1, c.hidden, c.hidden);
  const auto rotation = internal::rotation_at(m, at::zeros({40}, at::kLong));
  const KeysValues ours = keys_values(m.layers[0], c, context(m, features), rotation);
  const at::Tensor keys = projected(target, stream, t.heads, t.kv_heads);
  EXPECT_GT(cosines(ours.k, keys).min().item<double>(), 1.0 - 1e-5);
  const double ratio =
      ours.k.norm(2, -1).mean().item<double>() / keys.norm(2, -1).mean().item<double>();
  EXPECT_NEAR(ratio, 1.0, 0.02);  // and as long as theirs on average
  EXPECT_LT(distance(ours.v, projected(target, stream, t.heads + t.kv_heads, t.kv_heads)), 1e-4);
}

TEST(InitDFlash, NoiseInFcHardlyTurnsTheKeys) {
  const DecoderLm target = tiny("llama_plain");
  const at::Tensor features = features_of(target, 40);
  const DFlash m = dflash_from_target(target, config_of(target), features, 1);
  const auto rotation = internal::rotation_at(m, at::zeros({40}, at::kLong));
  const at::Tensor ours = keys_values(m.layers[0], m.config, context(m, features), rotation).k;
  const at::Tensor stream = features.narrow(1, m.config.hidden, m.config.hidden);
  const at::Tensor keys = projected(target, stream, target.config.heads, target.config.kv_heads);
  EXPECT_GT(cosines(ours, keys).min().item<double>(), 0.99);
  EXPECT_GT(m.fc.narrow(1, 0, m.config.hidden).abs().max().item<double>(), 0.0);
}

TEST(InitDFlash, LaterLayersMakeUpForTheirOwnNorms) {
  const DecoderLm target = tiny("llama_plain");
  DFlashConfig c = dflash_config_for(target.config, 2, 1, 4);
  c.feature_layers = {0};  // enters block 1, the first of the two copied
  const at::Tensor x = at::randn({8, c.hidden});
  const DFlash m = dflash_from_target(target, c, x, 1);
  const TransformerBlock& last = target.layers.back();
  const at::Tensor theirs =
      at::linear(last.attention_norm(x), joined({&last.q, &last.k, &last.v}).weight);
  const at::Tensor ours = m.layers[1].attention_norm.fused(x);
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  EXPECT_LT(distance(at::linear(ours, m.layers[1].q.weight), theirs.narrow(1, 0, q)), 1e-4);
  EXPECT_LT(distance(at::linear(ours, m.layers[1].k.weight), theirs.narrow(1, q, kv)), 1e-4);
  EXPECT_LT(distance(at::linear(ours, m.layers[1].v.weight), theirs.narrow(1, q + kv, kv)), 1e-4);
  EXPECT_LT(distance(context(m, x), m.hidden_norm.fused(x)), 1e-5);
}

TEST(InitDFlash, NormsOfQueriesAndKeysComeFromATargetThatHasThem) {
  const DecoderLm target = tiny("qwen3");
  const DFlashConfig c = config_of(target);
  const DFlash m = dflash_from_target(target, c, features_of(target, 20), 1);
  EXPECT_EQ(distance(m.layers[0].k_norm.weight, target.layers.back().k_norm.weight), 0.0);
  EXPECT_EQ(distance(m.layers[0].q_norm.weight, target.layers.back().q_norm.weight), 0.0);
}

TEST(InitDFlash, TheSeedDecides) {
  const DecoderLm target = tiny("llama_plain");
  DFlashConfig c = dflash_config_for(target.config, 2, 1, 4);
  c.markov_rank = 3;
  c.confidence = true;
  c.confidence_sees_markov = true;
  c.draft_vocab = 5;
  const at::Tensor map = at::tensor({0, 9, 10, 70, 175}, at::kLong);
  const DFlash a = random_dflash(c, DFlashTarget(target), 1, map);
  const DFlash same = random_dflash(c, DFlashTarget(target), 1, map);
  const DFlash other = random_dflash(c, DFlashTarget(target), 2, map);
  EXPECT_EQ(distance(a.fc, same.fc), 0.0);
  EXPECT_GT(distance(a.fc, other.fc), 0.0);
  EXPECT_NEAR(a.layers[1].gate.weight.std().item<double>(), 0.02, 0.002);
  EXPECT_EQ(distance(a.layers[0].q_norm.weight, at::ones({c.head_dim})), 0.0);
  EXPECT_EQ(distance(a.head, target.head().index_select(0, map)), 0.0);
  EXPECT_EQ(distance(a.mask_embedding, target.embedding.mean(0)), 0.0);
  EXPECT_EQ(markov_bias(a, {}, at::tensor({1, 2}, at::kLong)).abs().max().item<double>(), 0.0);
}

TEST(InitDFlash, AddedConvolutionsChangeNothing) {
  const DecoderLm target = tiny("llama_plain");
  DFlash m = random_dflash(config_of(target), DFlashTarget(target), 1);
  DFlashCache cache(m);
  cache.append(m, features_of(target, 9));
  const auto hidden = [&] { return block_hidden(m, cache, masked_block(m, 8), 9); };
  const at::Tensor before = hidden();
  const std::size_t weights_before = weights(m).size();
  add_convolutions(m);
  EXPECT_EQ(weights(m).size(), weights_before + 4);
  EXPECT_EQ(m.config.conv_taps, 2);
  EXPECT_TRUE(at::equal(hidden(), before));
  m.layers[0].mlp_conv.base.select(1, 1).fill_(0.5);
  EXPECT_GT(distance(hidden(), before), 1e-3);
  add_convolutions(m);  // has them: stays as it is
  EXPECT_EQ(m.layers[0].mlp_conv.base.select(1, 1).min().item<float>(), 0.5F);
  DFlash odd = m;
  odd.config.conv_taps = 0;
  odd.config.hidden = 24;
  EXPECT_THROW(add_convolutions(odd), std::invalid_argument);
}

TEST(InitDFlash, RefusesWhatDoesNotFit) {
  const DecoderLm target = tiny("llama_plain");
  const DFlashConfig c = config_of(target);
  const at::Tensor features = features_of(target, 4);
  const auto refuses = [&](DFlashConfig bad, const at::Tensor& map = {}) {
    EXPECT_THROW(dflash_from_target(target, bad, features, 1, map), std::invalid_argument);
  };
  DFlashConfig bad = c;
  bad.hidden = 64;
  refuses(bad);
  bad = c;
  bad.kv_heads = 1;
  refuses(bad);
  bad = c;
  bad.draft_vocab = 5;
  refuses(bad);
  refuses(c, at::arange(5));
  EXPECT_THROW(dflash_from_target(tiny("gemma3"), config_of(tiny("gemma3")),
                                  features_of(tiny("gemma3"), 4), 1),
               std::invalid_argument);
}

}  // namespace
}  // namespace forerun
