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
#include "tests/support/mutate.h"

namespace forerun {
namespace {

using testing::SplitMix64;

constexpr Token kEnd = 256;

// Tokens of one byte each, an end token, and some of several bytes.
const Tokenizer& bytes() {
  static const Tokenizer made = [] {
    TokenizerSpec spec;
    spec.kind = TokenizerSpec::Kind::kSentencePiece;
    for (int i = 0; i < 256; ++i) spec.tokens.push_back(fmt::format("<0x{:02X}>", i));
    spec.types.assign(256, TokenType::kByte);
    spec.tokens.emplace_back("</s>");
    spec.types.push_back(TokenType::kControl);
    for (const char* text : {"{\"", "\":", "\": ", "\", \"", "true", "12", "\n  ", "}}", "ab"}) {
      spec.tokens.emplace_back(text);
      spec.types.push_back(TokenType::kNormal);
    }
    spec.scores.assign(spec.tokens.size(), 0.0F);
    spec.byte_fallback = true;
    spec.eos = kEnd;
    spec.added = added_by_type(spec);
    Result<Tokenizer> tokenizer = make_tokenizer(std::move(spec));
    if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
    return *std::move(tokenizer);
  }();
  return made;
}

constexpr std::size_t kPadded = 300;  // rows of the model beyond the tokenizer's

const GrammarCompiler& compiler() {
  static const GrammarCompiler made(bytes(), kPadded, {kEnd});
  return made;
}

std::shared_ptr<const TokenGrammar> compiled(const Result<std::string>& ebnf) {
  if (!ebnf) throw std::runtime_error(ebnf.error().message);
  auto grammar = compiler().compile(*ebnf);
  if (!grammar) throw std::runtime_error(grammar.error().message);
  return *std::move(grammar);
}

std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

// Whether the whole text, byte by byte, and then the end is possible.
bool accepts(const TokenGrammar& grammar, const std::string& text) {
  const std::vector<Token> tokens = tokens_of(text);
  const auto walk = grammar.walk();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!walk->after(std::span(tokens).first(i))(tokens[i])) return false;
  }
  return walk->after(tokens)(kEnd);
}

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
       {R"({"type": "string", "pattern": "a"})",
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
  EXPECT_FALSE(compiler().compile("root ::= "));
  EXPECT_FALSE(GrammarCompiler(bytes(), kPadded, {}).compile("root ::= \"a\""));
}

// Texts drawn from the tokens that are allowed, the end as soon as it is after some.
std::string drawn(const TokenGrammar& grammar, SplitMix64& rng, std::size_t patience) {
  std::vector<Token> tokens;
  const auto walk = grammar.walk();
  for (std::size_t n = 0;; ++n) {
    const AllowedTokens possible = walk->after(tokens);
    if (possible(kEnd) && n > rng.below(patience)) break;
    std::vector<Token> choices;
    for (Token t = 0; t < static_cast<Token>(kPadded); ++t) {
      if (t != kEnd && possible(t)) choices.push_back(t);
    }
    // White space, signs and closing marks are one choice of many: texts stay short.
    if (choices.empty() || n > 5000) break;
    tokens.push_back(choices[rng.below(choices.size())]);
  }
  std::string text;
  for (const Token t : tokens) text += bytes().piece(t);
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

TEST(ToolCallGrammar, HoldsCallsToTheirParameters) {
  const std::vector<Tool> tools = {
      {"get_weather",
       R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})"},
      {"now", ""}};
  const std::string good = R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>)";
  const std::string wrong = R"(<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>)";
  const std::string unknown = R"(<tool_call>{"name": "other", "arguments": {}}</tool_call>)";
  const std::string now = R"(<tool_call>{"name": "now", "arguments": {"x": 1}}</tool_call>)";
  const auto free = compiled(tool_call_grammar(tools, {}));
  const auto forced = compiled(tool_call_grammar(tools, {.required = true}));
  const auto single = compiled(tool_call_grammar(tools, {.required = true, .several = false}));
  for (const auto& grammar : {free, forced, single}) {
    EXPECT_TRUE(accepts(*grammar, good));
    EXPECT_TRUE(accepts(*grammar, now));
    EXPECT_FALSE(accepts(*grammar, wrong));
    EXPECT_FALSE(accepts(*grammar, unknown));
  }
  EXPECT_TRUE(accepts(*free, "It rains. <b>" + good));
  EXPECT_TRUE(accepts(*free, "Hello"));
  EXPECT_FALSE(accepts(*forced, "Hello"));
  EXPECT_TRUE(accepts(*forced, now + "\n" + good));
  EXPECT_FALSE(accepts(*single, now + good));
  EXPECT_FALSE(tool_call_grammar({}, {}));
  EXPECT_FALSE(tool_call_grammar(std::vector<Tool>{{"a", R"({"not": {}})"}}, {}));
}

TEST(ToolGrammar, KeepsWhatItCanOfToolsThatAreNotStrict) {
  struct Kept {
    const char* parameters;
    std::vector<const char*> good, bad;
  };
  const std::vector<Kept> cases = {
      {R"({"type": "object", "properties": {"v": {"type": "string", "pattern": "^[a-z]+$"}}, "required": ["v"]})",
       {R"({"v": "ab"})", R"({"v": "A"})"},
       {"{}", R"({"v": 1})"}},
      {R"({"type": "object", "properties": {"v": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}}})",
       {R"({"v": [1, 1]})"},
       {R"({"v": ["a"]})"}},
      {R"({"type": "object", "properties": {"v": {"type": "string", "format": "uri", "maxLength": 3}}})",
       {R"({"v": "abc"})"},
       {R"({"v": "abcd"})"}},
      {R"({"type": "object", "properties": {"v": {"type": "string", "format": "date", "maxLength": 99}}})",
       {R"({"v": "2026-01-31"})"},
       {R"({"v": "x"})"}},
      {R"({"type": "object", "properties": {"v": {"type": "number", "minimum": 0.5, "exclusiveMaximum": 2.5}}})",
       {R"({"v": 0.5})", R"({"v": 2.4})", R"({"v": 2.9})"},
       {R"({"v": -1})", R"({"v": 4})"}},
      {R"({"type": "object", "properties": {"v": {"type": "integer", "minimum": 1, "maximum": 1e300}}})",
       {R"({"v": 7})"},
       {R"({"v": 0})"}},
      {R"({"type": "object", "properties": {"v": {"type": "string", "maxLength": 100000}}})",
       {R"({"v": "a"})"},
       {R"({"v": 1})"}},
      {R"({"type": "object", "properties": {"v": {"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 2}]}}})",
       {R"({"v": "abc"})"},
       {R"({"v": 1})"}},
      {R"({"type": "object", "properties": {"v": {"allOf": [{"type": "string"}, {"maxLength": 2}]}}})",
       {R"({"v": "abc"})"},
       {R"({"v": 1})"}},
      {R"({"type": "object", "properties": {"v": {"type": "integer"}}, "anyOf": [{"required": ["v"]}]})",
       {R"({"v": 1})", "{}"},
       {R"({"v": "a"})", "1"}},
      {R"({"type": "object", "oneOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"const": {}}]})",
       {R"({"a": null})", "{}"},
       {R"({"a": 1})"}},
      {R"({"type": "object", "anyOf": [{"required": ["v"]}], "not": {}, "if": {}, "minProperties": 2})",
       {"{}", R"({"w": 1})"},
       {"1"}},
      {R"({"type": "object", "properties": {"v": {"$ref": "http://a/b"}, "w": {"$ref": "#/none"}, "x": {"$ref": "#a"}}})",
       {R"({"v": 1, "w": "a", "x": null})"},
       {R"({"v": })"}},
  };
  for (const Kept& c : cases) {
    Tool tool{.name = "f", .parameters = c.parameters, .strict = true};
    EXPECT_FALSE(tool_call_grammar(std::span(&tool, 1), {})) << c.parameters;
    tool.strict = false;
    const auto grammar = compiled(tool_call_grammar(std::span(&tool, 1), {.required = true}));
    const auto call = [](const char* arguments) {
      return fmt::format(R"(<tool_call>{{"name": "f", "arguments": {}}}</tool_call>)", arguments);
    };
    for (const char* good : c.good)
      EXPECT_TRUE(accepts(*grammar, call(good))) << c.parameters << good;
    for (const char* bad : c.bad) EXPECT_FALSE(accepts(*grammar, call(bad))) << c.parameters << bad;
  }
  // What is no schema at all is refused in any case.
  for (const char* wrong : {"[]", "{\"type\": \"file\"}", "{", R"({"properties": 1})"}) {
    const Tool tool{.name = "f", .parameters = wrong, .strict = false};
    EXPECT_FALSE(tool_call_grammar(std::span(&tool, 1), {})) << wrong;
  }
}

TEST(ToolGrammar, HoldsAnswersWithoutCallsToASchema) {
  const std::vector<Tool> tools = {{"now", ""}};
  const auto grammar = compiled(tool_call_grammar(
      tools, {.answer = R"({"type": "object", "properties": {"a": {"type": "integer"}}})"}));
  const std::string call = R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)";
  EXPECT_TRUE(accepts(*grammar, call));
  EXPECT_TRUE(accepts(*grammar, call + "\n" + call));
  EXPECT_TRUE(accepts(*grammar, R"({"a": 1})"));
  EXPECT_FALSE(accepts(*grammar, R"({"a": "b"})"));
  EXPECT_FALSE(accepts(*grammar, "It rains."));
  EXPECT_FALSE(accepts(*grammar, R"({"a": 1})" + call));
  EXPECT_FALSE(tool_call_grammar(tools, {.answer = R"({"not": {}})"}));
}

TEST(ChoiceGrammar, HasTheTextsAndNoOther) {
  const std::vector<std::string> texts = {"yes", "no", "a \"b\" \\ c", "line\nbreak\t", "\u00e9"};
  const auto grammar = compiled(choice_grammar(texts));
  for (const std::string& text : texts) EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const char* other : {"", "y", "yesno", "No", "line", "a \"b\""}) {
    EXPECT_FALSE(accepts(*grammar, other)) << other;
  }
  EXPECT_FALSE(choice_grammar({}));
  EXPECT_FALSE(choice_grammar(std::vector<std::string>{"a", ""}));
}

// A place that moves to and fro gives what a fresh one gives.
TEST(GrammarWalk, GoesBackAndAlongOtherPaths) {
  const auto grammar = compiled(json_schema_grammar(R"({"type": "object"})"));
  const auto moving = grammar->walk();
  const std::string text = R"({"a": [1, {"b": "c"}], "d": null})";
  SplitMix64 rng(3);
  for (int i = 0; i < 400; ++i) {
    std::vector<Token> outputs = tokens_of(text.substr(0, rng.below(text.size() + 1)));
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
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_EQ(std::isfinite(logits[i]), i == kEnd);
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
    if (i % 10 == 0) static_cast<void>(compiler().compile(*ebnf));
  }
  EXPECT_GT(kept, 50);
}

}  // namespace
}  // namespace forerun
