// What configurations say about layers of experts, in both formats.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "forerun/formats/gguf.h"
#include "forerun/formats/hf_config.h"
#include "forerun/models/decoder_config_gguf.h"
#include "forerun/models/save_decoder.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/tiny_folder.h"

namespace forerun {
namespace {

using nlohmann::json;

json experts_json(const std::string& family) {
  return load_json_object(kTiny + family + "/config.json");
}

// Of the folder, of the GGUF file, and of what is written of the first.
std::vector<DecoderConfig> all_forms(const std::string& family) {
  const DecoderConfig folder = *parse_decoder_config(experts_json(family));
  return {folder, *parse_decoder_config(load_gguf(kTiny + family + "/model.gguf")),
          *parse_decoder_config(decoder_config_json(folder))};
}

std::string folder_refusal(const std::string& family, const char* key, const json& value) {
  json config = experts_json(family);
  config[key] = value;
  const auto parsed = parse_decoder_config(config);
  return parsed ? "" : parsed.error().message;
}

void expect_part(const std::string& said, const char* part) {
  EXPECT_NE(said.find(part), std::string::npos) << said << " lacks: " << part;
}

TEST(ExpertConfig, OfQwen2MoeHasASharedExpertWithAGate) {
  for (const DecoderConfig& c : all_forms("qwen2_moe")) {
    EXPECT_EQ(c.experts, 6);
    EXPECT_EQ(c.experts_used, 2);
    EXPECT_EQ(c.intermediate, 32);
    EXPECT_EQ(c.shared_intermediate, 96);
    EXPECT_TRUE(c.shared_gate);
    EXPECT_TRUE(c.qkv_biases);
    EXPECT_FALSE(c.norm_topk_prob);
    EXPECT_EQ(c.routing, ExpertRouting{});
    EXPECT_TRUE(c.dense.empty());
  }
  json config = experts_json("qwen2_moe");
  config["norm_topk_prob"] = true;
  config["qkv_bias"] = false;
  const DecoderConfig c = *parse_decoder_config(config);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_FALSE(c.qkv_biases);
  EXPECT_EQ(decoder_config_json(c)["model_type"], "qwen2_moe");
  EXPECT_FALSE(parse_decoder_config(decoder_config_json(c))->qkv_biases);
  expect_part(folder_refusal("qwen2_moe", "shared_expert_intermediate_size", 0),
              "must be positive");
  expect_part(folder_refusal("qwen2_moe", "shared_expert_intermediate_size", nullptr),
              "is missing");
  expect_part(folder_refusal("qwen2_moe", "shared_expert_intermediate_size", 1 << 25),
              "out of range");
  expect_part(folder_refusal("qwen2_moe", "num_experts_per_tok", 7), "7 of 6 experts");
}

TEST(ExpertConfig, OfLayersThatNoMemoryHoldsIsRefused) {
  for (const char* family : {"qwen2_moe", "glm4_moe", "ernie"}) {
    for (const std::int64_t layers : {std::int64_t{-1}, std::int64_t{1} << 60}) {
      expect_part(folder_refusal(family, "num_hidden_layers", layers), "out of range");
    }
  }
}

// As transformers' class: every other layer, from the first on.
TEST(ExpertConfig, OfQwen2MoeHasTheWindowsOfItsClass) {
  json config = experts_json("qwen2_moe");
  EXPECT_EQ(parse_decoder_config(config)->window, 0);
  config["use_sliding_window"] = true;
  config["sliding_window"] = 8;
  config["num_hidden_layers"] = 5;
  config["max_window_layers"] = 4;
  const DecoderConfig c = *parse_decoder_config(config);
  EXPECT_EQ(c.sliding, (std::vector<bool>{true, false, true, false, false}));
  EXPECT_EQ(parse_decoder_config(decoder_config_json(c))->sliding, c.sliding);
}

TEST(ExpertConfig, LayersWithoutExpertsAreThoseThatTheFileSays) {
  for (const char* family : {"qwen2_moe", "qwen3_moe"}) {
    json config = experts_json(family);
    config["num_hidden_layers"] = 5;
    config["decoder_sparse_step"] = 2;
    config["mlp_only_layers"] = {3, 9};
    const DecoderConfig c = *parse_decoder_config(config);
    EXPECT_EQ(c.dense, (std::vector<bool>{true, false, true, true, true}));
    EXPECT_EQ(c.dense_intermediate, 96);
    EXPECT_EQ(c.block(0).experts, 0);
    EXPECT_EQ(c.block(0).intermediate, 96);
    EXPECT_EQ(c.block(1).experts, c.experts);
    EXPECT_EQ(c.block(1).intermediate, 32);
    const DecoderConfig again = *parse_decoder_config(decoder_config_json(c));
    EXPECT_EQ(again.dense, c.dense);
    EXPECT_EQ(again.dense_intermediate, 96);
    expect_part(folder_refusal(family, "mlp_only_layers", {"x"}), "does not list layers");
    expect_part(folder_refusal(family, "decoder_sparse_step", -1), "must be positive");
    config.erase("intermediate_size");
    EXPECT_FALSE(parse_decoder_config(config));
  }
}

TEST(ExpertConfig, OfOlmoeNormsWholeQueriesAndKeys) {
  for (const DecoderConfig& c : all_forms("olmoe")) {
    EXPECT_TRUE(c.head_norms && c.whole_norms && c.pre_norms);
    EXPECT_FALSE(c.post_norms);
    EXPECT_FALSE(c.norm_topk_prob);
    EXPECT_EQ(c.experts, 8);
    EXPECT_EQ(c.intermediate, 32);
    EXPECT_EQ(c.shared_intermediate, 0);
  }
  EXPECT_EQ(folder_refusal("olmoe", "clip_qkv", nullptr), "");
  expect_part(folder_refusal("olmoe", "clip_qkv", 8.0), "'clip_qkv'");
}

TEST(ExpertConfig, OfGraniteHasItsMultipliersAndPerhapsASharedExpert) {
  json config = experts_json("granite_moe");
  for (const DecoderConfig& c :
       {*parse_decoder_config(config),
        *parse_decoder_config(load_gguf(kTiny + "granite_moe/model.gguf"))}) {
    EXPECT_EQ(c.experts, 6);
    EXPECT_TRUE(c.norm_topk_prob);
    EXPECT_EQ(c.shared_intermediate, 96);
    EXPECT_FALSE(c.shared_gate);
    EXPECT_NEAR(c.residual_scale, 0.22, 1e-6);
    EXPECT_NEAR(c.query_scale, 0.125, 1e-6);
    EXPECT_FALSE(can_be_saved(c));
  }
  config["shared_intermediate_size"] = -1;
  EXPECT_FALSE(parse_decoder_config(config));
  config["model_type"] = "granitemoe";  // which reads no such field
  EXPECT_EQ(parse_decoder_config(config)->shared_intermediate, 0);
  EXPECT_FALSE(can_be_saved(*parse_decoder_config(config)));
}

TEST(ExpertConfig, OfGlm4MoeHasSigmoidsAndDenseLayers) {
  for (const DecoderConfig& c : all_forms("glm4_moe")) {
    EXPECT_EQ(c.routing, (ExpertRouting{.sigmoid = true, .corrected = true, .scale = 1.5}));
    EXPECT_TRUE(c.norm_topk_prob);
    EXPECT_EQ(c.shared_intermediate, 32);
    EXPECT_FALSE(c.shared_gate);
    EXPECT_EQ(c.layers, 3);  // without the one that predicts a further token
    EXPECT_EQ(c.dense, (std::vector<bool>{true, false, false}));
    EXPECT_EQ(c.dense_intermediate, 96);
    EXPECT_EQ(c.rotary_dim, 16);
    EXPECT_FALSE(c.head_norms || c.neighbours() || c.post_norms);
  }
  for (const DecoderConfig& c : all_forms("glm4_moe_groups")) {
    EXPECT_EQ(c.routing.groups, 4);
    EXPECT_EQ(c.routing.groups_used, 2);
    EXPECT_EQ(c.shared_intermediate, 64);
    EXPECT_TRUE(c.head_norms && c.dense.empty());
  }
  json config = experts_json("glm4_moe");  // what its class has
  EXPECT_EQ(parse_decoder_config(config)->unread_layers, 1);
  for (const char* key : {"num_nextn_predict_layers", "n_group", "topk_group", "n_shared_experts",
                          "first_k_dense_replace", "norm_topk_prob", "partial_rotary_factor"}) {
    config.erase(key);
  }
  const DecoderConfig c = *parse_decoder_config(config);
  EXPECT_EQ(c.unread_layers, 1);
  EXPECT_EQ(c.rotary_dim, 16);
  EXPECT_TRUE(c.norm_topk_prob && c.dense[0]);
  config["partial_rotary_factor"] = 1.0;
  const DecoderConfig whole = *parse_decoder_config(config);
  EXPECT_EQ(whole.rotary_dim, 0);
  EXPECT_EQ(parse_decoder_config(decoder_config_json(whole))->rotary_dim, 0);
}

TEST(ExpertConfig, OfErnieCorrectsProbabilities) {
  for (const DecoderConfig& c : all_forms("ernie")) {
    EXPECT_EQ(c.routing, (ExpertRouting{.corrected = true}));
    EXPECT_TRUE(c.norm_topk_prob && c.neighbours() && c.tied_head);
    EXPECT_EQ(c.experts, 5);
    EXPECT_EQ(c.experts_used, 2);
    EXPECT_EQ(c.shared_intermediate, 64);
    EXPECT_EQ(c.dense, (std::vector<bool>{true, false}));
    EXPECT_EQ(c.dense_intermediate, 96);
  }
  json config = experts_json("ernie");
  config["num_hidden_layers"] = 6;
  config["moe_layer_interval"] = 2;
  config["moe_layer_end_index"] = 3;
  const std::vector<bool> some = {true, false, true, false, true, true};
  EXPECT_EQ(parse_decoder_config(config)->dense, some);
  EXPECT_EQ(parse_decoder_config(decoder_config_json(*parse_decoder_config(config)))->dense, some);
  config["moe_layer_end_index"] = -1;
  config["moe_layer_interval"] = 1;
  config["moe_num_shared_experts"] = 0;
  const DecoderConfig c = *parse_decoder_config(config);
  EXPECT_EQ(c.dense, (std::vector<bool>{true, false, false, false, false, false}));
  EXPECT_EQ(c.shared_intermediate, 0);
  EXPECT_EQ(parse_decoder_config(decoder_config_json(c))->dense, c.dense);
  expect_part(folder_refusal("ernie", "moe_layer_interval", 0), "'moe_layer_interval'");
  expect_part(folder_refusal("ernie", "moe_num_shared_experts", -1), "'moe_num_shared_experts'");
  expect_part(folder_refusal("ernie", "moe_k", 6), "6 of 5 experts");
  expect_part(folder_refusal("ernie", "moe_norm_min", 0.5), "'moe_norm_min'");
}

TEST(ExpertConfig, OfGlm4MoeThatCannotBeIsRefused) {
  const auto glm = [](const char* key, const json& value) {
    return folder_refusal("glm4_moe_groups", key, value);
  };
  expect_part(glm("n_group", 3), "8 experts do not form 3 groups");
  expect_part(glm("n_group", 8), "8 experts do not form 8 groups of two");
  expect_part(glm("n_group", 0), "0 groups");
  expect_part(glm("topk_group", 5), "of 5 of 4 groups");
  expect_part(glm("topk_group", 0), "of 0 of 4 groups");
  expect_part(glm("topk_group", 1), "3 experts are not to be chosen among those of 1 of 4 groups");
  expect_part(glm("n_shared_experts", 0), "'n_shared_experts' is 0");
  expect_part(glm("n_shared_experts", 1L << 60), "'n_shared_experts'");
  expect_part(glm("moe_intermediate_size", 1L << 60), "out of range");
  expect_part(glm("moe_intermediate_size", 0), "out of range");
  expect_part(glm("routed_scaling_factor", 0.0), "the scale 0 of experts");
  expect_part(glm("routed_scaling_factor", "x"), "'routed_scaling_factor'");
  expect_part(glm("first_k_dense_replace", 3), "'first_k_dense_replace' is 3 of 2 layers");
  expect_part(glm("first_k_dense_replace", -1), "'first_k_dense_replace'");
  expect_part(glm("num_nextn_predict_layers", -1), "'num_nextn_predict_layers'");
  expect_part(glm("num_experts_per_tok", 9), "9 of 8 experts");
  expect_part(glm("n_routed_experts", 0), "'n_routed_experts' must be positive");
  expect_part(glm("partial_rotary_factor", 1.5), "'partial_rotary_factor'");
  expect_part(folder_refusal("glm4_moe", "intermediate_size", 0), "layers without experts 0");
}

using ExpertsFile = testing::GgufBuilder;

// Of a file of 4 layers and 8 experts of which 2 are used, with these keys besides.
Result<DecoderConfig> experts_gguf(
    const std::string& architecture,
    const std::function<void(ExpertsFile&, const std::string&)>& more, std::uint32_t experts = 8) {
  ExpertsFile b;
  const std::string at = architecture + ".";
  b.string("general.architecture", architecture);
  for (const char* key : {"embedding_length", "context_length", "feed_forward_length"}) {
    b.u32(at + key, 32);
  }
  b.u32(at + "block_count", 4).u32(at + "attention.head_count", 1);
  if (experts > 0) b.u32(at + "expert_count", experts).u32(at + "expert_used_count", 2);
  more(b, at);
  b.tensor("token_embd.weight", {32, 1}, 0, 0).data = std::string(128, '\0');
  const std::string bytes = b.bytes();
  return parse_decoder_config(*parse_gguf(std::as_bytes(std::span(bytes))));
}

std::string gguf_refusal(const std::string& architecture,
                         const std::function<void(ExpertsFile&, const std::string&)>& more,
                         std::uint32_t experts = 8) {
  const Result<DecoderConfig> c = experts_gguf(architecture, more, experts);
  return c ? "" : c.error().message;
}

const auto kNothingElse = [](ExpertsFile&, const std::string&) {};

auto with_number(const char* key, std::uint32_t value) {
  return [=](ExpertsFile& b, const std::string& at) { b.u32(at + key, value); };
}

auto with_real(const char* key, float value) {
  constexpr std::uint32_t kFloat = 6;
  return [=](ExpertsFile& b, const std::string& at) {
    b.entry(at + key, kFloat, ExpertsFile::raw(value));
    b.u32(at + "expert_shared_count", 1);
  };
}

// Files from before the keys of widths, as llama.cpp reads them.
TEST(ExpertConfig, OfOlderQwen2MoeFilesDividesTheWidth) {
  const DecoderConfig c = *experts_gguf("qwen2moe", kNothingElse);
  EXPECT_EQ(c.intermediate, 16);
  EXPECT_EQ(c.shared_intermediate, 32);
  EXPECT_EQ(experts_gguf("qwen2moe", with_number("expert_feed_forward_length", 24))->intermediate,
            24);
  EXPECT_EQ(experts_gguf("olmoe", kNothingElse)->intermediate, 32);
}

TEST(ExpertConfig, SumsToOneWhereAGgufFileSaysIt) {
  const auto norm = [](bool value) {
    return [=](ExpertsFile& b, const std::string& at) {
      constexpr std::uint32_t kBool = 7;
      b.entry(at + "expert_weights_norm", kBool,
              ExpertsFile::raw(static_cast<std::uint8_t>(value)));
      b.u32(at + "expert_shared_count", at == "glm4moe." ? 1 : 0);
    };
  };
  for (const char* architecture : {"qwen2moe", "olmoe", "glm4moe"}) {
    EXPECT_TRUE(experts_gguf(architecture, norm(true))->norm_topk_prob) << architecture;
    EXPECT_FALSE(experts_gguf(architecture, norm(false))->norm_topk_prob) << architecture;
  }
  EXPECT_FALSE(experts_gguf("olmoe", kNothingElse)->norm_topk_prob);
  EXPECT_TRUE(experts_gguf("llama", kNothingElse)->norm_topk_prob);
}

TEST(ExpertConfig, OfGgufFilesThatCannotBeIsRefused) {
  for (const char* architecture : {"qwen2moe", "olmoe", "glm4moe"}) {
    expect_part(gguf_refusal(architecture, kNothingElse, 0), "expert_count is missing");
  }
  expect_part(gguf_refusal("qwen2", kNothingElse), "qwen2.expert_count is not supported");
  expect_part(gguf_refusal("qwen2moe", with_number("expert_shared_feed_forward_length", 0)),
              "must be positive");
  expect_part(gguf_refusal("olmoe", with_number("expert_shared_count", 1)), "shared or scaled");
  expect_part(gguf_refusal("qwen2moe", with_real("attention.clamp_kqv", 8.0F)),
              "attention.clamp_kqv");
  expect_part(gguf_refusal("qwen2moe", with_number("expert_gating_func", 2)), "another router");
  expect_part(gguf_refusal("glm4moe", kNothingElse), "expert_shared_count is 0");
  expect_part(gguf_refusal("glm4moe", with_real("expert_weights_scale", 0.0F)),
              "the scale 0 of experts");
  expect_part(gguf_refusal("glm4moe", with_real("expert_weights_scale",
                                                std::numeric_limits<float>::quiet_NaN())),
              "the scale nan of experts");
  const auto glm = [](const char* key, std::uint32_t value) {
    return gguf_refusal("glm4moe", [=](ExpertsFile& b, const std::string& at) {
      b.u32(at + "expert_shared_count", 1).u32(at + key, value);
    });
  };
  EXPECT_EQ(glm("nextn_predict_layers", 1), "");
  expect_part(glm("nextn_predict_layers", 4), "4 of 4 layers predict further tokens");
  expect_part(glm("leading_dense_block_count", 5), "5 of 4 layers have no experts");
  expect_part(glm("expert_gating_func", 1), "sigmoids");
  expect_part(glm("expert_group_count", 3), "8 experts do not form 3 groups");
}

}  // namespace
}  // namespace forerun
