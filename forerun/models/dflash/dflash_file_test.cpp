// Round trip; anything that cannot be a drafter of this target is refused in one clear line.
#include "forerun/models/dflash/dflash_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "forerun/formats/safetensors_write.h"
#include "forerun/models/dflash/dflash_config_json.h"
#include "tests/support/checkpoint_copy.h"
#include "tests/support/dflash_values.h"
#include "tests/support/random_dflash.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using nlohmann::json;

using testing::thrown_by;

struct Copy : testing::CheckpointCopy {
  explicit Copy(const std::string& which) : CheckpointCopy(kDFlash + which, "model.safetensors") {}
  DFlash load(const DFlashTarget& target = dflash_target()) const {
    write();
    return load_dflash(folder.path(), target);
  }
  void expect_says(const std::string& part, const DFlashTarget& target = dflash_target()) const {
    CheckpointCopy::expect_says(part, [&] { load(target); });
  }
};

TEST(DFlashFile, RefusesADrafterOfAnotherTarget) {
  const Copy copy("zlab_full");
  EXPECT_NO_THROW(copy.load());
  DFlashTarget wider = dflash_target(), larger = dflash_target();
  wider.hidden = 576;
  larger.vocab = 49152;
  copy.expect_says("made for a target of hidden size 24, this one has 576", wider);
  copy.expect_says("made for a vocabulary of 64, this target has 49152", larger);
  copy.expect_says("made for a target of 9 layers, this one has 8", dflash_target(8));
}

TEST(DFlashFile, RefusesFeatureLayersOutsideTheTarget) {
  Copy zlab("zlab_full");
  zlab.config["dflash_config"]["target_layer_ids"] = {1, 4, 8};
  zlab.expect_says("feature layer 8 (zero-based) lies outside 0 to 7 of the target's 9 layers");
  zlab.config["dflash_config"]["target_layer_ids"] = {-1, 4, 6};
  zlab.expect_says("feature layer -1");
  zlab.config["dflash_config"]["target_layer_ids"] = {1, 4};
  zlab.expect_says("'fc.weight' has shape [24, 72], the config's sizes ask for [24, 48]");
  zlab.config["dflash_config"]["target_layer_ids"] = {1, "4"};
  zlab.expect_says("'target_layer_ids' holds \"4\", which is no layer");
  Copy theirs("speculators_full");
  theirs.config["aux_hidden_state_layer_ids"] = {2, 5, 9};
  theirs.expect_says("feature layer 8 (zero-based)");
  theirs.config["aux_hidden_state_layer_ids"] = {0, 5, 7};
  theirs.expect_says("feature layer -1");
  theirs.config.erase("aux_hidden_state_layer_ids");  // their default: 2, L / 2, L - 3
  EXPECT_EQ(theirs.load().config.feature_layers, (std::vector<std::int64_t>{1, 3, 5}));
}

TEST(DFlashFile, RefusesUnknownAndMissingTensors) {
  Copy copy("zlab_full");
  const auto expect_with = [](const char* name, const char* part) {
    Copy changed("zlab_full");
    changed.tensors[name] = changed.tensors.at("norm.weight");
    changed.tensors[name].name = name;
    changed.expect_says(part);
  };
  expect_with("aux_hidden_norms.0.weight",
              "1 tensors are unknown, the first is 'aux_hidden_norms.0.weight'");
  expect_with("layers.2.input_layernorm.weight", "1 tensors are unknown");
  expect_with("layers.0.attention_conv.base_kernel", "1 tensors are unknown");
  expect_with("candidate_selector.successor_codebook", "1 tensors are unknown");
  expect_with("markov_head.markov_w1.weight", "1 tensors are unknown");
  copy.tensors.erase("layers.1.mlp.up_proj.weight");
  copy.expect_says("tensor 'layers.1.mlp.up_proj.weight' is missing");
  Copy prefixed("zlab_full");
  prefixed.tensors["norm.weight"].name = "model.norm.weight";
  prefixed.expect_says("tensor 'norm.weight' is missing");
}

TEST(DFlashFile, RefusesHalfAFileAndWhatIsNoNumber) {
  const Copy copy("zlab_full");
  copy.write();
  const std::string whole = testing::read_file(copy.folder.path() / "model.safetensors");
  copy.folder.write("model.safetensors", whole.substr(0, whole.size() / 2));
  const std::string message = thrown_by([&] { load_dflash(copy.folder.path(), dflash_target()); });
  EXPECT_NE(message.find("bytes are missing; download it again"), std::string::npos) << message;
  std::filesystem::remove(copy.folder.path() / "model.safetensors");
  const std::string none = thrown_by([&] { load_dflash(copy.folder.path(), dflash_target()); });
  EXPECT_NE(none.find("its weights are missing"), std::string::npos) << none;
  EXPECT_EQ(none.find("Hugging Face"), std::string::npos) << none;

  Copy broken("zlab_full");
  const std::vector<float> values(24, std::numeric_limits<float>::quiet_NaN());
  broken.tensors["norm.weight"] = {
      "norm.weight", DType::kF32, {24}, std::as_bytes(std::span(values))};
  broken.expect_says("'norm.weight' holds values that are no numbers");
  const std::vector<std::int32_t> ids(24, 1);
  broken.tensors["norm.weight"] = {"norm.weight", DType::kI32, {24}, std::as_bytes(std::span(ids))};
  broken.expect_says("'norm.weight' holds I32 where weights are expected");
}

TEST(DFlashFile, RefusesOtherNetworks) {
  Copy second("zlab_full");
  second.config["architectures"] = {"DFlash2DraftModel"};
  second.expect_says("a DFlash2 drafter has a 'conv_kernel_size' or a 'selector_rank'");
  Copy eagle("speculators_full");
  eagle.config["speculators_model_type"] = "eagle3";
  eagle.expect_says("speculators_model_type 'eagle3' is not supported");
  Copy rnn("dspark");
  rnn.config["markov_head_type"] = "rnn";
  rnn.expect_says("a Markov head of type 'rnn' is not supported; vanilla and gated are");
  rnn.config["markov_head_type"] = "gated";
  rnn.expect_says("tensor 'markov_head.gate_proj.weight' is missing");
  Copy decoder("zlab_full");
  decoder.config = json{{"architectures", {"Qwen3ForCausalLM"}}, {"hidden_size", 24}};
  decoder.expect_says("this is no DFlash drafter");
  decoder.config = json::array();
  decoder.expect_says("");
}

TEST(DFlashFile, RefusesConfigsThatCannotBe) {
  const auto expect = [](const std::function<void(json&)>& change, const char* part) {
    Copy copy("zlab_full");
    change(copy.config);
    copy.expect_says(part);
  };
  expect([](json& c) { c.erase("hidden_size"); }, "'hidden_size' is missing");
  expect([](json& c) { c["hidden_size"] = "24"; }, "where an integer is expected");
  expect([](json& c) { c["num_hidden_layers"] = 100000; }, "100000 layers");
  expect([](json& c) { c["num_attention_heads"] = -4; }, "out of range");
  expect([](json& c) { c["num_hidden_layers"] = 0; }, "out of range");
  expect([](json& c) { c["rms_norm_eps"] = 0; }, "epsilon");
  expect([](json& c) { c["attention_bias"] = true; }, "'attention_bias' is not supported");
  expect([](json& c) { c["hidden_act"] = "gelu"; }, "activation 'gelu' is not supported");
  expect([](json& c) { c["rope_scaling"] = {{"rope_type", "ntk"}}; }, "'ntk' is not supported");
  expect([](json& c) { c["rope_parameters"]["partial_rotary_factor"] = 0.5; }, "part of a head");
  expect([](json& c) { c["partial_rotary_factor"] = 0.25; }, "part of a head");
  expect([](json& c) { c["layer_types"] = {"full_attention"}; }, "does not list 2 layers");
  expect([](json& c) { c["layer_types"] = {"full_attention", "linear"}; }, "\"linear\"");
  expect([](json& c) { c["dflash_config"]["block_size"] = 1; }, "a block of 1 slots");
  expect([](json& c) { c["dflash_config"]["weight_bits"] = 3; }, "weights of 3 bits; 4 are");
  expect([](json& c) { c["dflash_config"]["weight_bits"] = 4; }, "are not multiples of 32");
  expect([](json& c) { c["dflash_config"]["weight_bits"] = "4"; }, "an integer is expected");
  expect([](json& c) { c["dflash_config"]["mask_token_id"] = 64; }, "mask token 64 lies outside");
  expect([](json& c) { c["dflash_config"].erase("mask_token_id"); }, "neither a mask_embedding");
  expect([](json& c) { c["dflash_config"]["draft_vocab_size"] = 65; }, "a draft vocabulary of 65");
  expect([](json& c) { c["dflash_config"]["draft_vocab_size"] = 30; }, "tensor 'd2t' is missing");
  expect([](json& c) { c["dflash_config"]["markov_rank"] = -1; }, "a Markov head of rank -1");
  expect([](json& c) { c["dflash_config"]["output_multiplier"] = "x"; }, "a number is expected");
  expect([](json& c) { c["dflash_config"]["conv_kernel_size"] = 2; },
         "convolutions of 24 channels in groups of 16");
  expect([](json& c) { c["conv_kernel_size"] = 7; }, "convolutions over 7 slots of a block of 6");
  expect([](json& c) { c["conv_kernel_size"] = -1; }, "convolutions over -1 slots");
  expect([](json& c) { c["conv_kernel_size"] = 2.5; }, "where an integer is expected");
  expect([](json& c) { c["conv_group_size"] = 0; }, "in groups of 0");
  expect(
      [](json& c) {
        c.update({{"conv_kernel_size", 2}, {"conv_group_size", 8}});
      },
      "tensor 'layers.0.attention_conv.base_kernel' is missing");
}

TEST(DFlashFile, RefusesConvolutionsAndSelectorsThatCannotBe) {
  const auto expect = [](const char* key, const json& value, const char* part) {
    Copy copy("zlab_dflash2");
    EXPECT_NO_THROW(copy.load());
    copy.config["dflash_config"][key] = value;
    copy.expect_says(part);
  };
  expect("conv_kernel_size", 7, "convolutions over 7 slots of a block of 6");
  expect("conv_kernel_size", 3, "'layers.0.attention_conv.base_kernel' has shape [2, 2, 24]");
  expect("conv_kernel_size", INT64_MAX, "slots of a block of 6");
  expect("conv_group_size", 5, "convolutions of 24 channels in groups of 5");
  expect("conv_group_size", -4, "in groups of -4");
  expect("conv_group_size", 8, "kernel_projection.weight' has shape [24, 24]");
  expect("conv_group_size", "4", "where an integer is expected");
  expect("selector_rank", -1, "a selector of rank -1");
  expect("selector_rank", 1 << 17, "a selector of rank 131072; at most 65536");
  expect("selector_rank", 6, "has shape [64, 7]");
  expect("selector_rank", 0, "3 tensors are unknown");
  expect("selector_rank", json::array(), "where an integer is expected");
  expect("selector_top_k", 0, "a selector among 0 candidates of 64 tokens; 1 to 64 are supported");
  expect("selector_top_k", 65, "a selector among 65 candidates");
  expect("markov_rank", 4, "a Markov head and a selector; one of them is supported");
  Copy lacking("zlab_dflash2");
  lacking.tensors.erase("candidate_selector.successor_codebook");
  lacking.expect_says("tensor 'candidate_selector.successor_codebook' is missing");
}

TEST(DFlashFile, RefusesVocabulariesThatContradictThemselves) {
  const auto with = [](std::int64_t index, std::int64_t value) {
    Copy copy("speculators_reduced");
    std::vector<std::int64_t> offsets = *whole_numbers(copy.tensors.at("d2t"));
    offsets[static_cast<std::size_t>(index)] = value;
    copy.tensors["d2t"].bytes = std::as_bytes(std::span(offsets));
    return thrown_by([&] { copy.load(); });
  };
  EXPECT_NE(with(23, 41).find("d2t maps row 23 of the head outside"), std::string::npos);
  EXPECT_NE(with(0, -1).find("d2t maps row 0 of the head outside"), std::string::npos);
  EXPECT_NE(with(3, INT64_MAX).find("d2t maps row 3 of the head outside"), std::string::npos);
  Copy flags("speculators_reduced");
  std::vector<std::uint8_t> none(64, 0);
  flags.tensors["t2d"].bytes = std::as_bytes(std::span(none));
  flags.expect_says("d2t and t2d name different tokens");
}

TEST(DFlashFile, SharesTheTargetsMatricesAndPrefersItsOwn) {
  DFlashTarget target = dflash_target();
  const DFlash shared = load_dflash(kDFlash + "zlab_full", target);
  EXPECT_EQ(shared.head.data_ptr(), target.head.data_ptr());
  EXPECT_EQ(shared.embedding.data_ptr(), target.embedding.data_ptr());
  // speculators_full has both: the target's are not used.
  target.head = at::zeros_like(target.head);
  target.embedding = at::zeros_like(target.embedding);
  const DFlash own = load_dflash(kDFlash + "speculators_full", target);
  EXPECT_EQ(distance(own.head, shared.head), 0.0);
  EXPECT_EQ(distance(own.embedding, shared.embedding), 0.0);
  // A target with packed matrices shares none; the body still loads.
  target.head = target.embedding = at::Tensor();
  EXPECT_FALSE(load_dflash(kDFlash + "zlab_full", target).head.defined());
  EXPECT_TRUE(load_dflash(kDFlash + "speculators_full", target).head.defined());
}

class DFlashSaved : public ::testing::TestWithParam<const char*> {};

TEST_P(DFlashSaved, IsLoaded) {
  const std::string head = GetParam();
  DFlashConfig c = small_dflash({{.window = 6, .causal = true}, {}});
  c.draft_vocab = 12;
  if (head == "Selector") {
    c.conv_taps = 2;
    c.conv_group = 6;
    c.selector_rank = 4;
    c.selector_top_k = 7;
  } else {
    c.markov_rank = 3;
    c.markov_gated = head == "Gated";
  }
  c.confidence = true;
  c.predicts_next = true;
  c.rope_theta = 1e5;
  c.embedding_scale = 2.0;
  c.output_multiplier = 0.5;
  c.final_softcap = 30.0;
  DFlash model = noisy_dflash(c, at::kFloat, 31);
  for (const ModelWeight& w : weights(model))
    *w.tensor = w.tensor->to(at::kBFloat16).to(at::kFloat);
  model.draft_to_target = at::tensor({0, 3, 4, 7, 9, 20, 21, 22, 30, 31, 44, 49}, at::kLong);
  DFlashTarget target;
  target.hidden = c.hidden;
  target.vocab = c.vocab;
  target.layers = c.target_layers;
  target.embedding = model.embedding;
  target.head = at::randn({c.vocab, c.hidden});

  const testing::TempFolder folder;
  save_dflash(folder.path() / "new" / "drafter", model, {{"steps", 7}});
  DFlash read = load_dflash(folder.path() / "new" / "drafter", target);
  EXPECT_EQ(load_hf_config(folder.path() / "new" / "drafter").config["forerun"]["steps"], 7);
  EXPECT_EQ(read.config.attention, c.attention);
  EXPECT_EQ(read.config.feature_layers, c.feature_layers);
  EXPECT_EQ(dflash_config_json(read.config), dflash_config_json(c));
  EXPECT_TRUE(at::equal(read.draft_to_target, model.draft_to_target));
  EXPECT_TRUE(at::equal(read.head, target.head.index_select(0, model.draft_to_target)));
  const auto before = weights(model), after = weights(read);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_TRUE(at::equal(*before[i].tensor, *after[i].tensor)) << before[i].name;
  }
  const at::Tensor x = random_features(c, 9, at::kFloat, 32);
  const auto hidden = [&](const DFlash& m) {
    DFlashCache cache(m);
    cache.append(m, x);
    return block_hidden(m, cache, masked_block(m, 8), 9);
  };
  EXPECT_EQ(distance(hidden(model), hidden(read)), 0.0);
}

INSTANTIATE_TEST_SUITE_P(DFlash, DFlashSaved, ::testing::Values("Markov", "Gated", "Selector"),
                         [](const auto& head) { return std::string(head.param); });

TEST(DFlashFile, BitsOfWeightsSurviveTheConfig) {
  DFlashConfig c = small_dflash({{}, {}});
  c.hidden = c.intermediate = 32;
  const auto bits = [&] { return (*parse_dflash_config(dflash_config_json(c), 9)).weight_bits; };
  EXPECT_EQ(bits(), 0);
  c.weight_bits = 4;
  EXPECT_EQ(bits(), 4);
}

TEST(DFlashFile, EveryPublishedMixOfAttentionSurvivesTheConfig) {
  for (const std::vector<LayerAttention>& mix : std::vector<std::vector<LayerAttention>>{
           {{}, {}},
           {{.window = 9, .causal = true}, {}},
           {{.window = 9}, {.window = 9}},
           {{.window = 9}, {}},
           {{.window = 9, .causal = true}, {.causal = true}}}) {
    DFlashConfig c = small_dflash(mix);
    c.mask_token = 5;
    const Result<DFlashConfig> read = parse_dflash_config(dflash_config_json(c), c.target_layers);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->attention, mix);
  }
  EXPECT_THROW(dflash_config_json(small_dflash({{.window = 9}, {.window = 8}})),
               std::invalid_argument);
  EXPECT_THROW(dflash_config_json(small_dflash({{.window = 9}, {.causal = true}})),
               std::invalid_argument);
}

TEST(DFlashFile, AnIncompleteModelIsNotSaved) {
  DFlash model = noisy_dflash(small_dflash({{}}), at::kFloat, 33);
  model.layers[0].up.weight = at::Tensor();
  const testing::TempFolder folder;
  EXPECT_THROW(save_dflash(folder.path() / "x", model), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x"));
}

}  // namespace
}  // namespace forerun
