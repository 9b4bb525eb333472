#include "forerun/models/decoder_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "forerun/formats/gguf.h"
#include "forerun/formats/hf_config.h"
#include "forerun/models/decoder_config_gguf.h"
#include "forerun/models/save_decoder.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/tiny_folder.h"

namespace forerun {
namespace {

using nlohmann::json;

json config_of(const std::string& family) {
  return load_json_object(kTiny + family + "/config.json");
}

std::string refusal(const json& config) {
  const auto parsed = parse_decoder_config(config);
  return parsed ? "" : parsed.error().message;
}

TEST(DecoderConfig, OfMistralHasTheWindowInEveryLayer) {
  json config = config_of("mistral");
  EXPECT_EQ(parse_decoder_config(config)->window, 8);
  EXPECT_EQ(parse_decoder_config(config)->sliding, std::vector<bool>(2, true));
  config["sliding_window"] = nullptr;
  EXPECT_EQ(parse_decoder_config(config)->window, 0);
  EXPECT_EQ(parse_decoder_config(config)->sliding, std::vector<bool>(2, false));
  config.erase("sliding_window");  // the class's value
  EXPECT_EQ(parse_decoder_config(config)->window, 4096);
  config["sliding_window"] = -1;
  EXPECT_NE(refusal(config).find("'sliding_window' is negative"), std::string::npos);
}

// As transformers' AutoConfig, which takes such a "mistral" for a "ministral".
TEST(DecoderConfig, OfMistralHasTheWindowWhereLayerTypesSayIt) {
  json config = config_of("mistral");
  config["layer_types"] = {"full_attention", "sliding_attention"};
  for (const char* type : {"mistral", "ministral"}) {
    config["model_type"] = type;
    const DecoderConfig c = *parse_decoder_config(config);
    EXPECT_EQ(c.window, 8);
    EXPECT_EQ(c.sliding, (std::vector<bool>{false, true}));
    const json written = decoder_config_json(c);
    EXPECT_EQ(written["model_type"], "ministral");
    EXPECT_EQ(parse_decoder_config(written)->window, 8);
    EXPECT_EQ(parse_decoder_config(written)->sliding, c.sliding);
  }
  config["sliding_window"] = nullptr;
  EXPECT_NE(refusal(config).find("without 'sliding_window'"), std::string::npos);
  config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(parse_decoder_config(config)->window, 0);
  config["sliding_window"] = 8;
  EXPECT_EQ(parse_decoder_config(config)->window, 0);
  config["layer_types"] = nullptr;
  EXPECT_EQ(parse_decoder_config(config)->sliding, std::vector<bool>(2, true));
  config["layer_types"] = {"full_attention"};
  EXPECT_NE(refusal(config).find("does not list 2 layers"), std::string::npos);
}

// As transformers' classes: 4096 tokens, from layer 28 on.
TEST(DecoderConfig, OfQwenHasTheWindowThatItsClassHas) {
  json config = config_of("qwen2");
  config["use_sliding_window"] = true;
  EXPECT_EQ(parse_decoder_config(config)->sliding, (std::vector<bool>{false, false, true}));
  config["num_hidden_layers"] = 30;
  config.erase("max_window_layers");
  config.erase("sliding_window");
  const DecoderConfig c = *parse_decoder_config(config);
  EXPECT_EQ(c.window, 4096);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(c.sliding[i], i >= 28) << i;
  config["sliding_window"] = nullptr;
  EXPECT_EQ(parse_decoder_config(config)->window, 0);
  config = config_of("llama");
  config["use_sliding_window"] = true;
  config["sliding_window"] = 8;
  config["max_window_layers"] = 0;
  EXPECT_EQ(parse_decoder_config(config)->window, 0);
}

TEST(DecoderConfig, OfMistralIsWrittenAsMistral) {
  const DecoderConfig c = *parse_decoder_config(config_of("mistral"));
  const json written = decoder_config_json(c);
  EXPECT_EQ(written["model_type"], "mistral");
  EXPECT_EQ(parse_decoder_config(written)->window, 8);
  EXPECT_EQ(parse_decoder_config(written)->sliding, c.sliding);
  const DecoderConfig plain = *parse_decoder_config(config_of("mistral_yarn"));
  EXPECT_EQ(decoder_config_json(plain)["model_type"], "llama");
}

TEST(DecoderConfig, OfExpertsHasTheirNumbers) {
  json config = config_of("qwen3_moe");
  DecoderConfig c = *parse_decoder_config(config);
  EXPECT_EQ(c.experts, 8);
  EXPECT_EQ(c.experts_used, 3);
  EXPECT_EQ(c.intermediate, 32);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_TRUE(c.head_norms);
  config["num_local_experts"] = config["num_experts"];  // as transformers 5 writes it
  config.erase("num_experts");
  config.erase("norm_topk_prob");
  c = *parse_decoder_config(config);
  EXPECT_EQ(c.experts, 8);
  EXPECT_FALSE(c.norm_topk_prob);
  c = *parse_decoder_config(config_of("mixtral"));
  EXPECT_EQ(c.experts, 4);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_EQ(c.window, 0);
}

TEST(DecoderConfig, OfExpertsIsWrittenAsItIsRead) {
  for (const auto& [family, norm] :
       {std::pair("qwen3_moe", true), std::pair("qwen3_moe", false), std::pair("mixtral", true)}) {
    json config = config_of(family);
    config["norm_topk_prob"] = norm;
    const DecoderConfig c = *parse_decoder_config(config);
    const json written = decoder_config_json(c);
    EXPECT_EQ(written["model_type"], family);
    EXPECT_EQ(written["architectures"], config["architectures"]);
    const DecoderConfig again = *parse_decoder_config(written);
    EXPECT_EQ(again.experts, c.experts);
    EXPECT_EQ(again.experts_used, c.experts_used);
    EXPECT_EQ(again.intermediate, c.intermediate);
    EXPECT_EQ(again.norm_topk_prob, c.norm_topk_prob);
  }
}

TEST(DecoderConfig, ExpertsThatCannotBeAreRefused) {
  const auto says = [](const char* family, const char* key, const json& value) {
    json config = config_of(family);
    config[key] = value;
    return refusal(config);
  };
  const auto holds = [](const std::string& said, const char* part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  holds(says("qwen3_moe", "mlp_only_layers", "x"), "does not list layers");
  holds(says("qwen3_moe", "decoder_sparse_step", 0), "must be positive");
  holds(says("qwen3_moe", "num_experts_per_tok", 9), "9 of 8 experts");
  holds(says("qwen3_moe", "num_experts_per_tok", 0), "0 of 8 experts");
  holds(says("qwen3_moe", "num_experts", 0), "'num_experts' must be positive");
  holds(says("qwen3_moe", "num_experts", 5000), "out of range");
  holds(says("qwen3_moe", "moe_intermediate_size", nullptr), "'moe_intermediate_size' is missing");
  holds(says("mixtral", "num_local_experts", -1), "'num_local_experts' must be positive");
  holds(says("mixtral", "num_local_experts", "x"), "an integer is expected");
}

TEST(DecoderConfig, ExpertsOfAGgufFileAreRead) {
  const auto parse = [](const std::string& family) {
    return *parse_decoder_config(load_gguf(kTiny + family + "/model.gguf"));
  };
  EXPECT_EQ(parse("qwen3_moe").experts_used, 3);
  EXPECT_EQ(parse("qwen3_moe").intermediate, 32);
  EXPECT_TRUE(parse("qwen3_moe").norm_topk_prob);
  EXPECT_EQ(parse("mixtral").experts, 4);
  EXPECT_EQ(parse("mixtral").intermediate, 64);
  EXPECT_TRUE(parse("mixtral").norm_topk_prob);
  EXPECT_FALSE(parse("llama").norm_topk_prob);
}

// The whole of what google/gemma-3-4b-it says about its decoder.
TEST(DecoderConfig, OfPicturesAndTextsTakesTheClassesValues) {
  const json config = json::parse(R"({
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
    "eos_token_id": [1, 106], "image_token_index": 262144, "mm_tokens_per_image": 256,
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                    "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                    "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152}})");
  const auto parsed = parse_decoder_config(config);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(is_multimodal(config));
  EXPECT_EQ(parsed->vocab, 262208);
  EXPECT_EQ(parsed->heads, 8);
  EXPECT_EQ(parsed->kv_heads, 4);
  EXPECT_EQ(parsed->head_dim, 256);
  EXPECT_EQ(parsed->context, 131072);
  EXPECT_EQ(parsed->layers, 34);
  EXPECT_EQ(parsed->window, 1024);
  EXPECT_TRUE(parsed->tied_head);
  EXPECT_FALSE(parsed->sliding[5]);
  EXPECT_TRUE(parsed->sliding[6]);
  EXPECT_EQ(parsed->query_scale, 1.0 / 16.0);
  EXPECT_EQ(parsed->rope_theta, 1e6);
  EXPECT_EQ(inverse_frequencies(*parsed, false)[0], 0.125F);  // scaled: full layers alone
  EXPECT_EQ(inverse_frequencies(*parsed, true)[0], 1.0F);
}

TEST(DecoderConfig, OfOtherMultimodalModelsIsRefused) {
  json config = config_of("gemma3_pictures");
  config["model_type"] = "llava";
  EXPECT_NE(refusal(config).find("only the texts of gemma3"), std::string::npos);
  config = config_of("gemma3_pictures");
  for (const json& bad : {json(), json(7), json::array({1})}) {
    config["text_config"] = bad;
    EXPECT_NE(refusal(config).find("multimodal"), std::string::npos) << bad;
  }
  config["text_config"] = {{"model_type", "mamba"}};
  EXPECT_NE(refusal(config).find("'mamba' is not supported"), std::string::npos);
  config["text_config"] = {{"hidden_size", "x"}};
  EXPECT_NE(refusal(config).find("'hidden_size'"), std::string::npos);
}

TEST(DecoderConfig, QuantisedWeightsAreNamed) {
  json config = config_of("llama_plain");
  config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}};
  EXPECT_NE(refusal(config).find("quantised by 'gptq'"), std::string::npos);
  EXPECT_NE(refusal(config).find("a GGUF file"), std::string::npos);
  config["quantization_config"] = {{"bits", 4}};
  EXPECT_NE(refusal(config).find("quantised by a method that is not named"), std::string::npos);
  for (const json& none : {json(), json::object()}) {
    config["quantization_config"] = none;
    EXPECT_EQ(refusal(config), "");
  }
}

TEST(DecoderConfig, OfGptOss) {
  json config = config_of("gpt_oss");
  for (const char* defaults : {"swiglu_limit", "sliding_window", "head_dim", "rms_norm_eps"}) {
    config.erase(defaults);
  }
  const Result<DecoderConfig> c = parse_decoder_config(config);
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->activation, Activation::kClamped);
  EXPECT_EQ(c->clamp.slope, 1.702);
  EXPECT_EQ(c->clamp.limit, 7.0);
  EXPECT_TRUE(c->sinks && c->norm_topk_prob);
  EXPECT_EQ(c->experts, 4);
  EXPECT_EQ(c->experts_used, 2);
  EXPECT_EQ(c->head_dim, 64);
  EXPECT_EQ(c->norm_eps, 1e-5);
  EXPECT_EQ(c->window, 128);
  EXPECT_EQ(c->sliding, (std::vector<bool>{true, false}));
  EXPECT_EQ(inverse_frequencies(*c, true), inverse_frequencies(*c, false));
  EXPECT_FALSE(c->rope_scaling.truncate);
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"attention_bias", false},
           {"sliding_window", 0},
           {"swiglu_limit", -1.0},
           {"num_local_experts", 0},
           {"layer_types", {"full_attention"}},
           {"rope_scaling", nullptr},
           {"quantization_config", {{"quant_method", "gptq"}}}}) {
    json bad = config;
    bad[key] = value;
    EXPECT_NE(refusal(bad), "") << key;
  }
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  EXPECT_EQ(refusal(config), "");
  json other = config_of("llama_plain");
  other["quantization_config"] = {{"quant_method", "mxfp4"}};
  EXPECT_NE(refusal(other).find("quantised by 'mxfp4'"), std::string::npos);
}

TEST(DecoderConfig, RotationOfPartOfAHeadIsRefused) {
  for (const char* family : {"llama", "llama_plain", "gemma3_softcap", "mistral_yarn"}) {
    json config = config_of(family);
    config["partial_rotary_factor"] = 1.0;
    EXPECT_EQ(refusal(config), "") << family;
    config["partial_rotary_factor"] = 0.5;
    EXPECT_NE(refusal(config).find("partial_rotary_factor"), std::string::npos) << family;
  }
  json config = config_of("llama_plain");
  config["rope_parameters"]["partial_rotary_factor"] = 0.5;
  EXPECT_NE(refusal(config).find("partial_rotary_factor"), std::string::npos);
  config = config_of("gemma3_softcap");
  config["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 0.25;
  EXPECT_NE(refusal(config).find("partial_rotary_factor"), std::string::npos);
  config = config_of("llama");
  config["rope_scaling"]["partial_rotary_factor"] = 0.25;
  EXPECT_NE(refusal(config).find("partial_rotary_factor"), std::string::npos);
}

using Numbers = std::vector<std::pair<std::string, float>>;

Result<DecoderConfig> gguf_config(const std::string& scaling, const Numbers& numbers) {
  testing::GgufBuilder b;
  b.string("general.architecture", "llama");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::uint32_t>>{{"embedding_length", 32},
                                                          {"block_count", 1},
                                                          {"attention.head_count", 1},
                                                          {"feed_forward_length", 32},
                                                          {"context_length", 64}}) {
    b.u32("llama." + key, value);
  }
  if (!scaling.empty()) b.string("llama.rope.scaling.type", scaling);
  for (const auto& [key, value] : numbers) {
    const std::string full = (key == "scale_linear" ? "llama.rope." : "llama.rope.scaling.") + key;
    if (key == "original_context_length") {
      b.u32(full, static_cast<std::uint32_t>(value));
    } else {
      b.entry(full, 6, testing::GgufBuilder::raw(value));
    }
  }
  b.tensor("token_embd.weight", {32, 1}, 0, 0).data = std::string(128, '\0');
  const std::string bytes = b.bytes();
  const Result<Gguf> gguf = parse_gguf(std::as_bytes(std::span(bytes)));
  return gguf ? parse_decoder_config(*gguf) : Result<DecoderConfig>(gguf.error());
}

Result<DecoderConfig> folder_config(json rope) {
  rope["rope_type"] = "yarn";
  return parse_decoder_config({{"model_type", "llama"},
                               {"vocab_size", 1},
                               {"hidden_size", 32},
                               {"num_hidden_layers", 1},
                               {"num_attention_heads", 1},
                               {"intermediate_size", 32},
                               {"max_position_embeddings", 64},
                               {"rope_theta", 10000.0},
                               {"rope_scaling", rope}});
}

TEST(DecoderConfig, YarnOfAGgufFileIsThatOfTheFolder) {
  const std::pair<Numbers, json> cases[] = {
      {{{"factor", 4.0F}, {"original_context_length", 16.0F}},
       {{"factor", 4.0}, {"original_max_position_embeddings", 16}}},
      {{{"factor", 4.0F}, {"original_context_length", 16.0F}, {"yarn_attn_factor", 0.75F}},
       {{"factor", 4.0}, {"original_max_position_embeddings", 16}, {"attention_factor", 0.75}}},
      {{{"factor", 2.0F}, {"yarn_beta_fast", 8.0F}, {"yarn_beta_slow", 0.5F}},
       {{"factor", 2.0},
        {"original_max_position_embeddings", 64},  // the file's context
        {"beta_fast", 8.0},
        {"beta_slow", 0.5}}}};
  for (const auto& [numbers, rope] : cases) {
    const auto file = gguf_config("yarn", numbers), folder = folder_config(rope);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(folder) << folder.error().message;
    EXPECT_EQ(inverse_frequencies(*file, false), inverse_frequencies(*folder, false)) << rope;
    EXPECT_EQ(rope_size(*file, false), rope_size(*folder, false)) << rope;
  }
  const auto scaled = gguf_config("yarn", {{"factor", 4.0F}, {"attn_factor", 0.5F}});
  EXPECT_DOUBLE_EQ(rope_size(*scaled, false), 0.5 * (0.1 * std::log(4.0) + 1.0));
}

TEST(DecoderConfig, AGgufFileWithAFactorAndNoTypeIsLinear) {
  const auto frequency = [](const std::string& scaling, const Numbers& numbers) {
    return inverse_frequencies(*gguf_config(scaling, numbers), false).front();
  };
  EXPECT_EQ(frequency("", {}), 1.0);
  for (const char* type : {"", "linear"}) {
    EXPECT_EQ(frequency(type, {{"factor", 4.0F}}), 0.25);
    EXPECT_EQ(frequency(type, {{"scale_linear", 4.0F}}), 0.25);
    EXPECT_EQ(frequency(type, {{"factor", 2.0F}, {"scale_linear", 4.0F}}), 0.5);
    EXPECT_EQ(frequency(type, {{"factor", 0.0F}}), 1.0);
    EXPECT_FALSE(gguf_config(type, {{"factor", -2.0F}}));
    EXPECT_FALSE(gguf_config(type, {{"factor", std::nanf("")}}));
  }
  EXPECT_EQ(frequency("none", {{"factor", 4.0F}}), 1.0);
}

TEST(DecoderConfig, YarnThatIsNotComputedIsRefused) {
  const auto says = [](const Numbers& numbers, const std::string& scaling = "yarn") {
    const auto parsed = gguf_config(scaling, numbers);
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_NE(says({{"factor", 4.0F}, {"yarn_ext_factor", 0.5F}}).find("yarn_ext_factor is 0.5"),
            std::string::npos);
  EXPECT_NE(says({{"yarn_log_multiplier", 0.1F}}).find("yarn_log_multiplier"), std::string::npos);
  EXPECT_NE(says({{"factor", -1.0F}}), "");
  EXPECT_NE(says({{"factor", 2.0F}, {"original_context_length", 0.0F}}), "");
  EXPECT_NE(says({{"factor", 4.0F}, {"yarn_attn_factor", 0.0F}}), "");
  EXPECT_NE(says({{"factor", 4.0F}, {"yarn_beta_fast", std::nanf("")}}), "");
  EXPECT_NE(says({}, "longrope").find("none, linear and yarn are"), std::string::npos);
}

}  // namespace
}  // namespace forerun
