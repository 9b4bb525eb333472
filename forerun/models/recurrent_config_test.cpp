// What configurations and files say about recurrent layers, in both formats; damaged ones are
// refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forerun/models/decoder_config_gguf.h"
#include "tests/support/recurrent_files.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

using testing::AlteredFile;
using testing::expect_says;
using testing::FileKeys;
using testing::lfm2_keys;
using testing::logits_of;
using testing::qwen35_keys;

using Json = nlohmann::json;
using Kind = RecurrentConfig::Kind;

Json recurrent_json(const std::string& family) {
  return load_json_object(kTiny + family + "/config.json");
}

// Of a text model's config, or of the part of a multimodal one.
std::string refusal_of_folder(const std::string& family, const char* key, const Json& value) {
  Json config = recurrent_json(family);
  (config.contains("text_config") ? config["text_config"] : config)[key] = value;
  const auto parsed = parse_decoder_config(config);
  return parsed ? "" : parsed.error().message;
}

TEST(RecurrentConfig, OfLfm2HasConvolutionsAndAttention) {
  for (const DecoderConfig& c : {*parse_decoder_config(recurrent_json("lfm2")),
                                 *parse_decoder_config(load_gguf(kTiny + "lfm2/model.gguf"))}) {
    EXPECT_EQ(c.recurrent, (RecurrentConfig{.kind = Kind::kShortConv, .taps = 3}));
    EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, false, true, false}));
    EXPECT_EQ(c.intermediate, 96);
    EXPECT_EQ(c.kv_heads, 2);
    EXPECT_TRUE(c.tied_head && c.head_norms);
    EXPECT_NEAR(c.norm_eps, 1e-5, 1e-9);
    EXPECT_EQ(c.rope_theta, 1e6);
  }
}

TEST(RecurrentConfig, OfQwen35HasTheDeltaRuleAndGates) {
  const DecoderConfig folder = *parse_decoder_config(recurrent_json("qwen3_5"));
  DecoderConfig file = *parse_decoder_config(load_gguf(kTiny + "qwen3_5/model.gguf"));
  EXPECT_TRUE(file.recurrent.tiled);
  EXPECT_EQ(file.recurrent.key_head_of(1), 1);
  EXPECT_EQ(folder.recurrent.key_head_of(1), 0);
  file.recurrent.tiled = false;
  for (const DecoderConfig& c : {folder, file}) {
    EXPECT_EQ(c.recurrent, (RecurrentConfig{.kind = Kind::kGatedDelta,
                                            .taps = 4,
                                            .key_heads = 2,
                                            .key_dim = 16,
                                            .value_heads = 4,
                                            .value_dim = 32}));
    EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, false, true, false}));
    EXPECT_EQ(c.rotary_dim, 8);
    EXPECT_EQ(c.unread_layers, 0);
    EXPECT_TRUE(c.output_gate && c.head_norms && !c.tied_head);
  }
}

TEST(RecurrentConfig, OfLfm2FoldersThatCannotBeIsRefused) {
  const auto lfm2 = [](const char* key, const Json& value) {
    return refusal_of_folder("lfm2", key, value);
  };
  expect_says(lfm2("num_hidden_layers", -1), "out of range");
  expect_says(lfm2("num_hidden_layers", std::int64_t{1} << 60), "out of range");
  expect_says(lfm2("conv_L_cache", 0), "over 0 rows");
  expect_says(lfm2("conv_L_cache", 1), "over 1 rows");
  expect_says(lfm2("conv_L_cache", 1000), "over 1000 rows");
  expect_says(lfm2("conv_L_cache", -3), "over -3 rows");
  expect_says(lfm2("conv_L_cache", "x"), "'conv_L_cache'");
  expect_says(lfm2("full_attn_idxs", Json::array()), "no layer has attention");
  expect_says(lfm2("full_attn_idxs", 3), "not a list");
  expect_says(lfm2("full_attn_idxs", {1, 4}), "names 4");
  expect_says(lfm2("full_attn_idxs", {-1}), "names -1");
  expect_says(lfm2("full_attn_idxs", {"x"}), "which is not one of 4 layers");
  expect_says(lfm2("layer_types", {"conv", "full_attention"}), "does not list 4 layers");
  expect_says(lfm2("layer_types", "conv"), "does not list 4 layers");
  expect_says(lfm2("layer_types", {"conv", "conv", "mamba", "full_attention"}), "\"mamba\"");
  expect_says(lfm2("layer_types", {"conv", 1, "conv", "full_attention"}), "layer type 1");
  expect_says(lfm2("layer_types", {"conv", "conv", "conv", "conv"}), "no layer has attention");
  expect_says(lfm2("block_multiple_of", 0), "'block_multiple_of'");
  expect_says(lfm2("block_ff_dim", -1), "out of range");
  expect_says(lfm2("block_ff_dim", std::int64_t{1} << 62), "out of range");
  expect_says(lfm2("block_ffn_dim_multiplier", 0.0), "'block_ffn_dim_multiplier'");
  EXPECT_EQ(lfm2("layer_types", Json::array({"conv", "full_attention", "conv", "conv"})), "");
  Json config = recurrent_json("lfm2");  // nothing of it is recurrent
  config["full_attn_idxs"] = {0, 1, 2, 3};
  EXPECT_TRUE(parse_decoder_config(config)->recurrent.none());
}

TEST(RecurrentConfig, OfQwen35FoldersThatCannotBeIsRefused) {
  const auto qwen = [](const char* key, const Json& value) {
    return refusal_of_folder("qwen3_5", key, value);
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  for (const char* key : {"linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads",
                          "linear_value_head_dim"}) {
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{4097}, kHuge}) {
      expect_says(qwen(key, n), "sizes of recurrent layers are out of range");
    }
    expect_says(qwen(key, 1.5), key);
    expect_says(qwen(key, Json::array({2})), key);
  }
  expect_says(qwen("num_hidden_layers", kHuge), "out of range");
  expect_says(qwen("num_hidden_layers", 0), "out of range");
  expect_says(qwen("linear_num_key_heads", 3), "4 value heads cannot share 3 key heads");
  expect_says(qwen("linear_num_value_heads", 1), "1 value heads cannot share 2 key heads");
  expect_says(qwen("linear_value_head_dim", 24), "multiples of 16");
  expect_says(qwen("linear_conv_kernel_dim", 17), "over 17 rows");
  expect_says(qwen("full_attention_interval", 0), "must be positive");
  expect_says(qwen("full_attention_interval", -2), "must be positive");
  expect_says(qwen("full_attention_interval", 5), "no layer has attention");
  EXPECT_EQ(qwen("full_attention_interval", 1), "");
  Json config = recurrent_json("qwen3_5");
  config["text_config"]["linear_key_head_dim"] = config["text_config"]["linear_value_head_dim"] =
      4096;
  expect_says(parse_decoder_config(config).error().message, "4 matrices of 4096 by 4096");
}

TEST(RecurrentConfig, OfLfm2GgufFilesThatCannotBeIsRefused) {
  const FileKeys lfm2 = lfm2_keys();
  EXPECT_EQ(lfm2.refusal(), "");
  const auto heads = [&](std::vector<std::int32_t> n) {
    return lfm2.with("attention.head_count_kv", std::move(n)).refusal();
  };
  expect_says(heads({0, 1, 0}), "lists 3 layers of 4");
  expect_says(heads({}), "lists 0 layers of 4");
  expect_says(heads({0, 0, 0, 0}), "no layer has attention");
  expect_says(heads({0, 1, 0, 2}), "is 1 and 2: layers of different sizes");
  expect_says(heads({0, 1, 0, -1}), "is -1 and 1");
  expect_says(heads({-1, -1, -1, -1}), "out of range");
  expect_says(heads({0, 3, 0, 3}), "2 query heads cannot share 3 key heads");
  EXPECT_EQ(heads({2, 2, 2, 2}), "");
  expect_says(lfm2.without("attention.head_count_kv").refusal(), "lfm2.attention.head_count_kv");
  const FileKeys every = lfm2.with("attention.head_count_kv", 1);  // all have attention
  EXPECT_TRUE(every.parsed()->recurrent.none());
  EXPECT_EQ(every.parsed()->kv_heads, 1);
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 60}) {
    expect_says(lfm2.with("block_count", n).refusal(), "out of range");
    expect_says(every.with("attention.head_count_kv", n).refusal(), "out of range");
    expect_says(lfm2.with("attention.head_count", n).refusal(), "out of range");
    expect_says(lfm2.with("shortconv.l_cache", n).refusal(), "a convolution over");
  }
  expect_says(lfm2.without("shortconv.l_cache").refusal(), "lfm2.shortconv.l_cache");
  expect_says(lfm2.with("shortconv.l_cache", std::vector{3}).refusal(), "lfm2.shortconv.l_cache");
  expect_says(lfm2.with("attention.sliding_window", 8).refusal(), "attention.sliding_window");
  expect_says(lfm2.with("expert_count", 4).refusal(), "lfm2.expert");
  expect_says(lfm2.with("rope.dimension_sections", std::vector{1, 1}).refusal(), "sections");
}

TEST(RecurrentConfig, OfQwen35GgufFilesThatCannotBeIsRefused) {
  const FileKeys qwen = qwen35_keys();
  EXPECT_EQ(qwen.refusal(), "");
  for (const char* key : {"ssm.conv_kernel", "ssm.group_count", "ssm.state_size",
                          "ssm.time_step_rank", "ssm.inner_size"}) {
    expect_says(qwen.without(key).refusal(), key);
    expect_says(qwen.with(key, std::vector{1}).refusal(), key);
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-64}, std::int64_t{1} << 60,
                                 std::numeric_limits<std::int64_t>::min()}) {
      EXPECT_NE(qwen.with(key, n).refusal(), "") << key << " " << n;
    }
  }
  expect_says(qwen.with("ssm.inner_size", 65).refusal(), "65, not a width of 4 value heads");
  expect_says(qwen.with("ssm.inner_size", 32).refusal(), "multiples of 16");
  expect_says(qwen.with("ssm.group_count", 3).refusal(), "cannot share 3 key heads");
  expect_says(qwen.with("full_attention_interval", 0).refusal(), "must be positive");
  expect_says(qwen.with("full_attention_interval", 5).refusal(), "no layer has attention");
  EXPECT_TRUE(qwen.with("full_attention_interval", 1).parsed()->recurrent.none());
  expect_says(qwen.with("block_count", std::int64_t{1} << 60).refusal(), "out of range");
  expect_says(qwen.with("rope.dimension_count", 18).refusal(), "part of a head");
  expect_says(qwen.with("rope.dimension_count", 0).refusal(), "part of a head");
  expect_says(qwen.with("rope.dimension_count", 3).refusal(), "cannot be rotated");
}

// As Ollama wrote it: layers without keys are the recurrent ones.
TEST(RecurrentConfig, OfQwen35MayListHeadsOfKeys) {
  const auto listed = [](std::vector<std::int32_t> heads) {
    return qwen35_keys().with("attention.head_count_kv", std::move(heads));
  };
  const DecoderConfig c = *listed({0, 1, 0, 1}).parsed();
  EXPECT_EQ(c.kv_heads, 1);
  EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, false, true, false}));
  EXPECT_TRUE(listed({1, 1, 1, 1}).parsed()->recurrent.none());
  expect_says(listed({0, 0, 1}).refusal(), "lists 3 layers of 4");
  expect_says(listed({0, 1, 0, 2}).refusal(), "is 1 and 2: layers of different sizes");
  expect_says(listed({0, 0, 0, 0}).refusal(), "no layer has attention");
  expect_says(listed({-1, -1, -1, -1}).refusal(), "out of range");
  const DecoderConfig further = *listed({0, 1, 0, 1}).with("nextn_predict_layers", 1).parsed();
  EXPECT_EQ(further.recurrent_layers, (std::vector<bool>{true, false, true}));
}

TEST(RecurrentConfig, OfQwen35LeavesOutLayersThatPredictFurtherTokens) {
  const FileKeys qwen = qwen35_keys().with("block_count", 5);
  const DecoderConfig c = *qwen.with("nextn_predict_layers", 1).parsed();
  EXPECT_EQ(c.layers, 4);
  EXPECT_EQ(c.unread_layers, 1);
  EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, true, true, false}));
  expect_says(qwen.with("nextn_predict_layers", 5).refusal(), "5 of 5 layers predict");
  expect_says(qwen.with("nextn_predict_layers", -1).refusal(), "-1 of 5 layers predict");
  expect_says(lfm2_keys().with("nextn_predict_layers", 1).refusal(), "not supported");
}

TEST(RecurrentFiles, TheLastNormOfLfm2HasTwoNames) {
  AlteredFile file("lfm2");
  const at::Tensor older = logits_of(file.load(Precision::kF32));
  auto norm = file.tensors.extract("token_embd_norm.weight");
  ASSERT_FALSE(norm.empty());
  expect_says(file.refusal(), "'token_embd_norm.weight' is missing");
  norm.key() = "output_norm.weight";
  file.tensors.insert(std::move(norm));
  EXPECT_TRUE(at::equal(logits_of(file.load(Precision::kF32)), older));
}

TEST(RecurrentFiles, AFurtherLayerIsLeftOutIfTheFileSaysSo) {
  AlteredFile file("qwen3_5");
  file.tensors["blk.4.attn_norm.weight"] = file.tensors.at("blk.3.attn_norm.weight");
  expect_says(file.refusal(), "the file holds more");
  file.config.unread_layers = 1;
  EXPECT_EQ(file.refusal(), "");
}

TEST(RecurrentFiles, TensorsOfOtherShapesAreRefused) {
  const auto lacks_a_row = [](const std::string& family, const std::string& name) {
    AlteredFile file(family);
    TensorView& t = file.tensors.at(name);
    const std::size_t row = t.bytes.size() / static_cast<std::size_t>(t.shape[0]);
    t.shape[0] -= 1;
    t.bytes = t.bytes.first(t.bytes.size() - row);
    expect_says(file.refusal(), ("tensor '" + name + "' has shape [").c_str());
    t.shape.clear();
    t.bytes = t.bytes.first(4);
    expect_says(file.refusal(), ("tensor '" + name + "' has shape []").c_str());
    file.tensors.erase(name);
    expect_says(file.refusal(), ("tensor '" + name + "' is missing").c_str());
  };
  for (const char* name : {"blk.0.shortconv.conv.weight", "blk.0.shortconv.in_proj.weight",
                           "blk.2.shortconv.out_proj.weight", "blk.1.attn_q_norm.weight"}) {
    lacks_a_row("lfm2", name);
  }
  for (const char* name :
       {"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight", "blk.0.ssm_alpha.weight",
        "blk.0.ssm_beta.weight", "blk.0.ssm_conv1d.weight", "blk.2.ssm_dt.bias", "blk.2.ssm_a",
        "blk.0.ssm_norm.weight", "blk.0.ssm_out.weight", "blk.1.attn_q.weight",
        "blk.0.post_attention_norm.weight"}) {
    lacks_a_row("qwen3_5", name);
  }
  AlteredFile wide("qwen3_5");  // of queries and gates
  TensorView& q = wide.tensors.at("blk.1.attn_q.weight");
  std::swap(q.shape[0], q.shape[1]);
  expect_says(wide.refusal(), "tensor 'blk.1.attn_q.weight' has shape [64, 256]");
  q.shape = {256, 8, 8};
  expect_says(wide.refusal(), "tensor 'blk.1.attn_q.weight' has shape [128, 8, 8]");
}

TEST(RecurrentFiles, RatesThatMakeAStateGrowAreRefused) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::nanf(""), 0.5F}) {
    AlteredFile file("qwen3_5");
    const std::vector<float> rates = {-1.0F, -0.5F, bad, 0.0F};
    file.tensors.at("blk.0.ssm_a").bytes = std::as_bytes(std::span(rates));
    expect_says(file.refusal(), "tensor 'blk.0.ssm_a' holds a rate");
  }
  // In a folder they are logarithms.
  const std::string folder = kTiny + "qwen3_5";
  const Safetensors weights = load_safetensors(folder);
  for (const float bad : {kInfinity, 100.0F, std::nanf("")}) {
    const std::vector<float> logarithms = {-1.0F, bad, 0.0F, 1.0F};
    std::vector<TensorView> tensors = weights.tensors();
    for (TensorView& t : tensors) {
      if (t.name.ends_with("layers.0.linear_attn.A_log")) {
        t.bytes = std::as_bytes(std::span(logarithms));
      }
    }
    EXPECT_THROW(
        load_decoder(load_hf_config(folder), Safetensors(tensors, {}), folder, Precision::kF32),
        FormatError);
  }
}

}  // namespace
}  // namespace forerun
