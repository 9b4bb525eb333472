// Grammars of calls whose parameters have tags of their own.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forerun/formats/grammar/json_grammar.h"
#include "tests/support/byte_grammar.h"

namespace forerun {
namespace {

using testing::accepts;
using testing::compiled;
using Arguments = std::vector<std::pair<std::string, std::string>>;

constexpr CallForm kForms[] = {CallForm::kParameters, CallForm::kKeysValues};

std::string call_of(CallForm form, const std::string& name, const Arguments& arguments) {
  const bool qwen = form == CallForm::kParameters;
  std::string out =
      fmt::format(fmt::runtime(qwen ? "<tool_call>\n<function={}>\n" : "<tool_call>{}\n"), name);
  for (const auto& [key, value] : arguments) {
    out += fmt::format(fmt::runtime(qwen ? "<parameter={}>\n{}\n</parameter>\n"
                                         : "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n"),
                       key, value);
  }
  return out + (qwen ? "</function>\n</tool_call>" : "</tool_call>");
}

std::shared_ptr<const TokenGrammar> grammar_of(std::span<const Tool> tools, ToolCalls allowed,
                                               CallForm form) {
  allowed.form = form;
  return compiled(tool_call_grammar(tools, allowed));
}

std::string refused(CallForm form, const Tool& tool) {
  const auto grammar = tool_call_grammar(std::span(&tool, 1), {.form = form});
  return grammar ? "" : grammar.error().message;
}

TEST(CallFormGrammar, HoldsCallsToTheirParameters) {
  const std::vector<Tool> tools = {
      {"get_weather",
       R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]})"},
      {"now", ""},
      {"none", R"({"type": "object", "properties": {}, "additionalProperties": false})"},
      {"counts", R"({"type": "object", "additionalProperties": {"type": "integer"}})"}};
  for (const CallForm form : kForms) {
    const auto call = [&](const std::string& name, const Arguments& arguments = {}) {
      return call_of(form, name, arguments);
    };
    const auto free = grammar_of(tools, {}, form);
    const auto forced = grammar_of(tools, {.required = true}, form);
    const auto single = grammar_of(tools, {.required = true, .several = false}, form);
    const auto held =
        grammar_of(tools, {.answer = R"({"type": "object", "properties": {"a": {}}})"}, form);
    const std::string oslo = call("get_weather", {{"city", "Oslo"}});
    for (const auto& grammar : {free, forced, single, held}) {
      EXPECT_TRUE(accepts(*grammar, oslo));
      EXPECT_TRUE(accepts(*grammar, call("get_weather", {{"city", ""}, {"days", "-3"}})));
      EXPECT_TRUE(accepts(*grammar, call("get_weather", {{"city", "1 < 2 & \"</x>\"\n\n"}})));
      EXPECT_TRUE(accepts(*grammar, call("get_weather", {{"city", "</tool_call></function>"}})));
      EXPECT_TRUE(accepts(*grammar, call("now")));
      EXPECT_TRUE(accepts(*grammar, call("now", {{"a key", "x"}, {"y", "[1]"}})));
      EXPECT_TRUE(accepts(*grammar, call("none")));
      EXPECT_TRUE(accepts(*grammar, call("counts", {{"a", "1"}, {"b", "22"}})));
      for (const std::string& wrong :
           {call("get_weather"), call("get_weather", {{"days", "3"}}), call("other"),
            call("get_weather", {{"city", "a"}, {"days", "x"}}),
            call("get_weather", {{"days", "3"}, {"city", "a"}}),
            call("get_weather", {{"city", "a"}, {"more", "x"}}), call("none", {{"a", "1"}}),
            call("counts", {{"a", "x"}}), call("now", {{"a<b", "x"}}),
            std::string(R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)"),
            oslo.substr(0, oslo.size() - 12)}) {
        EXPECT_FALSE(accepts(*grammar, wrong)) << wrong;
      }
    }
    EXPECT_TRUE(accepts(*free, "It rains. <b>" + oslo + " and\n" + oslo));
    EXPECT_TRUE(accepts(*free, "Hello <tool"));
    EXPECT_FALSE(accepts(*forced, "Hello"));
    EXPECT_TRUE(accepts(*forced, oslo + "\n" + call("now") + oslo));
    EXPECT_FALSE(accepts(*single, oslo + "\n" + oslo));
    EXPECT_TRUE(accepts(*held, R"({"a": 1})"));
    EXPECT_FALSE(accepts(*held, "It rains."));
    EXPECT_FALSE(tool_call_grammar({}, {.form = form}));
    const auto thought =
        grammar_of(tools, {.required = true, .reasoning = ReasoningStart::kInside}, form);
    EXPECT_TRUE(accepts(*thought, "hm <tool_call></think>\n\n" + oslo));
    EXPECT_FALSE(accepts(*thought, oslo));
  }
  const auto qwen = grammar_of(tools, {.required = true}, CallForm::kParameters);
  EXPECT_FALSE(accepts(*qwen, call_of(CallForm::kParameters, "now", {{"a", "x\n</parameter>"}})));
  const auto glm = grammar_of(tools, {.required = true}, CallForm::kKeysValues);
  EXPECT_FALSE(accepts(*glm, call_of(CallForm::kKeysValues, "now", {{"a", "x</arg_value>"}})));
  EXPECT_TRUE(
      accepts(*glm, "<tool_call>now<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>"));
}

struct ValueCase {
  const char* schema;  // of the parameter v, which is required
  std::vector<const char*> good, bad;
};

void expect_kept(const ValueCase& c, bool strict) {
  const Tool tool{.name = "f",
                  .parameters = fmt::format(R"({{"type": "object", "properties": {{"v": {}}}, )"
                                            R"("required": ["v"], "additionalProperties": false, )"
                                            R"("$defs": {{"t": {{"type": "string"}}, )"
                                            R"("o": {{"type": "object"}}}}}})",
                                            c.schema),
                  .strict = strict};
  for (const CallForm form : kForms) {
    const auto grammar = grammar_of(std::span(&tool, 1), {.required = true}, form);
    for (const char* good : c.good)
      EXPECT_TRUE(accepts(*grammar, call_of(form, "f", {{"v", good}}))) << c.schema << good;
    for (const char* bad : c.bad)
      EXPECT_FALSE(accepts(*grammar, call_of(form, "f", {{"v", bad}}))) << c.schema << bad;
  }
}

TEST(CallFormGrammar, StringsAreWrittenAsTheyAreAndOthersAsJson) {
  const std::vector<ValueCase> cases = {
      {R"({"type": "string", "maxLength": 3})", {"", "abc", "a\nb"}, {"abcd", "<"}},
      {R"({"type": "string", "minLength": 2})", {"ab", "abcd", "ab<c>"}, {"", "a"}},
      {R"({"type": "string", "pattern": "^[a-c]+$"})", {"abc"}, {"", "d", "\"a\""}},
      {R"({"type": "string", "pattern": "^.x$"})", {"ax"}, {"<x"}},
      {R"({"type": "string", "format": "date"})", {"2026-01-31"}, {"x", "\"2026-01-31\""}},
      {R"({"type": "string", "maxLength": 0})", {""}, {"a"}},
      {R"({"enum": ["red", "a b", 3]})", {"red", "a b", "3"}, {"\"red\"", "blue", "4"}},
      {R"({"const": "x"})", {"x"}, {"y"}},
      {R"({"type": "integer", "minimum": 1, "maximum": 9})", {"7"}, {"0", "x", "\"7\""}},
      {R"({"type": "array", "items": {"type": "string"}})",
       {R"(["a"])", "[]"},
       {"a", "[a]", "[1]"}},
      {R"({"type": "object", "properties": {"s": {"type": "string"}, "b": {"type": "boolean"}}, "required": ["s"]})",
       {R"({"s": "x"})", R"({"s": "x", "b": true})"},
       {"{}", R"({"s": x})", R"({"s": "x", "b": True})"}},
      {R"({"type": ["string", "null"]})", {"null", "x", "2026-01-31", "{"}, {}},
      {R"({"anyOf": [{"type": "integer"}, {"type": "null"}]})", {"5", "null"}, {"x", "nil"}},
      {R"({"$ref": "#/$defs/t"})", {"x", "\"x\""}, {}},
      {R"({"$ref": "#/$defs/o"})", {"{}"}, {"x"}},
      {"true", {"x", "{\"a\": 1}", "5"}, {}},
  };
  for (const ValueCase& c : cases) {
    expect_kept(c, true);
    expect_kept(c, false);
  }
  // What a template of Qwen writes of these values in earlier calls.
  const Tool tool{"f", R"({"properties": {"b": {"type": ["boolean", "null"]}}})"};
  const auto with = [&](CallForm form, const char* value) {
    return accepts(*grammar_of(std::span(&tool, 1), {}, form), call_of(form, "f", {{"b", value}}));
  };
  for (const char* value : {"True", "False", "None"}) {
    EXPECT_TRUE(with(CallForm::kParameters, value));
    EXPECT_FALSE(with(CallForm::kKeysValues, value));
  }
  EXPECT_TRUE(with(CallForm::kKeysValues, "true") && with(CallForm::kParameters, "null"));
}

TEST(CallFormGrammar, KeepsWhatItCanOfToolsThatAreNotStrict) {
  const std::vector<ValueCase> cases = {
      {R"({"type": "string", "pattern": "(?=a)b"})", {"x"}, {}},
      {R"({"type": "string", "pattern": "^<$"})", {"x"}, {}},
      {R"({"type": "string", "format": "uri"})", {"http://a"}, {}},
      {R"({"not": {}})", {"x", "5"}, {}},
      {R"({"type": "any"})", {"x"}, {}},
      {R"({"type": ["string", "object"]})", {"x", "{\"a\": 1}"}, {}},
      {R"({"anyOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/o"}]})", {"x", "{}"}, {}},
      {R"({"type": "array", "uniqueItems": true})", {"[1, 1]"}, {"x"}},
  };
  for (const ValueCase& c : cases) {
    expect_kept(c, false);
    const Tool tool{"f", fmt::format(R"({{"properties": {{"v": {}}}, "$defs": {{"t": {{"type": )"
                                     R"("string"}}, "o": {{"type": "object"}}}}}})",
                                     c.schema)};
    for (const CallForm form : kForms) EXPECT_NE(refused(form, tool), "") << c.schema;
  }
  struct Objects {
    const char* parameters;
    Arguments good, bad;
  };
  const std::vector<Objects> objects = {
      {R"({"properties": {"a": {"type": "integer"}, "b<c": {}}})", {{"a", "1"}}, {{"b<c", "1"}}},
      {R"({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["a"]}]})",
       {{"a", "1"}},
       {{"a", "x"}}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}}, "patternProperties": {"^x": {}}})",
       {{"a", "x"}, {"xy", "2"}},
       {{"a<", "1"}}},
      {R"({"$ref": "http://a"})", {{"a", "1"}}, {{"a<", "1"}}},
      {R"({"type": "object", "properties": 1})", {{"a", "1"}}, {{"a<", "1"}}},
      {R"({"not": {}})", {{"a", "1"}}, {{"a<", "1"}}},
      {R"({"$ref": "#/$defs/p", "$defs": {"p": {"type": "object", "properties": {"a": {"type": "null"}}}}})",
       {{"a", "null"}},
       {{"a", "1"}}},
  };
  for (const Objects& c : objects) {
    const Tool tool{.name = "f", .parameters = c.parameters, .strict = false};
    for (const CallForm form : kForms) {
      const auto grammar = grammar_of(std::span(&tool, 1), {.required = true}, form);
      EXPECT_TRUE(accepts(*grammar, call_of(form, "f", c.good))) << c.parameters;
      EXPECT_FALSE(accepts(*grammar, call_of(form, "f", c.bad))) << c.parameters;
    }
  }
}

TEST(CallFormGrammar, RefusesByName) {
  const auto expect = [](const Tool& tool, const char* says) {
    for (const CallForm form : kForms)
      EXPECT_NE(refused(form, tool).find(says), std::string::npos) << refused(form, tool);
  };
  expect({"a b", ""}, "the tool 'a b' has a space");
  expect({"f", R"({"properties": {"a>": {}}})"}, "'#/properties/a>' has a name");
  expect({"f", R"({"properties": {"a": {"type": ["string", "object"]}}})"}, "do not tell apart");
  expect({"f", R"({"anyOf": [{"type": "object"}]})"}, "'anyOf'");
  expect({"f", R"({"type": "array"})"}, "of type object");
  expect({"f", R"({"type": "object", "minProperties": 1})"}, "minProperties");
  expect({"f", R"({"required": ["a"], "properties": {}, "additionalProperties": false})"}, "a");
  expect({"f", R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})"}, "no value that ends");
  expect({"f", R"({"$ref": "#"})"}, "too deep");
  expect({"f", R"({"allOf": [{}, {}]})"}, "allOf");
  expect({"f", "5", false}, "must be an object or true");
  EXPECT_NE(
      refused(CallForm::kKeysValues, {"f", R"({"properties": {"a": {"const": "</arg_value>"}}})"}),
      "");
}

}  // namespace
}  // namespace forerun
