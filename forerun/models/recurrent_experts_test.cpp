// Models with recurrent layers and experts: what folders and GGUF files say about them; damaged
// files are refused.
#include <gtest/gtest.h>

#include <cstdint>
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
using testing::logits_of;

using BothForms = std::vector<DecoderConfig>;  // of a folder, and of the GGUF file in it

BothForms both_forms(const std::string& family) {
  return {*parse_decoder_config(load_json_object(kTiny + family + "/config.json")),
          *parse_decoder_config(load_gguf(kTiny + family + "/model.gguf"))};
}

FileKeys with_experts(FileKeys keys) {
  return keys.with("expert_count", 8)
      .with("expert_used_count", 2)
      .with("expert_feed_forward_length", 16);
}
FileKeys lfm2_moe_keys() {
  return with_experts(testing::lfm2_keys("lfm2moe"))
      .with("expert_gating_func", 2)
      .with("leading_dense_block_count", 2);
}
FileKeys qwen35_moe_keys() {
  return with_experts(testing::qwen35_keys("qwen35moe"))
      .with("expert_shared_feed_forward_length", 24);
}
FileKeys qwen3_next_keys() {
  return with_experts(testing::qwen35_keys("qwen3next"))
      .with("expert_shared_feed_forward_length", 24)
      .without("rope.dimension_sections");
}

TEST(RecurrentExperts, OfLfm2AreCorrectedSigmoids) {
  for (const DecoderConfig& c : both_forms("lfm2_moe")) {
    EXPECT_EQ(c.routing, (ExpertRouting{.sigmoid = true, .corrected = true, .scale = 1.5}));
    EXPECT_TRUE(c.norm_topk_prob && c.tied_head && c.head_norms);
    EXPECT_EQ(c.experts, 6);
    EXPECT_EQ(c.experts_used, 2);
    EXPECT_EQ(c.intermediate, 32);
    EXPECT_EQ(c.shared_intermediate, 0);
    EXPECT_EQ(c.dense, (std::vector<bool>{true, false, false}));
    EXPECT_EQ(c.dense_intermediate, 96);
    EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, false, true}));
    EXPECT_EQ(c.recurrent.taps, 3);
    EXPECT_EQ(c.kv_heads, 2);
  }
  EXPECT_EQ(lfm2_moe_keys().parsed()->routing.scale, 1.0);  // published files lack it
}

TEST(RecurrentExperts, OfQwenHaveASharedExpertWithAGate) {
  for (const char* family : {"qwen3_next_experts", "qwen3_5_moe"}) {
    for (const DecoderConfig& c : both_forms(family)) {
      EXPECT_EQ(c.routing, ExpertRouting{});
      EXPECT_TRUE(c.norm_topk_prob && c.shared_gate && c.output_gate && c.dense.empty());
      EXPECT_EQ(c.experts_used, 2);
      EXPECT_EQ(c.intermediate, 32);
      EXPECT_EQ(c.shared_intermediate, 64);
      EXPECT_EQ(c.recurrent_layers, (std::vector<bool>{true, false}));
      EXPECT_EQ(c.rotary_dim, 8);
    }
  }
  const FileKeys older = qwen35_moe_keys()  // as llama.cpp reads files without the widths
                             .without("expert_feed_forward_length")
                             .without("expert_shared_feed_forward_length");
  EXPECT_EQ(older.parsed()->intermediate, 16);
  EXPECT_EQ(older.parsed()->shared_intermediate, 32);
  EXPECT_EQ(qwen35_moe_keys().without("feed_forward_length").refusal(), "");  // none has this one
}

TEST(RecurrentExperts, TheOrderOfValueHeadsIsThatOfTheArchitecture) {
  const RecurrentConfig qwen35 = qwen35_moe_keys().parsed()->recurrent;
  EXPECT_TRUE(qwen35.tiled && !qwen35.by_heads && !qwen35.rates_by_heads);
  EXPECT_EQ(qwen35.key_head_of(1), 1);
  const RecurrentConfig next = qwen3_next_keys().parsed()->recurrent;
  EXPECT_TRUE(!next.tiled && !next.by_heads && next.rates_by_heads);
  EXPECT_EQ(next.key_head_of(1), 0);
  for (const auto& [keys, by_heads] :
       {std::pair(qwen3_next_keys(), true), std::pair(qwen35_moe_keys(), false)}) {
    FileKeys earlier = keys;
    earlier.further_tensors = {"blk.0.ssm_in.weight"};
    EXPECT_EQ(earlier.parsed()->recurrent.by_heads, by_heads) << keys.architecture;
  }
}

TEST(RecurrentExperts, OfFilesThatCannotBeAreRefused) {
  for (const FileKeys& keys : {lfm2_moe_keys(), qwen35_moe_keys(), qwen3_next_keys()}) {
    EXPECT_EQ(keys.refusal(), "") << keys.architecture;
    expect_says(keys.without("expert_count").refusal(), "expert_count is missing");
    expect_says(keys.with("expert_count", 0).refusal(), "expert_count is missing");
    for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{4097}, std::int64_t{1} << 60}) {
      expect_says(keys.with("expert_count", n).refusal(), "experts are out of range");
    }
    for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{9}}) {
      expect_says(keys.with("expert_used_count", n).refusal(), "of 8 experts are out of range");
    }
    for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 60}) {
      expect_says(keys.with("expert_feed_forward_length", n).refusal(), "out of range");
      expect_says(keys.with("block_count", n).refusal(), "out of range");
    }
    expect_says(keys.with("expert_count", std::vector{8}).refusal(), "expert_count");
    expect_says(keys.without("expert_used_count").refusal(), "expert_used_count");
    expect_says(keys.with("expert_gating_func", 3).refusal(), "another router");
    expect_says(keys.with("expert_group_count", 2).refusal(), "not supported");
  }
  expect_says(lfm2_moe_keys().with("expert_shared_count", 1).refusal(), "not supported");
  expect_says(lfm2_moe_keys().with("expert_gating_func", 1).refusal(), "sigmoids");
  expect_says(lfm2_moe_keys().with("leading_dense_block_count", 5).refusal(), "5 of 4 layers");
  expect_says(lfm2_moe_keys().with("leading_dense_block_count", -1).refusal(), "-1 of 4 layers");
  expect_says(lfm2_moe_keys().with("expert_weights_scale", 0).refusal(), "expert_weights_scale");
  expect_says(lfm2_moe_keys().without("feed_forward_length").refusal(), "feed_forward_length");
  expect_says(lfm2_moe_keys().with("nextn_predict_layers", 1).refusal(), "nextn_predict_layers");
  for (const FileKeys& keys : {qwen35_moe_keys(), qwen3_next_keys()}) {
    expect_says(keys.with("expert_gating_func", 2).refusal(), "another router");
    expect_says(keys.with("leading_dense_block_count", 1).refusal(), "not supported");
    expect_says(keys.with("expert_shared_feed_forward_length", 0).refusal(), "must be positive");
    expect_says(keys.with("expert_shared_feed_forward_length", std::int64_t{1} << 60).refusal(),
                "out of range");
    EXPECT_EQ(keys.with("block_count", 5).with("nextn_predict_layers", 1).parsed()->layers, 4);
    expect_says(keys.with("nextn_predict_layers", 4).refusal(), "4 of 4 layers predict");
    expect_says(keys.with("ssm.group_count", 3).refusal(), "cannot share 3 key heads");
  }
  expect_says(qwen3_next_keys().with("rope.dimension_sections", std::vector{1, 1}).refusal(),
              "sections");
  for (const char* dense : {"lfm2", "qwen35"}) {
    const FileKeys keys =
        dense == std::string("lfm2") ? testing::lfm2_keys(dense) : testing::qwen35_keys(dense);
    expect_says(with_experts(keys).refusal(), "expert_count is not supported");
  }
}

TEST(RecurrentExperts, TensorsOfOtherShapesAreRefused) {
  const auto lacks_a_row = [](const std::string& family, const std::string& name) {
    AlteredFile file(family);
    EXPECT_EQ(file.refusal(), "");
    TensorView& t = file.tensors.at(name);
    const std::size_t row = t.bytes.size() / static_cast<std::size_t>(t.shape[0]);
    t.shape[0] -= 1;
    t.bytes = t.bytes.first(t.bytes.size() - row);
    expect_says(file.refusal(), ("tensor '" + name + "' has shape [").c_str());
    t.shape.clear();
    t.bytes = t.bytes.first(4);
    expect_says(file.refusal(), ("tensor '" + name + "' has shape []").c_str());
    file.tensors.erase(name);
    expect_says(file.refusal(), "is missing: the file is incomplete");
  };
  for (const char* name : {"blk.1.exp_probs_b.bias", "blk.1.ffn_gate_inp.weight",
                           "blk.2.ffn_down_exps.weight", "blk.0.ffn_gate.weight"}) {
    lacks_a_row("lfm2_moe", name);
  }
  for (const char* name : {"blk.0.ssm_ba.weight", "blk.0.attn_qkv.weight", "blk.0.attn_gate.weight",
                           "blk.1.ffn_up_exps.weight", "blk.1.ffn_gate_inp_shexp.weight"}) {
    lacks_a_row("qwen3_next_experts", name);
  }
  for (const char* name : {"blk.0.ssm_beta.weight", "blk.0.ssm_alpha.weight",
                           "blk.0.ffn_gate_shexp.weight", "blk.1.ffn_down_shexp.weight"}) {
    lacks_a_row("qwen3_5_moe", name);
  }
}

// The converter's option --fuse-gate-up-exps.
TEST(RecurrentExperts, GatesAndUpsMayBeOneTensor) {
  AlteredFile file("qwen3_5_moe");
  const at::Tensor expected = logits_of(file.load(Precision::kF32));
  const Safetensors folder = load_safetensors(kTiny + "qwen3_5_moe");  // which has them so
  for (const std::string layer : {"0", "1"}) {
    const TensorView* both = folder.find("model.layers." + layer + ".mlp.experts.gate_up_proj");
    ASSERT_NE(both, nullptr);
    TensorView& t = file.tensors["blk." + layer + ".ffn_gate_up_exps.weight"] = *both;
    t.name = "blk." + layer + ".ffn_gate_up_exps.weight";
    file.tensors.erase("blk." + layer + ".ffn_gate_exps.weight");
    file.tensors.erase("blk." + layer + ".ffn_up_exps.weight");
  }
  for (const Precision p : {Precision::kF32, Precision::kFile}) {
    EXPECT_LT(distance(logits_of(file.load(p)), expected), 1e-4);
  }
  file.tensors.at("blk.1.ffn_gate_up_exps.weight").shape = {6, 32, 128};
  expect_says(file.refusal(), "tensor 'blk.1.ffn_gate_up_exps.weight' has shape [32, 128]");
  file.tensors.erase("blk.1.ffn_gate_up_exps.weight");
  expect_says(file.refusal(), "'blk.1.ffn_gate_exps.weight' is missing");
}

// Files of Qwen3-Next from before their queries, keys and values had a tensor of their own.
TEST(RecurrentExperts, OfEarlierQwen3NextFilesGiveTheSameLogits) {
  AlteredFile file("qwen3_next_experts");
  const at::Tensor expected = logits_of(file.load(Precision::kF32));
  const Safetensors folder = load_safetensors(kTiny + "qwen3_next_experts");
  const TensorView* joined = folder.find("model.layers.0.linear_attn.in_proj_qkvz.weight");
  ASSERT_NE(joined, nullptr);
  file.tensors["blk.0.ssm_in.weight"] = *joined;
  file.tensors.at("blk.0.ssm_in.weight").name = "blk.0.ssm_in.weight";
  file.tensors.erase("blk.0.attn_qkv.weight");
  file.tensors.erase("blk.0.attn_gate.weight");
  expect_says(file.refusal(), "'blk.0.attn_qkv.weight' is missing");
  file.config.recurrent.by_heads = true;
  for (const Precision p : {Precision::kF32, Precision::kFile}) {
    EXPECT_LT(distance(logits_of(file.load(p)), expected), 1e-4);
  }
  file.tensors.at("blk.0.ssm_in.weight").shape = {64, 1, 256};
  expect_says(file.refusal(), "tensor 'blk.0.ssm_in.weight' has shape [64, 1, 256]");
}

}  // namespace
}  // namespace forerun
