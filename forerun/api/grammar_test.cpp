// Grammars as part of the target's law, on tiny random models: texts, batches, certificates.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "forerun/api/certify_traced.h"
#include "tests/support/tiny_prompts.h"

namespace forerun {
namespace {

using testing::kTiny;
using testing::near_copy;
using testing::prompt;
using testing::tiny;

// Bounded in all its parts: random weights end no text otherwise.
constexpr const char* kSchema =
    R"({"type": "object", "properties": {
         "name": {"type": "string", "maxLength": 8},
         "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 2, "maxItems": 4},
         "size": {"type": "integer", "minimum": -5, "maximum": 1234},
         "of": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}},
        "required": ["name", "tags", "of"]})";

GenerateOptions held(Rule rule, double temperature, std::uint32_t n = 200) {
  static const auto grammar = tiny().json_grammar(kSchema);
  GenerateOptions o = testing::options(rule, temperature, n);
  o.ignore_end = false;
  o.changes.grammar = grammar;
  return o;
}

std::vector<Drafter> drafters(const Model& model) {
  std::vector<Drafter> out = {near_copy()};
  for (const char* name : {"lookup", "sam", "lookahead", "auto"}) {
    out.push_back(Drafter::load(name, model));
  }
  return out;
}

void expect_kept(const std::string& text, const std::string& of) {
  const auto j = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(j.is_object()) << of << text;
  EXPECT_TRUE(j["name"].is_string()) << of << text;
  ASSERT_TRUE(j["tags"].is_array() && j["tags"].size() >= 2 && j["tags"].size() <= 4) << of << text;
  for (const auto& tag : j["tags"]) EXPECT_TRUE(tag == "red" || tag == "green" || tag == "blue");
  EXPECT_TRUE(j["of"].is_null() || j["of"].is_boolean()) << of << text;
  for (const auto& [key, value] : j.items()) {
    EXPECT_TRUE(key == "name" || key == "tags" || key == "of" ||
                (key == "size" && value.is_number_integer() && value >= -5 && value <= 1234))
        << of << text;
  }
}

TEST(GrammarsOfTexts, TheTextIsThePlainOneWhateverTheDrafts) {
  std::uint64_t kept = 0;
  for (const double temperature : {0.0, 0.8, 1.3}) {
    const GenerateOptions o = held(Rule::kSharedNoise, temperature);
    const Generated plain = generate(tiny(), Drafter(), prompt(20), o);
    EXPECT_EQ(plain.finish, Finish::kEndToken) << plain.text;
    expect_kept(plain.text, "plain");
    for (const Drafter& d : drafters(tiny())) {
      const Generated drafted = generate(tiny(), d, prompt(20), o);
      EXPECT_EQ(drafted.tokens, plain.tokens) << d.name() << " at " << temperature;
      kept += drafted.statistics.kept();
    }
  }
  EXPECT_GT(kept, 100U);
}

TEST(GrammarsOfTexts, EveryRuleKeepsTheSchema) {
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock, Rule::kMatch, Rule::kSharedNoise}) {
    for (const Drafter& d : drafters(tiny())) {
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        GenerateOptions o = held(rule, 1.0);
        o.seed = seed;
        const Generated g = generate(tiny(), d, prompt(20), o);
        EXPECT_EQ(g.finish, Finish::kEndToken);
        expect_kept(g.text, d.name() + " ");
      }
    }
  }
}

// Without one the same model writes no JSON: the test above tests something.
TEST(GrammarsOfTexts, WithoutAGrammarThereIsNoJson) {
  GenerateOptions o = held(Rule::kSharedNoise, 1.0);
  o.changes = {};
  EXPECT_TRUE(nlohmann::json::parse(generate(tiny(), Drafter(), prompt(20), o).text, nullptr, false)
                  .is_discarded());
}

// Drafts of tokens that the grammar forbids are never verified.
TEST(GrammarsOfTexts, TreesHoldAllowedTokensAlone) {
  GenerateOptions o = held(Rule::kSharedNoise, 0.9);
  o.trace = true;
  const Generated g = generate(tiny(), Drafter::load("auto", tiny()), prompt(20), o);
  ASSERT_TRUE(g.trace);
  std::vector<Token> outputs;
  std::size_t drafts = 0;
  for (const RoundTrace& round : g.trace->rounds) {
    for (std::size_t i = 0; i < round.drafts.size(); ++i, ++drafts) {
      std::vector<Token> path;
      for (std::int32_t at = round.parents[i]; at >= 0;
           at = round.parents[static_cast<std::size_t>(at)]) {
        path.insert(path.begin(), round.drafts[static_cast<std::size_t>(at)]);
      }
      std::vector<Token> before = outputs;
      before.insert(before.end(), path.begin(), path.end());
      EXPECT_TRUE(o.changes.grammar->walk()->after(before)(round.drafts[i]));
    }
    outputs.insert(outputs.end(), round.outputs.begin(), round.outputs.end());
  }
  EXPECT_GT(drafts, 50U);
}

TEST(GrammarsOfTexts, TextsOfABatchAreThoseOfSingleRuns) {
  const Drafter automatic = Drafter::load("auto", tiny());
  const std::vector<std::vector<Token>> prompts = {prompt(9), prompt(20, 2), prompt(33)};
  const GenerateOptions o = held(Rule::kSharedNoise, 0.9);
  const auto batch = generate_batch(tiny(), automatic, prompts, o);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GenerateOptions one = o;
    one.request = static_cast<std::uint32_t>(i);
    EXPECT_EQ(batch[i].tokens, generate(tiny(), Drafter(), prompts[i], one).tokens);
  }
}

TEST(GrammarsOfTexts, CertificatesJudgeByTheGrammar) {
  std::vector<std::vector<Token>> prompts;
  for (Token salt = 0; salt < 12; ++salt) prompts.push_back(prompt(30, salt));
  const Certificate c =
      certify(tiny(), near_copy(), prompts, 600, 150, held(Rule::kMaximal, 1.0, 150));
  EXPECT_TRUE(c.passed()) << " z " << c.report.z << " p " << c.report.ks_p;
  EXPECT_GT(c.report.drafted, 200U);
  for (const double temperature : {0.0, 0.9}) {
    const GenerateOptions o = held(Rule::kSharedNoise, temperature, 60);
    for (const Drafter& d : drafters(tiny())) {
      EXPECT_EQ(certify(tiny(), d, prompts, 120, 60, o).verdict(), "identical") << d.name();
    }
  }
  // A text of the grammar is none of the law without it.
  GenerateOptions o = held(Rule::kMaximal, 1.0);
  const TracedText t = traced(tiny(), near_copy(), prompt(20), o);
  EXPECT_TRUE(certify_traced(tiny(), near_copy(), prompt(20), t, o).passed());
  o.changes = {};
  EXPECT_FALSE(certify_traced(tiny(), near_copy(), prompt(20), t, o).passed());
}

TEST(GrammarsOfTexts, WhatCannotBeKeptIsRefused) {
  GenerateOptions o = held(Rule::kMaximal, 1.0);
  o.ignore_end = true;
  EXPECT_THROW(generate(tiny(), Drafter(), prompt(20), o), UsageError);
  EXPECT_THROW(tiny().json_grammar(R"({"not": {}})"), UsageError);
  EXPECT_THROW(tiny().tool_grammar({}, {}), UsageError);
  EXPECT_FALSE(tiny().answers_in_channels());
  EXPECT_THROW(tiny().json_grammar("{}", ReasoningStart::kChannels), UsageError);
  const std::vector<Tool> tools = {{"f", ""}};
  EXPECT_THROW(tiny().tool_grammar(tools, {.reasoning = ReasoningStart::kChannels}), UsageError);
}

}  // namespace
}  // namespace forerun
