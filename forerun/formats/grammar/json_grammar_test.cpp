#include "forerun/formats/grammar/json_grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/core/logit_changes.h"
#include "forerun/formats/grammar/grammar_compiler.h"
#include "forerun/formats/grammar/number_grammar.h"
#include "tests/support/byte_grammar.h"
#include "tests/support/mutate.h"

namespace forerun {
namespace {

using testing::accepts;
using testing::byte_compiler;
using testing::byte_tokenizer;
using testing::bytes_of;
using testing::compiled;
using testing::kGrammarEnd;
using testing::kPadded;
using testing::SplitMix64;

struct Case {
  const char* schema;
  std::vector<const char*> good, bad;
};

TEST(JsonGrammar, KeepsWhatASchemaSays) {
  const std::vector<Case> cases = {
      {R"({"type": "object"})", {"{}", R"({"a": [1, null]})", "{ }"}, {"[]", "1", "", R"({"a"})"}},
      {"true", {"1", "\"x\"", "[[],{}]", "-0.5e+7"}, {"", "01", "1.", "+1", "nul"}},
      {R"({"type": "string"})",
       {R"("")", R"("a\nb\u00e9\u00E9")", "\"\xc3\xa9\"", R"("\uD7FF")"},
       {"\"", "\"\t\"", "\"\n\"", R"("\x")", R"("\uD83D")", R"("\ude00")", "\"a\" ", "\"\x01\"",
        "\"\xed\xa3\x92\"", "\"\xff\""}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("abc")", "\"\xf0\x9f\x98\x80x\""},
       {R"("a")", R"("abcd")", R"("a\n")", R"("\u00e9")", "\"a\tb\""}},
      {R"({"type": "string", "maxLength": 0})", {R"("")"}, {R"("a")"}},
      {R"({"type": ["integer", "null"], "minimum": 3})", {"3", "null", "12"}, {"2", "-3", "3.5"}},
      {R"({"enum": ["a\"b", 1, null, {"x": [1]}, "é"]})",
       {R"("a\"b")", "1", "null", R"({"x":[1]})", "\"é\""},
       {R"("a")", "2", "[1]"}},
      {R"({"const": [1, 2]})", {"[1,2]"}, {"[1]", "1"}},
      {R"({"enum": [1, "a"], "type": "string"})", {R"("a")"}, {"1"}},
      {R"({"properties": {"b": {"type": "integer"}, "a": {"type": "boolean"}}, "required": ["a"]})",
       {R"({"a": true})", R"({"b": 1, "a": false})", R"({"b":1,"a":false})", "{\n  \"a\": true\n}"},
       {"{}", R"({"b": 1})", R"({"a": 1})", R"({"a": true, "b": 1})", R"({"a": true, "c": 1})",
        R"({"a": true,})"}},
      {R"({"properties": {"a": {}, "b": {}}, "additionalProperties": false})",
       {"{}", R"({"a": 1})", R"({"b": 1})", R"({"a": 1, "b": 2})"},
       {R"({"b": 1, "a": 1})", R"({"a": 1 "b": 2})", R"({,"a": 1})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"x": 1, "y": 2})"},
       {R"({"x": "1"})"}},
      {R"({"type": "object", "required": ["k"], "additionalProperties": {"type": "null"}})",
       {R"({"k": null})"},
       {"{}", R"({"k": 1})"}},
      {R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"a": 1})"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1, 2,3]"},
       {"[]", "[1,2,3,4]", "[1,]", "[\"a\"]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"type": "array", "items": {"type": "null"}, "maxItems": 1})",
       {"[]", "[null]"},
       {"[null,null]"}},
      {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 1})",
       {"[1]", R"([1, "a"])"},
       {"[]", R"(["a"])", R"([1, "a", 2])"}},
      {R"({"prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 3})",
       {"[1, null]", "[1, null, null]"},
       {"[1]", "[1,null,null,null]", "[null,null]"}},
      {R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
       {"5", R"("a")"},
       {R"("ab")", "null"}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "null"}], "title": "x", "default": null})",
       {"5", "null"},
       {"true"}},
      {R"({"allOf": [{"type": "integer"}]})", {"5"}, {"null"}},
      {R"({"$defs": {"node": {"properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
           "required": ["v"]}}, "$ref": "#/$defs/node"})",
       {R"({"v": 1})", R"({"v": 1, "next": {"v": 2, "next": {"v": 3}}})"},
       {R"({"next": {"v": 2}})", R"({"v": 1, "next": {}})"}},
      {R"({"$defs": {"a/b~c": {"const": 1}}, "type": "array", "items": {"$ref": "#/$defs/a~1b~0c"}})",
       {"[1,1]"},
       {"[2]"}},
      {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
      {R"({"type": "number", "minimum": 0, "exclusiveMaximum": 1})",
       {"0", "0.5", "0.000000001", "0.0"},
       {"1", "1.0", "-0.5", "0.", "5e-1"}},
      {R"({"type": "number", "exclusiveMinimum": 0})", {"0.1", "7", "12.25"}, {"0", "0.0", "-1"}},
      {R"({"type": "number", "maximum": -3})", {"-3", "-3.0", "-3.5", "-10"}, {"-2.9", "3", "0"}},
      {R"({"type": "integer", "exclusiveMinimum": -2, "exclusiveMaximum": 2.5})",
       {"-1", "0", "1", "2"},
       {"-2", "3", "-0"}},
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-28")"},
       {R"("2024-13-01")", R"("x")"}},
      {R"({"type": "string", "format": "ipv4"})",
       {R"("10.0.255.1")"},
       {R"("10.0.256.1")", R"("1.1")"}},
  };
  for (const Case& c : cases) {
    const auto grammar = compiled(json_schema_grammar(c.schema));
    for (const char* text : c.good) EXPECT_TRUE(accepts(*grammar, text)) << c.schema << text;
    for (const char* text : c.bad) EXPECT_FALSE(accepts(*grammar, text)) << c.schema << text;
  }
}

TEST(JsonGrammar, RefusesWhatItWouldNotKeep) {
  for (const char* schema :
       {R"({"type": "string", "pattern": "(?=a)b"})",
        R"({"minLength": 3})",
        R"({"not": {}})",
        R"({"type": "object", "patternProperties": {}})",
        R"({"type": "array", "uniqueItems": true})",
        R"({"if": {}, "then": {}})",
        R"({"type": "number", "multipleOf": 2})",
        "5",
        "null",
        "{",
        R"({"type": "strange"})",
        R"({"type": 5})",
        R"({"$ref": "http://example.org/a"})",
        "false",
        R"({"$ref": "#/$defs/none"})",
        R"({"$ref": "#", "minLength": 2})",
        R"({"enum": []})",
        R"({"const": 36893488147419103232})",
        R"({"enum": [{"a": [-9223372036854775809]}]})",
        R"({"anyOf": []})",
        R"({"anyOf": [{}], "type": "object"})",
        R"({"type": "string", "minItems": 1})",
        R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})",
        R"({"allOf": [{}, {}]})",
        R"({"type": "string", "minLength": 3, "maxLength": 2})",
        R"({"enum": [1], "type": "string"})",
        R"({"type": "integer", "minimum": 3, "maximum": 2})",
        R"({"type": "number", "minimum": 0.5})",
        R"({"type": "number", "exclusiveMinimum": 2, "maximum": 2})",
        R"({"type": "object", "required": ["a"], "additionalProperties": false})",
        R"({"type": "string", "format": "email"})",
        R"({"type": "string", "maxLength": 1000000})",
        R"({"type": "array", "items": [{}]})",
        R"({"type": "object", "properties": {"a": {"contains": {}}}})",
        R"({"type": []})",
        R"({"dependentRequired": {}})",
        R"({"type": "array", "minItems": -1})"}) {
    const auto grammar = json_schema_grammar(schema);
    EXPECT_FALSE(grammar) << schema;
    if (grammar) continue;
    EXPECT_TRUE(grammar.error().message.starts_with("JSON schema: "));
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += R"({"items":)";
  EXPECT_FALSE(json_schema_grammar(deep));
  std::string chain = R"({"$ref": "#/$defs/a0", "$defs": {)";
  for (int i = 0; i < 3000; ++i) {
    chain += fmt::format(R"("a{}": {{"$ref": "#/$defs/a{}"}},)", i, i + 1);
  }
  EXPECT_FALSE(json_schema_grammar(chain + R"("a3000": {}}})"));
  // Without an end there is no text.
  for (
      const char* endless : {
          R"({"$ref": "#"})",
          R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})",
          R"({"properties": {"x": {"$ref": "#"}}, "required": ["x"]})",
          R"({"type": "object", "required": ["x"], "additionalProperties": {"$ref": "#"}})",
          R"({"properties": {"x": {"type": "array", "items": {"$ref": "#"}, "minItems": 1}}, "required": ["x"]})",
          R"({"prefixItems": [true, {"$ref": "#"}], "minItems": 2})",
          R"({"anyOf": [{"$ref": "#"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 2}]})",
          R"({"properties": {"x": {"$ref": "#/properties/x"}}})",
      }) {
    const auto grammar = json_schema_grammar(endless);
    ASSERT_FALSE(grammar) << endless;
    EXPECT_TRUE(grammar.error().message.find("no value that ends") != std::string::npos)
        << grammar.error().message;
  }
  for (
      const char* ends : {
          R"({"properties": {"x": {"$ref": "#"}}})",
          R"({"type": "array", "items": {"$ref": "#"}})",
          R"({"properties": {"x": {"type": ["object", "null"], "properties": {"y": {"$ref": "#"}}, "required": ["y"]}}, "required": ["x"]})",
          R"({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "$defs": {"a": {"properties": {"x": {"$ref": "#"}}, "required": ["x"]}}})",
          R"({"prefixItems": [true, {"$ref": "#"}], "minItems": 1})",
      }) {
    EXPECT_TRUE(json_schema_grammar(ends)) << ends;
  }
  EXPECT_FALSE(byte_compiler().compile("root ::= "));
  EXPECT_FALSE(GrammarCompiler(byte_tokenizer(), kPadded, {}).compile("root ::= \"a\""));
}

// Texts drawn from the tokens that are allowed, the end as soon as it is after some.
std::string drawn(const TokenGrammar& grammar, SplitMix64& rng, std::size_t patience) {
  std::vector<Token> tokens;
  const auto walk = grammar.walk();
  for (std::size_t n = 0;; ++n) {
    const AllowedTokens possible = walk->after(tokens);
    if (possible(kGrammarEnd) && n > rng.below(patience)) break;
    std::vector<Token> choices;
    for (Token t = 0; t < static_cast<Token>(kPadded); ++t) {
      if (t != kGrammarEnd && possible(t)) choices.push_back(t);
    }
    // White space, signs and closing marks are one choice of many: texts stay short.
    if (choices.empty() || n > 5000) break;
    tokens.push_back(choices[rng.below(choices.size())]);
  }
  std::string text;
  for (const Token t : tokens) text += byte_tokenizer().piece(t);
  return text;
}

TEST(JsonGrammar, EveryDrawnTextIsJson) {
  SplitMix64 rng(7);
  const auto grammar = compiled(json_schema_grammar(
      R"({"type": "object", "properties": {"s": {"type": "string", "maxLength": 6}, "n": {"type": "number"},
          "i": {"type": "integer", "minimum": -20, "maximum": 345}, "e": {"enum": ["x", "é"]}},
          "required": ["s", "n", "i", "e"]})"));
  int whole = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string text = drawn(*grammar, rng, 4);
    const auto parsed = nlohmann::json::parse(text, nullptr, false);
    if (parsed.is_discarded()) {
      ADD_FAILURE() << text;
      continue;
    }
    ++whole;
    EXPECT_LE(parsed["i"].get<int>(), 345);
    EXPECT_GE(parsed["i"].get<int>(), -20);
  }
  EXPECT_GT(whole, 190);
}

TEST(JsonGrammar, IntegersBetweenBoundsAreThoseAndNoOthers) {
  SplitMix64 rng(11);
  for (int i = 0; i < 40; ++i) {
    const auto a = static_cast<std::int64_t>(rng.below(400)) - 200;
    const auto b = a + static_cast<std::int64_t>(rng.below(250));
    const auto grammar = compiled("root ::= " + integer_expression(a, b));
    const auto from = compiled("root ::= " + integer_expression(a, {}));
    for (std::int64_t x = -480; x <= 480; ++x) {
      EXPECT_EQ(accepts(*grammar, std::to_string(x)), a <= x && x <= b)
          << a << " " << b << " " << x;
      if (i < 8) {
        EXPECT_EQ(accepts(*from, std::to_string(x)), a <= x) << a << " " << x;
      }
    }
  }
}

TEST(JsonGrammar, NumbersBetweenBoundsAreThoseAndNoOthers) {
  for (int bits = 0; bits < 4; ++bits) {
    for (int a = -3; a <= 3; ++a) {
      for (int b = a; b <= 3; ++b) {
        const NumberBounds bounds{a, b, (bits & 1) != 0, (bits & 2) != 0};
        const std::string expression = number_expression(bounds);
        if (expression.empty()) {
          EXPECT_TRUE(a == b && bits != 0);
          continue;
        }
        const auto grammar = compiled("root ::= " + expression);
        for (int x = -16; x <= 16; ++x) {  // quarters
          const double value = x / 4.0;
          if (value == 0.0) continue;  // with or without a sign
          const bool within = (bounds.above_least ? value > a : value >= a) &&
                              (bounds.below_most ? value < b : value <= b);
          EXPECT_EQ(accepts(*grammar, fmt::format("{}", value)), within) << a << b << bits << value;
        }
      }
    }
  }
}

TEST(AfterReasoning, AnswersAreOfTheirFormAndTheReasoningIsAnyText) {
  constexpr const char* kSchema = R"({"type": "integer"})";
  const std::vector<std::string> choices = {"5"};
  const std::vector<Tool> tools = {{"f", ""}};
  const ToolCalls one{.required = true, .reasoning = ReasoningStart::kBefore};
  for (const auto& grammar :
       {compiled(json_schema_grammar(kSchema, ReasoningStart::kBefore)),
        compiled(choice_grammar(choices, ReasoningStart::kBefore)),
        compiled(
            tool_call_grammar(tools, {.answer = kSchema, .reasoning = ReasoningStart::kBefore}))}) {
    for (const char* good : {"5", "<think>\nSay {\"a\" </thin </</think>\n\n5", "<think></think>5",
                             "<think>a<think>\xc3\xa9<tool_call>x</tool_call></think> 5"}) {
      EXPECT_TRUE(accepts(*grammar, good)) << good;
    }
    for (const char* bad : {"", "a5", "<think>5", "<think>a</think>", "<think>a</think>b</think>5",
                            "<think>a</think>5</think>5", "a</think>5"}) {
      EXPECT_FALSE(accepts(*grammar, bad)) << bad;
    }
  }
  const auto inside = compiled(json_schema_grammar(kSchema, ReasoningStart::kInside));
  for (const char* good : {"</think>5", "\na 5 {\n</think>\n\n5"}) {
    EXPECT_TRUE(accepts(*inside, good)) << good;
  }
  for (const char* bad : {"5", "", "a", "a</think>", "a</think>5 b"}) {
    EXPECT_FALSE(accepts(*inside, bad)) << bad;
  }
  const std::string call = R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)";
  const auto forced = compiled(tool_call_grammar(tools, one));
  EXPECT_TRUE(accepts(*forced, call));
  EXPECT_TRUE(accepts(*forced, "<think>a <tool_call>b</think>\n\n" + call));
  EXPECT_FALSE(accepts(*forced, "<think>" + call));
}

TEST(AfterReasoning, TextsThatMayBeAnyNeedNotEndTheirs) {
  const std::vector<Tool> tools = {{"f", ""}};
  const std::string call = R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)";
  const auto before = compiled(tool_call_grammar(tools, {.reasoning = ReasoningStart::kBefore}));
  const auto inside = compiled(tool_call_grammar(tools, {.reasoning = ReasoningStart::kInside}));
  for (const std::string& text :
       {std::string("a"), "a </think>\n\n" + call + " b" + call, "<tool_call>x</think>" + call}) {
    EXPECT_TRUE(accepts(*inside, text)) << text;
    EXPECT_TRUE(accepts(*before, "<think>" + text)) << text;
  }
  EXPECT_TRUE(accepts(*before, "a" + call));
  for (const std::string& text :
       {std::string("<tool_call>x"), std::string("a</think><tool_call>x</tool_call>"),
        std::string("<tool_call>a</think><tool_call>b")}) {
    EXPECT_FALSE(accepts(*before, text)) << text;
    EXPECT_FALSE(accepts(*before, "<think>a</think>" + text)) << text;
  }
}

// A place that moves to and fro gives what a fresh one gives.
TEST(GrammarWalk, GoesBackAndAlongOtherPaths) {
  const auto grammar = compiled(json_schema_grammar(R"({"type": "object"})"));
  const auto moving = grammar->walk();
  const std::string text = R"({"a": [1, {"b": "c"}], "d": null})";
  SplitMix64 rng(3);
  for (int i = 0; i < 400; ++i) {
    std::vector<Token> outputs = bytes_of(text.substr(0, rng.below(text.size() + 1)));
    if (rng.below(3) == 0) outputs.push_back(static_cast<Token>(rng.below(kPadded)));
    const auto fresh = grammar->walk();
    const AllowedTokens a = fresh->after(outputs), b = moving->after(outputs);
    ASSERT_EQ(a.unknown(), b.unknown());
    for (Token t = -1; t < 400; ++t) ASSERT_EQ(a(t), b(t)) << i << " " << t;
  }
}

TEST(GrammarWalk, ForbiddenTokensLoseTheirLogits) {
  LogitChanges changes;
  changes.bias = {{'{', -5.0F}};
  changes.grammar = compiled(json_schema_grammar(R"({"const": {}})"));
  ChangedLogits changed(changes, {});
  std::vector<float> logits(kPadded, 1.0F);
  EXPECT_TRUE(changed.apply_(logits));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(logits[i], i == '{' ? -4.0F : -std::numeric_limits<float>::infinity()) << i;
  }
  changed.push('{');
  changed.push('}');
  logits.assign(kPadded, 1.0F);
  EXPECT_TRUE(changed.apply_(logits));
  for (std::size_t i = 0; i < logits.size(); ++i)
    EXPECT_EQ(std::isfinite(logits[i]), i == kGrammarEnd);
  // After a token that the grammar forbids nothing is known, and nothing changes but the bias.
  changed.push('x');
  EXPECT_TRUE(changed.allowed().unknown());
  logits.assign(kPadded, 1.0F);
  EXPECT_TRUE(changed.apply_(logits));
  EXPECT_EQ(logits['x'], 1.0F);
}

TEST(JsonGrammar, MutatedSchemasCompileOrAreRefused) {
  const std::string schema =
      R"({"$defs": {"n": {"type": "integer", "minimum": 1}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/n"},
          "b": {"anyOf": [{"type": "string", "maxLength": 5}, {"enum": ["x", 1]}]}}, "required": ["a"]})";
  SplitMix64 rng(5);
  int kept = 0;
  for (int i = 0; i < 300; ++i) {
    std::string text = schema;
    for (std::size_t n = rng.below(4); n-- > 0;) {
      text[rng.below(text.size())] = schema[rng.below(schema.size())];
    }
    const auto ebnf = json_schema_grammar(text);
    if (!ebnf) continue;
    ++kept;
    if (i % 10 == 0) static_cast<void>(byte_compiler().compile(*ebnf));
  }
  EXPECT_GT(kept, 50);
}

}  // namespace
}  // namespace forerun
