#include "forerun/serve/tool_calls.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::serve {
namespace {

// In one piece and in pieces of one byte.
void expect_calls(std::string_view text, const std::vector<std::string>& calls,
                  const std::string& content, bool first = false) {
  ToolCallReader whole(first), bytes(first);
  whole.push(text);
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push(text.substr(i, 1));
  for (ToolCallReader* reader : {&whole, &bytes}) {
    reader->finish();
    EXPECT_EQ(reader->take_calls(), calls) << text;
    EXPECT_EQ(reader->take_content(), content) << text;
  }
}

TEST(ToolCalls, ATagInAStringEndsNoCall) {
  const std::string tag = R"({"name": "f", "arguments": {"x": "</tool_call>"}})";
  const std::string escaped =
      R"({"name": "f", "arguments": {"</tool_call>": "\\\"</tool_call>\\"}})";
  expect_calls("a <tool_call>" + tag + "</tool_call>\n<tool_call>" + escaped + "</tool_call>",
               {tag, escaped}, "a");
  EXPECT_EQ(call_json(tag, "1")["function"]["arguments"], R"({"x":"</tool_call>"})");
}

TEST(ToolCalls, ATextThatIsNoCallFromItsBeginningHoldsNone) {
  const std::string call = R"({"name": "f", "arguments": {}})";
  const std::string tagged = "<tool_call>" + call + "</tool_call>";
  for (const std::string& text :
       {R"({"a": ")" + tagged + R"("})", std::string(R"("<tool_call>")"), std::string("<tool"),
        std::string("  <toolx"), std::string(" "), std::string(), "5" + tagged}) {
    expect_calls(text, {}, text, true);
  }
  expect_calls(tagged, {call}, "", true);
  expect_calls(" \n" + tagged + "\n" + tagged, {call, call}, "", true);
}

TEST(ToolCalls, TextsAndCallsKeepTheirOrder) {
  const std::string one = R"({"name": "f", "arguments": 1})",
                    two = R"({"name": "f", "arguments": 2})";
  const std::string text =
      "a <tool_call>" + one + "</tool_call> b <tool_call>" + two + "</tool_call><tool_call>3";
  for (const std::size_t step : {text.size(), std::size_t{1}}) {
    ToolCallReader reader;
    std::vector<TextOrCall> all;
    const auto take = [&] {
      for (TextOrCall& part : reader.take()) {
        const bool goes_on = !part.call && !all.empty() && !all.back().call;
        goes_on ? void(all.back().text += part.text) : all.push_back(std::move(part));
      }
      EXPECT_FALSE(reader.waiting());
    };
    for (std::size_t i = 0; i < text.size(); i += step) {
      reader.push(text.substr(i, step));
      take();
    }
    reader.finish();
    take();
    ASSERT_EQ(all.size(), 4U);
    EXPECT_EQ(all[0].text + "|" + all[1].text + "|" + all[2].text + "|" + all[3].text,
              "a|" + one + "| b|" + two);
    EXPECT_TRUE(!all[0].call && all[1].call && !all[2].call && all[3].call);
  }
}

TEST(ToolCalls, ACallThatBreaksOffIsLeftOut) {
  expect_calls(R"(a <tool_call>{"x": "</tool_call>)", {}, "a");
  expect_calls(R"(a <tool_call>{"x": 1}</tool_)", {}, "a");
}

// A </think> in a string of a call ends reasoning that began before the call.
TEST(ToolCalls, WhatIsNoCallIsText) {
  const std::string call = R"({"name": "f", "arguments": {}})";
  for (const char* other : {"", "x", R"({"x": 1}<)", R"({"name": "f"})", R"({"arguments": {}})",
                            R"({"name": 1, "arguments": {}})", "[]", R"(["name", "arguments"])"}) {
    const std::string text = "<tool_call>" + std::string(other) + "</tool_call>";
    expect_calls(text, {}, text);
    expect_calls(text + " b<tool_call>" + call + "</tool_call>", {call}, text + " b");
  }
}

}  // namespace
}  // namespace forerun::serve
