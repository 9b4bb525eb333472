#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "forerun/formats/grammar/json_grammar.h"
#include "tests/support/byte_grammar.h"

namespace forerun {
namespace {

using testing::accepts;
using testing::compiled;

TEST(ToolGrammar, HoldsCallsToTheirParameters) {
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
      {R"({"type": "object", "properties": {"v": {"type": "string", "pattern": "^(?=a)b"}}, "required": ["v"]})",
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
       {R"({"v": "ab"})"},
       {R"({"v": 1})", R"({"v": "abc"})"}},
      {R"({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "null"}}, "required": ["b"]},
                     {"$ref": "#/$defs/c"}], "$defs": {"c": {"properties": {"c": {"enum": [7]}}}}})",
       {R"({"a": 1, "b": null, "c": 7})", R"({"b": null})"},
       {R"({"a": 1})", R"({"a": "x", "b": null})", R"({"b": null, "c": 8})"}},
      {R"({"properties": {"mode": {"type": "string"}}, "oneOf": [{"properties": {"x": {"type": "integer"}}, "required": ["x"]}, {"required": ["y"]}]})",
       {R"({"mode": "a", "x": 1})", R"({"y": 2})"},
       {"1", "[]"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}}, "patternProperties": {"^x": {}}})",
       {R"({"a": 1, "xy": 2})"},
       {"1"}},
      {R"({"not": {}})", {"{}", R"({"a": 1})"}, {"1", "[]", "null"}},
      {R"({"anyOf": [{"required": ["v"]}]})", {R"({"v": 1})"}, {"1", "[]"}},
      {R"({"type": "string", "pattern": "(?=a)b"})", {R"({"v": 1})"}, {R"("a")"}},
      {R"({"type": "object", "properties": {"v": {"type": "string", "pattern": "a|bc", "minLength": 2}}})",
       {R"({"v": "xbc"})", R"({"v": "a"})"},
       {R"({"v": "b"})"}},
      {R"({"$ref": "http://a"})", {"{}"}, {"[]"}},
      {R"({"type": "object", "properties": {"a": {"type": "any"}, "b": {"items": [{"type": "integer"}], "type": "array"},
           "c": {"enum": [1e300]}, "d": null}})",
       {R"({"a": 1, "b": [2], "c": 3, "d": "e"})"},
       {"1"}},
      {R"({"type": "object", "properties": 1})", {R"({"a": 1})"}, {"1"}},
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
  for (const char* wrong : {"[]", "{", "5", "null"}) {
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
  EXPECT_FALSE(choice_grammar(std::vector<std::string>{std::string(8193, 'a')}));
}

}  // namespace
}  // namespace forerun
