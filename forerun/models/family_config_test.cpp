// What the configurations of single families say, in both formats.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
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

json family_json(const std::string& family) {
  return load_json_object(kTiny + family + "/config.json");
}

DecoderConfig in_gguf(const std::string& family) {
  return *parse_decoder_config(load_gguf(kTiny + family + "/model.gguf"));
}

std::string message_of(const json& config) {
  const auto parsed = parse_decoder_config(config);
  return parsed ? "" : parsed.error().message;
}

TEST(FamilyConfig, SmolLm3HasLayersThatDoNotRotate) {
  json config = family_json("smollm3");
  const std::vector<bool> last = {false, false, false, true};
  EXPECT_EQ(parse_decoder_config(config)->no_rope, last);
  EXPECT_EQ(in_gguf("smollm3").no_rope, last);
  config["use_sliding_window"] = true;
  config["sliding_window"] = 8;
  config["no_rope_layers"] = {0, 1, 1, 1};
  config.erase("layer_types");
  const DecoderConfig c = *parse_decoder_config(config);
  EXPECT_EQ(c.no_rope, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(c.sliding, c.no_rope);
  const json written = decoder_config_json(c);
  EXPECT_EQ(written["model_type"], "smollm3");
  EXPECT_EQ(parse_decoder_config(written)->no_rope, c.no_rope);
  EXPECT_EQ(parse_decoder_config(written)->sliding, c.sliding);
  EXPECT_EQ(parse_decoder_config(written)->window, 8);
  config["no_rope_layers"] = nullptr;
  config["no_rope_layer_interval"] = 2;
  EXPECT_EQ(parse_decoder_config(config)->no_rope, (std::vector<bool>{false, true, false, true}));
  config["no_rope_layer_interval"] = 0;
  EXPECT_NE(message_of(config).find("'no_rope_layer_interval' must be positive"),
            std::string::npos);
  for (const json& bad : {json{1, 1}, json{1, 1, 1, 2}, json("x")}) {
    config["no_rope_layers"] = bad;
    EXPECT_NE(message_of(config).find("'no_rope_layers' does not list"), std::string::npos) << bad;
  }
}

TEST(FamilyConfig, Gemma2HasItsClassesCapsAndWindows) {
  json config = family_json("gemma2");
  const std::vector<bool> every_other = {true, false, true, false};
  DecoderConfig c = *parse_decoder_config(config);
  EXPECT_EQ(c.sliding, every_other);
  EXPECT_EQ(in_gguf("gemma2").sliding, every_other);
  EXPECT_EQ(c.attention_softcap, 4.0);
  EXPECT_FALSE(c.head_norms);
  EXPECT_TRUE(c.post_norms);
  EXPECT_TRUE(c.tied_head);
  EXPECT_EQ(inverse_frequencies(c, true), inverse_frequencies(c, false));
  config.erase("attn_logit_softcapping");
  config["final_logit_softcapping"] = nullptr;
  c = *parse_decoder_config(config);
  EXPECT_EQ(c.attention_softcap, 50.0);
  EXPECT_EQ(c.logit_softcap, 0.0);
  const json written = decoder_config_json(c);
  EXPECT_EQ(written["model_type"], "gemma2");
  EXPECT_EQ(parse_decoder_config(written)->attention_softcap, 50.0);
  EXPECT_EQ(parse_decoder_config(written)->logit_softcap, 0.0);
  EXPECT_EQ(parse_decoder_config(written)->sliding, every_other);
}

// The factors are those of the model's context, whatever the length of a text.
TEST(FamilyConfig, Phi3HasTheFactorsOfItsContext) {
  json config = family_json("phi3");
  const DecoderConfig longer = *parse_decoder_config(config);
  EXPECT_TRUE(longer.rope_scaling.longer);
  EXPECT_EQ(longer.rotary_dim, 12);
  EXPECT_EQ(longer.window, 0);  // longer than the context
  EXPECT_EQ(inverse_frequencies(longer, false).size(), 6U);
  EXPECT_NEAR(inverse_frequencies(longer, false)[2], std::pow(1e4, -4.0 / 12.0) / 2.5, 1e-7);
  EXPECT_NEAR(rope_size(longer, false), std::sqrt(1.0 + std::log(16.0) / std::log(16.0)), 1e-12);
  const DecoderConfig gguf = in_gguf("phi3");
  EXPECT_EQ(gguf.rotary_dim, 12);
  EXPECT_EQ(inverse_frequencies(gguf, false), inverse_frequencies(longer, false));
  EXPECT_NEAR(rope_size(gguf, false), rope_size(longer, false), 1e-6);
  config["max_position_embeddings"] = 16;
  const DecoderConfig shorter = *parse_decoder_config(config);
  EXPECT_NEAR(inverse_frequencies(shorter, false)[2], std::pow(1e4, -4.0 / 12.0) / 1.2, 1e-7);
  EXPECT_EQ(rope_size(shorter, false), 1.0);
  for (const DecoderConfig& c : {longer, shorter}) {
    const DecoderConfig again = *parse_decoder_config(decoder_config_json(c));
    EXPECT_EQ(inverse_frequencies(again, false), inverse_frequencies(c, false));
    EXPECT_EQ(rope_size(again, false), rope_size(c, false));
  }
  EXPECT_EQ(in_gguf("phi3_window").window, 8);
  EXPECT_EQ(in_gguf("phi3_window").sliding, std::vector<bool>(2, true));
}

TEST(FamilyConfig, Phi3WithWrongFactorsIsRefused) {
  const auto says = [](const char* key, const json& value) {
    json config = family_json("phi3");
    config["rope_scaling"][key] = value;
    return message_of(config);
  };
  for (const char* key : {"short_factor", "long_factor"}) {
    for (const json& bad : {json{1.0}, json(), json{1, 1, 1, 1, 1, "x"}}) {
      EXPECT_NE(says(key, bad).find("does not list 6 numbers"), std::string::npos) << bad;
    }
  }
  EXPECT_NE(says("long_factor", {1, 1, 0, 1, 1, 1}).find("must be positive"), std::string::npos);
  EXPECT_NE(says("type", "linear").find("'linear' is not supported for phi3"), std::string::npos);
  json config = family_json("phi3");
  for (const double part : {0.0, 1.5, 0.01}) {
    config["partial_rotary_factor"] = part;
    EXPECT_NE(message_of(config).find("'partial_rotary_factor'"), std::string::npos) << part;
  }
}

TEST(FamilyConfig, AGgufFileRotatesNoMoreThanAHead) {
  const auto says = [](std::uint32_t rotated, const std::string& architecture) {
    testing::GgufBuilder b;
    b.string("general.architecture", architecture);
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, std::uint32_t>>{{"embedding_length", 32},
                                                            {"block_count", 1},
                                                            {"attention.head_count", 1},
                                                            {"feed_forward_length", 32},
                                                            {"context_length", 64},
                                                            {"rope.dimension_count", rotated}}) {
      b.u32(architecture + "." + key, value);
    }
    b.tensor("token_embd.weight", {32, 1}, 0, 0).data = std::string(128, '\0');
    const std::string bytes = b.bytes();
    const Result<Gguf> gguf = parse_gguf(std::as_bytes(std::span(bytes)));
    const auto parsed = parse_decoder_config(*gguf);
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_EQ(says(16, "phi3"), "");
  EXPECT_NE(says(15, "phi3").find("15 dimensions of a head of 32"), std::string::npos);
  for (const std::uint32_t wrong : {0U, 34U, 1U << 31}) {
    EXPECT_NE(says(wrong, "phi3").find("part of a head"), std::string::npos) << wrong;
  }
  EXPECT_NE(says(16, "llama").find("part of a head"), std::string::npos);
}

// What files have that would be computed as something else.
TEST(FamilyConfig, PartsOfGgufFilesThatAreNotComputedAreRefused) {
  const auto parsed = [](const std::string& architecture, const auto& more) {
    testing::GgufBuilder b;
    b.string("general.architecture", architecture);
    for (const char* key : {"embedding_length", "context_length", "feed_forward_length"}) {
      b.u32(architecture + "." + key, 32);
    }
    b.u32(architecture + ".block_count", 1).u32(architecture + ".attention.head_count", 1);
    more(b, architecture + ".");
    b.tensor("token_embd.weight", {32, 1}, 0, 0).data = std::string(128, '\0');
    const std::string bytes = b.bytes();
    const Result<Gguf> gguf = parse_gguf(std::as_bytes(std::span(bytes)));
    return parse_decoder_config(*gguf);
  };
  using Builder = testing::GgufBuilder;
  const auto refusal = [&](const std::string& architecture, const auto& more) {
    const Result<DecoderConfig> c = parsed(architecture, more);
    return c ? "" : c.error().message;
  };
  const auto none = [](Builder&, const std::string&) {};
  EXPECT_EQ(refusal("glm4", none), "");
  EXPECT_NE(refusal("glm4", [](Builder& b,
                               const std::string& at) { b.u32(at + "nextn_predict_layers", 1); })
                .find("nextn_predict_layers"),
            std::string::npos);
  EXPECT_EQ(refusal("glm4", [](Builder& b,
                               const std::string& at) { b.u32(at + "nextn_predict_layers", 0); }),
            "");
  const auto experts = [](Builder& b, const std::string& at) {
    b.u32(at + "expert_count", 4).u32(at + "expert_used_count", 2);
  };
  EXPECT_NE(refusal("olmo2", experts).find("olmo2.expert_count"), std::string::npos);
  EXPECT_EQ(refusal("llama", experts), "");
  EXPECT_NE(refusal("phi3",
                    [](Builder& b, const std::string& at) {
                      b.u32(at + "rope.scaling.original_context_length", 16);
                    })
                .find("rope_factors_long.weight"),
            std::string::npos);
  // Earlier files of OLMo 3 have the whole factor under the name of what multiplies YaRN's own.
  const auto yarn = [](Builder& b, const std::string& at) {
    b.string(at + "rope.scaling.type", "yarn");
    constexpr std::uint32_t kFloat = 6;
    b.entry(at + "rope.scaling.factor", kFloat, std::string_view("\0\0\0\x41", 4));
    b.entry(at + "rope.scaling.attn_factor", kFloat, std::string_view("\0\0\xa0\x3f", 4));
  };
  EXPECT_EQ(parsed("olmo2", yarn)->rope_scaling.attention_factor, 1.25);
  EXPECT_NEAR(parsed("llama", yarn)->rope_scaling.attention_factor,
              1.25 * (0.1 * std::log(8.0) + 1.0), 1e-9);
}

TEST(FamilyConfig, GraniteHasItsMultipliers) {
  json config = family_json("granite");
  for (const DecoderConfig& c : {*parse_decoder_config(config), in_gguf("granite"),
                                 *parse_decoder_config(decoder_config_json(in_gguf("granite")))}) {
    EXPECT_NEAR(c.embedding_scale, 12.0, 1e-6);
    EXPECT_NEAR(c.residual_scale, 0.22, 1e-6);
    EXPECT_NEAR(c.query_scale, 0.125, 1e-6);
    EXPECT_NEAR(c.logit_divisor, 2.0, 1e-6);
  }
  for (const char* key :
       {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"}) {
    json bad = config;
    bad[key] = 0.0;
    EXPECT_NE(message_of(bad).find("must be positive"), std::string::npos) << key;
    bad.erase(key);
    EXPECT_EQ(message_of(bad), "");
  }
}

TEST(FamilyConfig, Olmo3HasWindowsAndScalesFullLayersAlone) {
  json config = family_json("olmo3");
  const std::vector<bool> windows = {true, true, true, false};
  const DecoderConfig c = *parse_decoder_config(config);
  for (const DecoderConfig& some :
       {c, in_gguf("olmo3"), *parse_decoder_config(decoder_config_json(c))}) {
    EXPECT_EQ(some.sliding, windows);
    EXPECT_EQ(some.window, 8);
    EXPECT_NEAR(rope_size(some, false), 1.2, 1e-6);
    EXPECT_EQ(rope_size(some, true), 1.0);
    EXPECT_NE(inverse_frequencies(some, false), inverse_frequencies(some, true));
  }
  config.erase("layer_types");
  EXPECT_EQ(parse_decoder_config(config)->sliding, windows);
  EXPECT_EQ(parse_decoder_config(family_json("olmo2"))->window, 0);
  EXPECT_EQ(decoder_config_json(in_gguf("olmo2"))["model_type"], "olmo2");
}

TEST(FamilyConfig, Glm4RotatesHalfAHead) {
  json config = family_json("glm4");
  for (const DecoderConfig& c : {*parse_decoder_config(config), in_gguf("glm4"),
                                 *parse_decoder_config(decoder_config_json(in_gguf("glm4")))}) {
    EXPECT_EQ(c.rotary_dim, 8);
    EXPECT_EQ(inverse_frequencies(c, false).size(), 4U);
  }
  config.erase("partial_rotary_factor");
  EXPECT_EQ(parse_decoder_config(config)->rotary_dim, 8);  // its class's half
}

}  // namespace
}  // namespace forerun
