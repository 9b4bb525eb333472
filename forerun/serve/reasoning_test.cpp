#include "forerun/serve/reasoning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/serve/tool_calls.h"

namespace forerun::serve {
namespace {

struct Parts {
  std::string reasoning, content;
  std::size_t end = 0;
};

ReasoningStart start_of(bool inside) {
  return inside ? ReasoningStart::kInside : ReasoningStart::kBefore;
}

// Cut in two and in three at all places, and into bytes: the parts are the same.
void expect_parts(std::string_view text, bool inside, const Parts& wanted) {
  SCOPED_TRACE(text);
  const auto check = [&](std::initializer_list<std::size_t> cuts) {
    ReasoningReader reader(start_of(inside));
    Parts got;
    std::size_t from = 0;
    const auto take = [&] {
      got.reasoning += reader.take_reasoning();
      got.content += reader.take_content();
    };
    for (const std::size_t cut : cuts) {
      reader.push(text.substr(from, cut - from));
      take();
      from = cut;
    }
    reader.push(text.substr(from));
    take();
    reader.finish();
    take();
    EXPECT_EQ(got.reasoning, wanted.reasoning);
    EXPECT_EQ(got.content, wanted.content);
    EXPECT_EQ(reader.end(), wanted.end);
  };
  for (std::size_t a = 0; a <= text.size(); ++a) {
    for (std::size_t b = a; b <= text.size(); ++b) check({a, b});
  }
  ReasoningReader bytes(start_of(inside));
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push(text.substr(i, 1));
  bytes.finish();
  EXPECT_EQ(bytes.take_reasoning(), wanted.reasoning);
  EXPECT_EQ(bytes.take_content(), wanted.content);
  EXPECT_EQ(bytes.end(), wanted.end);
}

TEST(Reasoning, IsBetweenTheTagsWithoutTheSpaceAroundIt) {
  expect_parts("<think>\nOne  two.\n\n</think>\n\nYes \n", false, {"One  two.", "Yes \n", 27});
  expect_parts(" \n<think>a</think>b", false, {"a", "b", 18});
  expect_parts("One\n</think>\n\nYes", true, {"One", "Yes", 12});
  expect_parts("\n<think>\nOne</think>Yes", true, {"One", "Yes", 20});  // what the prompt began
  expect_parts("<think>\xc3\xa9\xe2\x82\xac</think>\xf0\x9f\x98\x80", false,
               {"\xc3\xa9\xe2\x82\xac", "\xf0\x9f\x98\x80", 20});
}

// A text whose tags are tokens, in pieces: the tags, and up to `size` bytes.
void push_tokens(ReasoningReader& reader, std::string_view text, std::size_t size) {
  while (!text.empty()) {
    std::size_t n = std::min(text.size(), size);
    for (const std::string_view tag : HarmonyText::tags()) {
      const std::size_t at = text.find(tag);
      n = at == 0 ? tag.size() : std::min(n, at);
    }
    reader.push(text.substr(0, n), text.substr(0, n));
    text.remove_prefix(n);
  }
}

TEST(Reasoning, OfHarmonyIsTheAnalysis) {
  constexpr std::string_view kAnalysis = "<|channel|>analysis<|message|>One.<|end|>";
  constexpr std::string_view kFinal = "<|start|>assistant<|channel|>final<|message|>";
  const std::string text = std::string(kAnalysis) + std::string(kFinal) + "Yes";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    ReasoningReader reader(ReasoningStart::kChannels);
    push_tokens(reader, text, size);
    reader.finish();
    EXPECT_EQ(reader.take_reasoning(), "One.");
    EXPECT_EQ(reader.take_content(), "Yes");
    EXPECT_EQ(reader.end(), kAnalysis.size() + kFinal.size()) << size;
  }
  ReasoningReader plain(ReasoningStart::kChannels);
  plain.push("Yes");
  plain.finish();
  EXPECT_EQ(plain.take_content(), "Yes");
  EXPECT_EQ(plain.end(), 0U);
  ReasoningReader whole(ReasoningStart::kChannels, true);
  push_tokens(whole, text, 3);
  EXPECT_EQ(whole.take_content(), text);
  EXPECT_EQ(whole.take_reasoning(), "");
  EXPECT_EQ(whole.end(), 0U);
}

TEST(Reasoning, OfHarmonyComesBeforeItsCalls) {
  ReasoningReader reader(ReasoningStart::kChannels);
  push_tokens(reader,
              "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>commentary"
              " to=functions.f <|constrain|>json<|message|>{\"a\": 1}",
              5);
  reader.finish();
  EXPECT_EQ(reader.take_reasoning(), "One.");
  ToolCallReader calls(kHarmonyCall, kHarmonyCallEnd);
  calls.push(reader.take_content());
  calls.finish();
  EXPECT_EQ(calls.take_calls(),
            std::vector<std::string>{R"({"name": "f", "arguments": {"a": 1}})"});
  EXPECT_EQ(calls.take_content(), "");
}

TEST(Reasoning, MayBeEmptyOrAll) {
  expect_parts("<think>\n\n</think>\n\nYes", false, {"", "Yes", 17});
  expect_parts("</think>Yes", true, {"", "Yes", 8});
  expect_parts("<think>a</think>\n", false, {"a", "", 16});
  expect_parts("", true, {"", "", SIZE_MAX});
  expect_parts(" \n", true, {"", "", SIZE_MAX});
}

TEST(Reasoning, ThatIsNotClosedGoesOnToTheEnd) {
  expect_parts("<think>\na b \n", false, {"a b", "", SIZE_MAX});
  expect_parts("<think>a </thi", false, {"a </thi", "", SIZE_MAX});
  expect_parts("a </think ></thin<", true, {"a </think ></thin<", "", SIZE_MAX});
  expect_parts("<thi", true, {"<thi", "", SIZE_MAX});
}

TEST(Reasoning, EndsAtTheFirstTagThatClosesIt) {
  expect_parts("<think>a<think>b</think>c</think>d", false, {"a<think>b", "c</think>d", 24});
  expect_parts("<think>a</</think>b", false, {"a</", "b", 18});
}

TEST(Reasoning, IsNotWhatOnlyMentionsTheTags) {
  for (const char* text : {"", "Yes", "  Yes", "<thi", "<thinking>a</thinking>", "\n ",
                           "The tag <think>a</think> is one", "a</think>b", "<<think>a</think>"}) {
    expect_parts(text, false, {"", text, 0});
  }
}

TEST(Reasoning, FormatsHaveNames) {
  EXPECT_EQ(reasoning_format_from_name("auto"), ReasoningFormat::kAuto);
  EXPECT_EQ(reasoning_format_from_name("deepseek"), ReasoningFormat::kAuto);
  EXPECT_EQ(reasoning_format_from_name("none"), ReasoningFormat::kNone);
  EXPECT_EQ(reasoning_format_from_name("deepseek-legacy"), std::nullopt);
}

}  // namespace
}  // namespace forerun::serve
