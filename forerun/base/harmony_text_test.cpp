#include "forerun/base/harmony_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/mutate.h"

namespace forerun {
namespace {

struct Read {
  std::string analysis, content;
  std::size_t end = 0;
  bool operator==(const Read&) const = default;
};

// In pieces of so many bytes, the first of `first`.
Read read_in_pieces(std::string_view text, std::size_t first, std::size_t size) {
  HarmonyText reader;
  Read out;
  const auto add = [&](const HarmonyParts& parts) {
    out.analysis += parts.analysis;
    out.content += parts.content;
  };
  for (std::size_t at = 0, n = first; at < text.size(); at += n, n = size) {
    n = std::min(n, text.size() - at);
    add(reader.push(text.substr(at, n)));
  }
  add(reader.finish());
  out.content = spelled_calls(out.content);
  out.end = reader.analysis_end();
  return out;
}

// By tokens: the tags in brackets are such, each other byte is a token.
Read read_by_token(std::string_view text, const HarmonyOptions& options) {
  HarmonyText reader(options);
  Read out;
  const auto add = [&](const HarmonyParts& parts) {
    out.analysis += parts.analysis;
    out.content += parts.content;
  };
  while (!text.empty()) {
    std::size_t size = 1;
    for (const std::string_view tag : HarmonyText::tags()) {
      if (text.substr(1).starts_with(tag) && text[0] == '[') size = tag.size() + 2;
    }
    const std::string_view piece = size == 1 ? text.substr(0, 1) : text.substr(1, size - 2);
    add(reader.push(piece, piece));
    text.remove_prefix(size);
  }
  add(reader.finish());
  out.content = spelled_calls(out.content);
  out.end = reader.analysis_end();
  return out;
}

// Cut in two at all places, and into bytes: the parts are the same.
void expect_parts(std::string_view text, const std::string& analysis, const std::string& content) {
  SCOPED_TRACE(text);
  const Read whole = read_in_pieces(text, text.size(), text.size());
  EXPECT_EQ(whole.analysis, analysis);
  EXPECT_EQ(whole.content, content);
  EXPECT_EQ(whole.end == 0, analysis.empty());
  EXPECT_EQ(whole.end == SIZE_MAX, !analysis.empty() && content.empty());
  for (std::size_t cut = 1; cut <= text.size(); ++cut) {
    EXPECT_EQ(read_in_pieces(text, cut, text.size()), whole) << "cut at " << cut;
  }
  EXPECT_EQ(read_in_pieces(text, 1, 1), whole) << "by bytes";
}

const std::string kTwo = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";

TEST(HarmonyText, AnalysisIsApartFromTheRest) {
  const std::string final = "<|channel|>final<|message|>";
  expect_parts(kTwo + final + "Yes <b>.", "Hm.", "Yes <b>.");
  EXPECT_EQ(read_in_pieces(kTwo + final + "Yes", 9, 9).end, (kTwo + final).size());
  expect_parts(final + "Yes<|return|>", "", "Yes");
  expect_parts("<|channel|>analysis<|message|>Hm</think>", "Hm</think>", "");
  expect_parts(
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis"
      "<|message|>b<|end|><|start|>assistant" +
          final + "c",
      "a\n\nb", "c");
  // What comes before a call is for the user; analysis behind it is left out.
  expect_parts("<|channel|>commentary<|message|>First.<|end|><|start|>assistant" + final +
                   "Second.<|end|><|start|>assistant<|channel|>analysis<|message|>x",
               "", "First.\n\nSecond.");
  expect_parts("<|channel|>analysis<|message|>a<|start|>assistant" + final + "b", "a", "b");
  // Empty messages leave no lines.
  expect_parts(kTwo + "<|channel|>analysis<|message|><|end|><|start|>assistant" + final +
                   "b<|end|><|start|>assistant" + final + "<|end|><|start|>assistant" + final,
               "Hm.", "b");
  expect_parts(kTwo + final + "a<|end|> more <|st", "Hm.", "a");
}

TEST(HarmonyText, CallsOfFunctions) {
  const std::string call =
      R"(<tool_call>{"name": "weather", "arguments": {"at": "<|x|>"}}</tool_call>)";
  const std::string arguments = "{\"at\": \"<|x|>\"}";
  expect_parts(kTwo + "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" +
                   arguments + "<|call|>",
               "Hm.", call);
  expect_parts(" to=functions.weather<|channel|>commentary json<|message|>" + arguments, "", call);
  expect_parts("<|channel|>commentary to=functions.now<|message|> <|call|>", "",
               R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)");
  expect_parts(
      "<|channel|>commentary<|message|>a<|end|><|start|>assistant to=functions.f<|channel|>"
      "commentary json<|message|>{}<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.g<|message|>[1]<|call|>",
      "",
      R"(a<tool_call>{"name": "f", "arguments": {}}</tool_call>)"
      R"(<tool_call>{"name": "g", "arguments": [1]}</tool_call>)");
  // Cut off: it stays open, and readers leave it out.
  expect_parts("<|channel|>commentary to=functions.a<|message|>{\"b\": ", "",
               R"(<tool_call>{"name": "a", "arguments": {"b": )");
  expect_parts("<|channel|>commentary to=functions.a\"\\<|message|>{}", "",
               R"(<tool_call>{"name": "a\"\\", "arguments": {}}</tool_call>)");
}

TEST(HarmonyText, OtherTextsStay) {
  for (const char* text : {"", " ", "Yes", "<", "<|other|>", " to=you", " to",
                           "Yes<|channel|>final<|message|>no", "<tool_call>{}</tool_call>"}) {
    expect_parts(text, "", text);
  }
  const std::string endless = "<|channel|>" + std::string(1100, 'a');
  expect_parts(endless, "", endless);
  expect_parts(endless + "<|message|>b", "", endless + "<|message|>b");
}

TEST(HarmonyText, WhatIsCutOffInAHeaderIsNoText) {
  for (const char* text : {"<|", "<|chan", "<|channel|>analysis", "<|start|>assistant<|chann",
                           " to=functions.", " to=functions.a<|channel|>comm"}) {
    expect_parts(text, "", "");
  }
  const Read begun =
      read_in_pieces("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|ch", 7, 7);
  EXPECT_EQ(begun.analysis, "a");
  EXPECT_EQ(begun.content, "");
}

TEST(HarmonyText, ArgumentsThatAreNoJsonAreShown) {
  expect_parts("<|channel|>commentary to=functions.a<|message|>{\"b\": 1,}<|call|>", "",
               "{\"b\": 1,}");
  expect_parts(
      "<|channel|>commentary to=functions.a<|message|>b()<|end|><|start|>assistant"
      "<|channel|>final<|message|>c",
      "", "b()c");
}

TEST(HarmonyText, WhereTagsAreTokensTextThatSpellsOneIsText) {
  const auto read = [](std::string_view text) { return read_by_token(text, {.by_token = true}); };
  const std::string final = "[<|channel|>]final[<|message|>]";
  const Read all =
      read("[<|channel|>]analysis[<|message|>]Say <|end|><|start|>.[<|end|>][<|start|>]assistant" +
           final + "It is <|end|>, <b>. <tool_call>{}</tool_call>[<|end|>] <|start|>");
  EXPECT_EQ(all.analysis, "Say <|end|><|start|>.");
  EXPECT_EQ(all.content, "It is <|end|>, <b>. <tool_call>{}</tool_call>");
  EXPECT_EQ(all.end, std::string_view("<|channel|>analysis<|message|>Say <|end|><|start|>.<|end|>"
                                      "<|start|>assistant<|channel|>final<|message|>")
                         .size());
  EXPECT_EQ(read("[<|channel|>]commentary to=functions.a[<|message|>]{\"b\": \"<|end|>\"}").content,
            R"(<tool_call>{"name": "a", "arguments": {"b": "<|end|>"}}</tool_call>)");
  EXPECT_EQ(read("[<|channel|>]commentary to=functions.<a>[<|message|>]{}").content,
            R"(<tool_call>{"name": "<a>", "arguments": {}}</tool_call>)");
  for (const char* text : {"<|channel|>final<|message|>a", "<|", "<|channel|>", "a[b]"}) {
    EXPECT_EQ(read(text).content, text);
  }
  EXPECT_EQ(read("a[<|end|>]").content, "a<|end|>");
}

TEST(HarmonyText, ATagsTextMayComeLater) {
  HarmonyText reader({.by_token = true});
  HarmonyParts out;
  const auto push = [&](std::string_view text, std::string_view token) {
    const HarmonyParts parts = reader.push(text, token);
    out.analysis += parts.analysis;
    out.content += parts.content;
  };
  push("", "<|channel|>");  // held back, as a stop string may begin so
  push("<|chan", "final");
  push("nel|>final", "x");
  push("<|message|>", "<|message|>");
  push("a<|en", "a");
  push("d|>", "d|>");
  push("", "<|end|>");
  push("b<|end|>c", "c");
  EXPECT_EQ(out.content, "a<|end|>b");
  push("", "<|start|>");
  push("<|st", "");
  EXPECT_EQ(reader.finish().content, "");
}

// Tokens in any order, whose text comes as they do, or later.
TEST(HarmonyText, IsTheSameHoweverLateTheTextComes) {
  const std::vector<std::string_view> pieces = {
      "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|message|>",
      "assistant", "analysis",    "final",       "x",       "commentary",    " to=functions.f",
      "{\"a\": ",  "1",           "}",           " ",       "<tool_call>",   "<"};
  testing::SplitMix64 rng{11};
  for (int i = 0; i < 4000; ++i) {
    SCOPED_TRACE(i);
    const HarmonyOptions options{.by_token = true, .whole = i % 2 == 1};
    HarmonyText at_once(options), late(options);
    HarmonyParts all, parts;
    const auto add = [](HarmonyParts& to, const HarmonyParts& more) {
      to.analysis += more.analysis;
      to.content += more.content;
    };
    std::string text, held;
    for (std::uint64_t n = rng.below(30); n > 0; --n) {
      const std::string_view piece = pieces[rng.below(pieces.size())];
      text += piece;
      held += piece;
      add(all, at_once.push(piece, piece));
      const std::size_t bytes = rng.below(held.size() + 1);
      add(parts, late.push(std::string_view(held).substr(0, bytes), piece));
      held.erase(0, bytes);
    }
    add(parts, late.push(held));
    add(all, at_once.finish());
    add(parts, late.finish());
    EXPECT_EQ(parts.analysis, all.analysis) << text;
    EXPECT_EQ(parts.content, all.content) << text;
    EXPECT_EQ(late.analysis_end(), at_once.analysis_end()) << text;
    EXPECT_EQ((all.analysis + all.content).find('\xFF'), std::string::npos);
    if (options.whole && !at_once.called()) {
      EXPECT_TRUE(text.starts_with(all.content)) << text;
    }
  }
}

TEST(HarmonyText, AsAWholeOnlyCallsAreToldApart) {
  const HarmonyOptions whole{.by_token = true, .whole = true};
  const std::string analysis = "<|channel|>analysis<|message|>Hm.<|end|>";
  const std::string marked = "[<|channel|>]analysis[<|message|>]Hm.[<|end|>]";
  const std::string call = "commentary to=functions.a [<|constrain|>]json[<|message|>]{\"b\": 1}";
  const Read both = read_by_token(marked + "[<|start|>]assistant[<|channel|>]" + call, whole);
  EXPECT_EQ(both.analysis, "");
  EXPECT_EQ(both.end, 0U);
  EXPECT_EQ(both.content,
            analysis + R"(<tool_call>{"name": "a", "arguments": {"b": 1}}</tool_call>)");
  for (const char* text :
       {"<|channel|>analysis<|message|>Hm.<|end|> x <|start|>assistant<|channel|>final<|message|>a",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|chan", "<|channel|>analysis",
        "a <|end|> b", ""}) {
    std::string tokens = text;
    for (const std::string_view tag : HarmonyText::tags()) {
      for (std::size_t at = 0; (at = tokens.find(tag, at)) != tokens.npos; at += tag.size() + 2) {
        tokens.replace(at, tag.size(), "[" + std::string(tag) + "]");
      }
    }
    EXPECT_EQ(read_by_token(tokens, whole), (Read{"", text, 0})) << text;
  }
}

TEST(HarmonyText, PartsOfAWholeAnswer) {
  const HarmonyParts both = harmony_parts(kTwo + "<|channel|>final<|message|>Yes");
  EXPECT_EQ(both.analysis, "Hm.");
  EXPECT_EQ(both.content, "Yes");
  EXPECT_EQ(harmony_parts("Plain.").content, "Plain.");
  EXPECT_EQ(harmony_parts("A <tool_call> tag.").content, "A <tool_call> tag.");
  EXPECT_EQ(harmony_parts("<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>"
                          "commentary to=functions.f<|message|>{}")
                .content,
            "a");
  const HarmonyParts open = harmony_parts("<|channel|>analysis<|message|>Hm");
  EXPECT_EQ(open.analysis, "Hm");
  EXPECT_EQ(open.content, "");
}

TEST(HarmonyText, IsToldByTheTemplate) {
  EXPECT_TRUE(HarmonyText::in_template("x<|start|>assistant<|channel|>final<|message|>"));
  EXPECT_FALSE(HarmonyText::in_template("<|im_start|>assistant\n<think>"));
  EXPECT_FALSE(HarmonyText::in_template("<|message|>"));
}

}  // namespace
}  // namespace forerun
