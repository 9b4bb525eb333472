// Calls whose parameters have tags of their own.

#include "forerun/serve/native_calls.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/serve/tool_calls.h"

namespace forerun::serve {
namespace {

using nlohmann::ordered_json;

constexpr CallForm kForms[] = {CallForm::kParameters, CallForm::kKeysValues};

const std::vector<Tool>& tools() {
  static const std::vector<Tool> all = {
      {"f",
       R"({"type": "object", "properties": {"s": {"type": "string"}, "i": {"type": "integer", "maximum": 9},
           "b": {"type": "boolean"}, "l": {"type": "array"}, "n": {"type": ["string", "null"]},
           "u": {"anyOf": [{"type": "integer", "maximum": 9}, {"type": "string"}]}, "e": {"enum": ["1", 2]},
           "r": {"$ref": "#/$defs/t"}, "all": {"allOf": [{"type": "string"}, {"maxLength": 5}]}, "any": {}},
           "$defs": {"t": {"type": "string"}}})"},
      {"g", ""},
      {"more", R"({"additionalProperties": {"type": "string"}})"}};
  return all;
}

std::shared_ptr<const NativeCalls> calls_of(CallForm form) {
  return std::make_shared<const NativeCalls>(form, tools());
}

struct Written {
  std::string key, value;
};

std::string written(CallForm form, const std::string& name, const std::vector<Written>& values) {
  const bool qwen = form == CallForm::kParameters;
  std::string out = qwen ? "<tool_call>\n<function=" + name + ">\n" : "<tool_call>" + name + "\n";
  for (const auto& [key, value] : values) {
    out += qwen ? "<parameter=" + key + ">\n" + value + "\n</parameter>\n"
                : "<arg_key>" + key + "</arg_key>\n<arg_value>" + value + "</arg_value>\n";
  }
  return out + (qwen ? "</function>\n</tool_call>" : "</tool_call>");
}

struct Read {
  std::vector<TextOrCall> parts;

  std::string content() const {
    std::string out;
    for (const TextOrCall& part : parts) out += part.call ? "" : part.text;
    return out;
  }
  std::vector<std::string> calls() const {
    std::vector<std::string> out;
    for (const TextOrCall& part : parts) {
      if (part.call) out.push_back(part.text);
    }
    return out;
  }
};

// Of a text in pieces that end at these places.
Read read_cut(CallForm form, std::string_view text, const std::vector<std::size_t>& cuts,
              bool first = false) {
  ToolCallReader reader(first, calls_of(form));
  Read out;
  const auto take = [&] {
    for (TextOrCall& part : reader.take()) out.parts.push_back(std::move(part));
  };
  std::size_t from = 0;
  for (const std::size_t to : cuts) {
    reader.push(text.substr(from, to - from));
    take();
    from = to;
  }
  reader.push(text.substr(from));
  reader.finish();
  take();
  return out;
}

// The same whole, in bytes, and cut in two anywhere.
void expect_read(CallForm form, const std::string& text, const std::vector<std::string>& calls,
                 const std::string& content, bool first = false) {
  std::vector<std::size_t> bytes;
  for (std::size_t i = 1; i < text.size(); ++i) bytes.push_back(i);
  std::vector<std::vector<std::size_t>> all = {{}, bytes};
  for (const std::size_t i : bytes) all.push_back({i});
  for (const auto& cuts : all) {
    const Read read = read_cut(form, text, cuts, first);
    ASSERT_EQ(read.calls(), calls) << text;
    ASSERT_EQ(read.content(), content) << text;
  }
}

TEST(NativeCalls, AreReadAtEveryCut) {
  for (const CallForm form : kForms) {
    const std::string one = written(form, "f", {{"s", "a\n\nb"}, {"i", "3"}});
    const std::string call = R"({"name":"f","arguments":{"s":"a\n\nb","i":3}})";
    expect_read(form, one, {call}, "");
    expect_read(form, "Well.\n\n" + one + "\n" + one, {call, call}, "Well.");
    expect_read(form, one + " then " + written(form, "g", {}),
                {call, R"({"name":"g","arguments":{}})"}, " then");
    expect_read(form, "\n" + one, {call}, "", true);
    expect_read(form, "no " + one, {}, "no " + one, true);
    // Tags in strings.
    for (const std::string& text :
         {std::string("</tool_call>"), std::string("<tool_call>x</function>"),
          std::string("<parameter=s>"), std::string("<arg_key>s</arg_key>"), std::string("\"")}) {
      expect_read(
          form, one + written(form, "f", {{"s", text}, {"i", "4"}}),
          {call, ordered_json({{"name", "f"}, {"arguments", {{"s", text}, {"i", 4}}}}).dump()}, "");
    }
  }
  // Of JSON the tag that ends values too.
  expect_read(CallForm::kKeysValues,
              written(CallForm::kKeysValues, "f", {{"l", R"(["\"</arg_value>"])"}, {"i", "1"}}),
              {R"({"name":"f","arguments":{"l":["\"</arg_value>"],"i":1}})"}, "");
  // As GLM-4.7 writes it, and with a value in the line of its tags.
  expect_read(CallForm::kKeysValues,
              "<tool_call>f<arg_key>s</arg_key><arg_value> x </arg_value></tool_call>",
              {R"({"name":"f","arguments":{"s":" x "}})"}, "");
  expect_read(CallForm::kParameters,
              "<tool_call><function=f><parameter=s>x\n</parameter></function></tool_call>",
              {R"({"name":"f","arguments":{"s":"x"}})"}, "");
}

TEST(NativeCalls, ValuesHaveTheTypesOfTheirSchemas) {
  struct Value {
    const char *key, *text, *json;
  };
  for (const auto& [key, text, wanted] :
       std::initializer_list<Value>{{"s", "3", R"("3")"},
                                    {"s", "true", R"("true")"},
                                    {"s", "\"q\"", R"("\"q\"")"},
                                    {"s", "", R"("")"},
                                    {"s", "{\"a\": 1}", R"("{\"a\": 1}")"},
                                    {"i", "3", "3"},
                                    {"i", "x", R"("x")"},
                                    {"b", "false", "false"},
                                    {"l", R"([1, "a"])", R"([1,"a"])"},
                                    {"l", "[1", R"("[1")"},
                                    {"n", "null", "null"},
                                    {"n", "3", R"("3")"},
                                    {"n", "None", R"("None")"},
                                    {"u", "7", "7"},
                                    {"u", "12", R"("12")"},
                                    {"u", "x", R"("x")"},
                                    {"e", "1", R"("1")"},
                                    {"e", "2", "2"},
                                    {"r", "5", R"("5")"},
                                    {"all", "5", R"("5")"},
                                    {"any", "5", "5"},
                                    {"any", " 5", R"(" 5")"},
                                    {"any", "-12345678901234567890", R"("-12345678901234567890")"},
                                    {"any", "1.5", "1.5"},
                                    {"any", "a b", R"("a b")"},
                                    {"any", R"("5")", R"("\"5\"")"},
                                    {"any", R"({"b":1,"a":2})", R"({"b":1,"a":2})"},
                                    {"unknown", "[]", "[]"}}) {
    for (const CallForm form : kForms) {
      expect_read(form, written(form, "f", {{key, text}}),
                  {R"({"name":"f","arguments":{")" + std::string(key) + "\":" + wanted + "}}"}, "");
    }
  }
  expect_read(CallForm::kParameters, written(CallForm::kParameters, "f", {{"b", "True"}}),
              {R"({"name":"f","arguments":{"b":true}})"}, "");
  expect_read(CallForm::kKeysValues, written(CallForm::kKeysValues, "f", {{"b", "True"}}),
              {R"({"name":"f","arguments":{"b":"True"}})"}, "");
  for (const CallForm form : kForms) {
    expect_read(form, written(form, "g", {{"x", "1"}}), {R"({"name":"g","arguments":{"x":1}})"},
                "");
    expect_read(form, written(form, "more", {{"x", "1"}, {"x", "2"}}),
                {R"({"name":"more","arguments":{"x":"2"}})"}, "");
  }
}

TEST(NativeCalls, WhatIsNoneIsTextAndWhatBreaksOffIsLeftOut) {
  for (const CallForm form : kForms) {
    const std::string one = written(form, "g", {});
    for (const char* other :
         {"", "x", R"({"name": "g", "arguments": {}})", "\n<function=h>\n</function>\n",
          "<function=g><parameter=a>\nb\n</parameter>\nc</function>", "h\n", "g\nx\n",
          "g<arg_key>a</arg_key>x<arg_value>b</arg_value>", "<function=g></function>x"}) {
      const std::string text = "<tool_call>" + std::string(other) + "</tool_call>";
      expect_read(form, text, {}, text);
      expect_read(form, text + " b" + one, {R"({"name":"g","arguments":{}})"}, text + " b");
    }
    const std::string whole = "a " + written(form, "f", {{"s", "x"}, {"l", "[]"}});
    for (std::size_t n = 13; n < whole.size(); ++n) expect_read(form, whole.substr(0, n), {}, "a");
  }
}

}  // namespace
}  // namespace forerun::serve
