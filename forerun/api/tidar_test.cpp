// TiDAR through the public API: no text changes, in company or alone, and bad adapters are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "forerun/common.h"
#include "forerun/engine.h"
#include "forerun/text.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_tidar.h"

namespace forerun {
namespace {

using testing::chat_model;
using testing::tiny_tidar_path;

GenerateOptions tidar_options(Rule rule, double temperature) {
  GenerateOptions o;
  o.rule = rule;
  o.sampling.temperature = temperature;
  o.max_tokens = 60;
  o.max_draft = 7;
  o.ignore_end = true;
  o.seed = 4;
  return o;
}

std::vector<Token> tidar_prompt(std::size_t i) {
  std::vector<Token> out;
  for (std::size_t j = 0; j < 8 + 5 * i; ++j) {
    out.push_back(static_cast<Token>(10 + (i * 7 + j * j) % 12));
  }
  return out;
}

std::vector<std::string> names() {
  return {"tidar:" + tiny_tidar_path(4), "tidar:" + tiny_tidar_path(4) + "+lookup",
          "tidar:" + tiny_tidar_path(8) + "+lookup+recycling"};
}

TEST(Tidar, EveryTextIsThatOfPlainDecoding) {
  for (const std::string& name : names()) {
    const Drafter drafter = Drafter::load(name, chat_model());
    for (const Rule rule : {Rule::kSharedNoise, Rule::kMaximal, Rule::kBlock, Rule::kMatch}) {
      for (const double temperature : {0.0, 0.9}) {
        const bool samples = rule == Rule::kMaximal || rule == Rule::kBlock;
        if (samples && temperature > 0.0) continue;  // another text of the same law
        for (const bool fixed : {false, true}) {
          GenerateOptions o = tidar_options(rule, temperature);
          o.fixed_draft = fixed;
          const auto plain = generate(chat_model(), Drafter(), tidar_prompt(2), o);
          const auto drafted = generate(chat_model(), drafter, tidar_prompt(2), o);
          EXPECT_EQ(drafted.tokens, plain.tokens) << name << " " << name_of(rule) << temperature;
          EXPECT_TRUE(drafted.exact);
        }
      }
    }
  }
}

// False alarm below 3e-4 a case, over seeds; seeded, so once.
TEST(Tidar, SampledDraftsHaveCertificates) {
  const Drafter drafter = Drafter::load(names()[0], chat_model());
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock, Rule::kSharedNoise}) {
    GenerateOptions o = tidar_options(rule, 1.0);
    o.fixed_draft = true;
    const std::vector<std::vector<Token>> prompts = {tidar_prompt(1), tidar_prompt(2),
                                                     tidar_prompt(3)};
    const Certificate c = certify(chat_model(), drafter, prompts, 1500, 64, o);
    EXPECT_TRUE(c.passed()) << name_of(rule) << " z " << c.report.z;
    EXPECT_EQ(c.deterministic, rule == Rule::kSharedNoise);
    if (rule != Rule::kSharedNoise) {
      EXPECT_GT(c.report.drafted, 500U);
    }
  }
}

TEST(Tidar, TextsOfOneEngineAreThoseAlone) {
  const Model target =
      Model::load(testing::chat_model_path(), machine().int8 ? Precision::kInt8 : Precision::kF32);
  std::vector<Drafter> drafters = {Drafter(), Drafter::load("lookup", target)};
  for (const std::string& name : names()) drafters.push_back(Drafter::load(name, target));
  Engine engine;
  std::map<RequestId, std::vector<Token>> want;
  for (std::size_t i = 0; i < 10; ++i) {
    GenerateOptions o =
        tidar_options(i % 2 == 0 ? Rule::kSharedNoise : Rule::kMatch, i % 3 == 0 ? 0.0 : 0.8);
    o.request = static_cast<std::uint32_t>(i);
    o.fixed_draft = i % 4 == 0;
    const Drafter& drafter = drafters[i % drafters.size()];
    want[engine.submit(target, drafter, tidar_prompt(i), o)] =
        generate(target, Drafter(), tidar_prompt(i), o).tokens;
  }
  std::size_t ended = 0;
  while (engine.busy()) {
    for (const Event& event : engine.step()) {
      const auto* done = std::get_if<TextFinished>(&event);
      EXPECT_FALSE(std::holds_alternative<Failed>(event));
      if (done == nullptr) continue;
      ++ended;
      if (machine().int8) {
        EXPECT_EQ(done->result.tokens, want.at(done->id)) << done->id;
      }
    }
  }
  EXPECT_EQ(ended, 10U);
}

TEST(Tidar, WritesToTheEndOfTheContext) {
  const Drafter drafter = Drafter::load(names()[2], chat_model());
  GenerateOptions o = tidar_options(Rule::kSharedNoise, 0.0);
  o.max_tokens = 100000;
  o.fixed_draft = true;
  const auto plain = generate(chat_model(), Drafter(), tidar_prompt(1), o);
  EXPECT_EQ(generate(chat_model(), drafter, tidar_prompt(1), o).tokens, plain.tokens);
}

TEST(Tidar, AdaptersOfAnotherModelAreRefusedWithALine) {
  const auto message = [](const std::string& name) -> std::string {
    try {
      Drafter::load(name, chat_model());
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  };
  const DecoderConfig& config = impl_of(chat_model()).lm.config;
  testing::TempFolder folder;
  const std::string other = (folder.path() / "other").string();
  save_gated_lora(other, random_adapters(config, "0123456789abcdef", 4));
  EXPECT_NE(message("tidar:" + other), "");
  EXPECT_EQ(message("tidar:" + other).find('\n'), std::string::npos);
  EXPECT_NE(message("tidar:" + other).find("were trained on"), std::string::npos)
      << message("tidar:" + other);
  EXPECT_NE(message("tidar:/nowhere").find("no adapters at"), std::string::npos);
  EXPECT_NE(message("tidar"), "");
  EXPECT_NE(message("tidar:" + other + ":blok=3").find("no option 'blok'; there are block, beta"),
            std::string::npos);
  EXPECT_NE(message("tidar:/nowhere:blok=3").find("no adapters at"), std::string::npos);
}

}  // namespace
}  // namespace forerun
