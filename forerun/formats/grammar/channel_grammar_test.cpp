// Grammars of answers in OpenAI's harmony format, over a vocabulary that has its tags.

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/base/harmony_text.h"
#include "forerun/formats/grammar/json_grammar.h"
#include "forerun/formats/grammar/regex_grammar.h"
#include "tests/support/byte_grammar.h"

namespace forerun {
namespace {

const Tokenizer& channel_tokenizer() {
  static const Tokenizer made =
      testing::make_byte_tokenizer({HarmonyText::tags().begin(), HarmonyText::tags().end()});
  return made;
}

std::shared_ptr<const TokenGrammar> channel_grammar(const Result<std::string>& ebnf) {
  static const GrammarCompiler compiler(channel_tokenizer(), testing::kPadded,
                                        {testing::kGrammarEnd});
  return testing::compiled(ebnf, compiler);
}

// Tags in brackets are tokens, all else is bytes.
bool takes(const TokenGrammar& grammar, std::string_view text) {
  std::vector<Token> tokens;
  while (!text.empty()) {
    std::size_t size = 1;
    for (const std::string_view tag : HarmonyText::tags()) {
      if (text[0] != '[' || !text.substr(1).starts_with(tag)) continue;
      tokens.push_back(*channel_tokenizer().token(tag));
      size = tag.size() + 2;
    }
    if (size == 1) tokens.push_back(static_cast<unsigned char>(text[0]));
    text.remove_prefix(size);
  }
  return testing::accepts(grammar, tokens);
}

const std::string kFinal = "[<|channel|>]final[<|message|>]";
const std::string kNext = "[<|end|>][<|start|>]assistant";
const std::string kAnalysis = "[<|channel|>]analysis[<|message|>]a <|end|> <|chan 5" + kNext;

TEST(ChannelGrammar, TheFinalMessageHasTheForm) {
  const auto form =
      channel_grammar(json_schema_grammar(R"({"type": "integer"})", ReasoningStart::kChannels));
  const std::string json = "[<|channel|>]final [<|constrain|>]json[<|message|>]";
  for (const std::string& good :
       std::vector<std::string>{std::string("5"), kFinal + "5", kAnalysis + kFinal + "5",
                                json + "5", kAnalysis + kAnalysis + json + "5"}) {
    EXPECT_TRUE(takes(*form, good)) << good;
  }
  for (const std::string& bad : std::vector<std::string>{
           std::string("a"), kFinal, kFinal + "a", kAnalysis, kAnalysis + "5",
           kAnalysis + kFinal + "a", "<think>a</think>5" + kFinal,
           kFinal + "5" + kNext + kFinal + "5",
           kAnalysis + "[<|channel|>]commentary[<|message|>]a" + kNext + kFinal + "5",
           "<|channel|>final<|message|>5", kFinal + "[<|end|>]5",
           kAnalysis + " to=functions.f[<|channel|>]commentary[<|message|>]{}"}) {
    EXPECT_FALSE(takes(*form, bad)) << bad;
  }
}

TEST(ChannelGrammar, NoFormHasTagsInItsTexts) {
  const auto json = channel_grammar(json_schema_grammar("{}", ReasoningStart::kChannels));
  EXPECT_TRUE(takes(*json, kFinal + "\"<|end|>\""));
  EXPECT_FALSE(takes(*json, kFinal + "\"[<|end|>]\""));
  const auto regex = channel_grammar(regex_grammar("(.|[^a]b){1,9}", ReasoningStart::kChannels));
  EXPECT_TRUE(takes(*regex, kFinal + "<|end|>"));
  EXPECT_FALSE(takes(*regex, kFinal + "[<|end|>]"));
  EXPECT_FALSE(takes(*regex, kFinal + "\x01"));
  EXPECT_FALSE(regex_grammar("a\\x01", ReasoningStart::kChannels));
  EXPECT_TRUE(regex_grammar("a\\x01"));
  const std::vector<std::string> texts = {"\x01<|end|>"};
  EXPECT_FALSE(choice_grammar(texts, ReasoningStart::kChannels));
  EXPECT_TRUE(choice_grammar(texts));
}

const std::vector<Tool> kTools = {
    {"weather.now",
     R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})"},
    {"now", ""}};

// Calls in the ways that models write.
std::vector<std::string> calls(const std::string& name, const std::string& arguments) {
  std::vector<std::string> out;
  for (const char* type : {"", " json", " [<|constrain|>]json", "[<|constrain|>] json"}) {
    out.push_back(" to=functions." + name + "[<|channel|>]commentary" + type + "[<|message|>]" +
                  arguments);
    for (const char* channel : {"commentary", "analysis"}) {
      out.push_back("[<|channel|>]" + std::string(channel) + " to=functions." + name + type +
                    "[<|message|>]" + arguments);
    }
  }
  return out;
}

TEST(ChannelGrammar, CallsHaveTheirParameters) {
  const ReasoningStart in = ReasoningStart::kChannels;
  const auto free = channel_grammar(tool_call_grammar(kTools, {.reasoning = in}));
  const auto forced =
      channel_grammar(tool_call_grammar(kTools, {.required = true, .reasoning = in}));
  const auto beside = channel_grammar(
      tool_call_grammar(kTools, {.answer = R"({"type": "integer"})", .reasoning = in}));
  for (const auto& grammar : {free, forced, beside}) {
    for (const std::string& before :
         std::vector<std::string>{std::string(), kAnalysis, kAnalysis + kAnalysis}) {
      const auto check = [&](const char* name, const char* arguments, bool good) {
        for (const std::string& call : calls(name, arguments)) {
          EXPECT_EQ(takes(*grammar, before + call), good) << before << call;
        }
      };
      check("weather.now", R"({"city": "<|end|> }"})", true);
      check("now", R"({"x": 1})", true);
      check("now", "\n{}", true);
      check("weather.now", "{}", false);
      check("weather.now", R"({"city": "[<|end|>]"})", false);
      check("other", "{}", false);
      check("no", "{}", false);
      check("now", "{} ", false);
      check("now", "{}[<|end|>][<|start|>]assistant", false);
      check("now", "", false);
    }
    EXPECT_FALSE(takes(*grammar, "[<|channel|>]commentary to=python code[<|message|>]a"));
    EXPECT_FALSE(takes(
        *grammar, "[<|channel|>]commentary[<|constrain|>]json to=functions.now[<|message|>]{"));
    EXPECT_FALSE(takes(*grammar, "[<|channel|>]final to=functions.now[<|message|>]{"));
    EXPECT_FALSE(takes(*grammar, "[<|channel|>]"));
    EXPECT_FALSE(takes(*grammar, kAnalysis));
  }
  const std::string call = calls("now", "{}").front();
  const std::string preamble = "[<|channel|>]commentary[<|message|>]I look." + kNext;
  EXPECT_TRUE(takes(*forced, kAnalysis + preamble + call));
  for (const std::string& none :
       std::vector<std::string>{std::string(), std::string("a"), kFinal, kFinal + "5",
                                kAnalysis + kFinal + "a", std::string("5")}) {
    EXPECT_FALSE(takes(*forced, none)) << none;
  }
  for (const std::string& answer :
       std::vector<std::string>{std::string("5"), kFinal + "5", kAnalysis + kFinal + "5"}) {
    EXPECT_TRUE(takes(*beside, answer)) << answer;
    EXPECT_FALSE(takes(*beside, answer + "a")) << answer;
  }
}

TEST(ChannelGrammar, OtherAnswersAreFreeBesideCalls) {
  const auto free =
      channel_grammar(tool_call_grammar(kTools, {.reasoning = ReasoningStart::kChannels}));
  for (const std::string& good : std::vector<std::string>{
           std::string("a"), std::string(), kFinal + "a <|start|> <tool_call>x", kAnalysis + kFinal,
           kAnalysis + kFinal + "a" + kNext + kFinal + "b", "[<|channel|>]analysis[<|message|>]Hm",
           kFinal + "call to=functions.other", kFinal + "a[<|end|>]",
           "[<|channel|>]commentary[<|message|>]I look." + kNext + calls("now", "{}").front()}) {
    EXPECT_TRUE(takes(*free, good)) << good;
  }
  for (const std::string& bad : std::vector<std::string>{
           std::string(" to=functions.other[<|channel|>]commentary[<|message|>]{}"),
           std::string("[<|start|>]user"), kFinal + "a[<|start|>]user", "a" + kFinal,
           kFinal + "a" + kNext + calls("other", "{}").front()}) {
    EXPECT_FALSE(takes(*free, bad)) << bad;
  }
}

TEST(ChannelGrammar, NamesThatHeadersCannotHoldAreRefused) {
  for (const char* name : {"", "a b", "a<b", "a\nb", "a\x01"}) {
    const Tool tool{.name = name, .parameters = ""};
    EXPECT_FALSE(tool_call_grammar(std::span(&tool, 1), {.reasoning = ReasoningStart::kChannels}))
        << name;
  }
  const Tool tool{.name = "a.b-c_\u00e9\"\\", .parameters = ""};
  const auto grammar = channel_grammar(tool_call_grammar(
      std::span(&tool, 1), {.required = true, .reasoning = ReasoningStart::kChannels}));
  for (const std::string& call : calls(tool.name, "{}")) EXPECT_TRUE(takes(*grammar, call));
}

}  // namespace
}  // namespace forerun
