#include "forerun/formats/sampling_metadata.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/gguf_builder.h"

namespace forerun {
namespace {

using nlohmann::json;

RecommendedSampling of_json(const char* text) {
  const auto out = parse_generation_config(json::parse(text));
  EXPECT_TRUE(out) << text;
  return out ? *out : RecommendedSampling{};
}

std::string error_of_json(const char* text) {
  const auto out = parse_generation_config(json::parse(text));
  return out ? "" : out.error().message;
}

TEST(GenerationConfig, HoldsWhatItsPublisherRecommends) {
  const RecommendedSampling qwen = of_json(
      R"({"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"repetition_penalty":1.05})");
  EXPECT_EQ(qwen.temperature, 0.6);
  EXPECT_EQ(qwen.top_k, 20U);
  EXPECT_EQ(qwen.top_p, 0.95);
  EXPECT_EQ(qwen.min_p, std::nullopt);
  EXPECT_EQ(qwen.repetition_penalty, 1.05);
  EXPECT_FALSE(qwen.none());
  EXPECT_TRUE(of_json(R"({"eos_token_id":2,"temperature":null})").none());
  EXPECT_EQ(of_json(R"({"top_k":-1})").top_k, 0U);
  EXPECT_EQ(of_json(R"({"max_new_tokens":2048})").max_tokens, 2048U);
  EXPECT_EQ(qwen.max_tokens, std::nullopt);
  EXPECT_EQ(of_json(R"({"temperature":1})").temperature, 1.0);
}

TEST(GenerationConfig, IsGreedyOnlyWhereItSaysSo) {
  EXPECT_EQ(of_json(R"({"do_sample":false,"temperature":0.6,"top_k":5})").temperature, 0.0);
  EXPECT_EQ(of_json(R"({"do_sample":false})").temperature, 0.0);
  EXPECT_EQ(of_json(R"({"do_sample":null,"temperature":0.6})").temperature, 0.6);
  EXPECT_EQ(of_json(R"({"temperature":0.6})").temperature, 0.6);
}

TEST(GenerationConfig, NamesWhatIsWrong) {
  EXPECT_EQ(error_of_json(R"({"temperature":-1})"), "temperature holds -1, expected 0 to 1000");
  EXPECT_EQ(error_of_json(R"({"top_p":1.5,"top_k":"a"})"),
            "top_k holds a string, expected a number");
  EXPECT_EQ(error_of_json(R"({"repetition_penalty":0})"),
            "repetition_penalty holds 0, expected 0.01 to 100");
  EXPECT_NE(error_of_json(R"({"top_k":1e300})"), "");
  EXPECT_NE(error_of_json(R"({"max_new_tokens":0})").find("max_new_tokens holds 0"),
            std::string::npos);
}

Gguf file_of(const testing::GgufBuilder& builder, std::string& bytes) {
  bytes = builder.bytes();
  auto gguf = parse_gguf(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(gguf);
  return *std::move(gguf);
}

TEST(SamplingOfGguf, IsTheNumberThatWasWritten) {
  std::string bytes;
  testing::GgufBuilder b;
  b.entry("general.sampling.temp", 6, b.raw(0.6F));
  b.entry("general.sampling.top_p", 6, b.raw(0.95F));
  b.entry("general.sampling.top_k", 5, b.raw(std::int32_t{20}));
  b.entry("general.sampling.penalty_repeat", 12, b.raw(1.05));
  const auto out = sampling_of(file_of(b, bytes));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->temperature, 0.6);
  EXPECT_EQ(out->top_p, 0.95);
  EXPECT_EQ(out->top_k, 20U);
  EXPECT_EQ(out->min_p, std::nullopt);
  EXPECT_EQ(out->repetition_penalty, 1.05);
  testing::GgufBuilder none;
  const auto nothing = sampling_of(file_of(none.u32("a", 1), bytes));
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->none());
}

TEST(SamplingOfGguf, NamesWhatIsWrong) {
  std::string bytes;
  testing::GgufBuilder text, large;
  const auto wrong = sampling_of(file_of(text.string("general.sampling.temp", "warm"), bytes));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("general.sampling.temp: "), std::string::npos);
  const auto beyond =
      sampling_of(file_of(large.entry("general.sampling.min_p", 6, text.raw(2.0F)), bytes));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().message, "general.sampling.min_p holds 2, expected 0 to 1");
}

}  // namespace
}  // namespace forerun
