#include "forerun/formats/chat_template.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/tokenizer_values.h"

namespace forerun {
namespace {

const std::map<std::string, ChatFamily>& families() {
  static const std::map<std::string, ChatFamily> all = {
      {"chatml", ChatFamily::kChatMl},   {"smollm2", ChatFamily::kSmolLm2},
      {"qwen2", ChatFamily::kQwen2},     {"qwen25", ChatFamily::kQwen25},
      {"qwen3", ChatFamily::kQwen3},     {"llama3", ChatFamily::kLlama3},
      {"llama31", ChatFamily::kLlama31}, {"gemma2", ChatFamily::kGemma},
      {"gemma3", ChatFamily::kGemma},    {"zephyr", ChatFamily::kZephyr}};
  return all;
}

TEST(ChatTemplate, WritesWhatTheModelsOwnTemplatesWrite) {
  int written = 0, refused = 0;
  for (const nlohmann::json& c : testing::tokenizer_values("chat.json")) {
    std::vector<ChatMessage> messages;
    for (const nlohmann::json& m : c["messages"]) messages.push_back({m["role"], m["content"]});
    const std::string family = c["family"];
    // Gemma 2 refuses a system message; here it is folded as in Gemma 3.
    if (family == "gemma2" && c["text"].is_null() && messages.front().role == "system") continue;
    ChatOptions options{.bos = "<BOS>", .eos = "<EOS>"};
    options.add_generation_prompt = c["add_generation_prompt"];
    options.thinking = c["thinking"];
    const Result<std::string> text = render_chat(families().at(family), messages, options);
    ASSERT_EQ(static_cast<bool>(text), c["text"].is_string()) << c.dump();
    if (text) {
      EXPECT_EQ(*text, c["text"].get<std::string>()) << c.dump();
    }
    ++(text ? written : refused);
  }
  EXPECT_EQ(written, 310);
  EXPECT_EQ(refused, 12);
}

TEST(ChatTemplate, MessagesItCannotWriteAreErrors) {
  const std::vector<ChatMessage> tool = {{"tool", "x"}};
  EXPECT_FALSE(render_chat(ChatFamily::kQwen3, {}));
  EXPECT_FALSE(render_chat(ChatFamily::kQwen3, tool));
  const std::vector<ChatMessage> hello = {{"user", "x"}};
  EXPECT_NE(render_chat(ChatFamily::kLlama31, hello, {.date = "1 Jan 2026"})
                ->find("Today Date: 1 Jan 2026\n"),
            std::string::npos);
}

// Fragments of the models' templates, as they stand in GGUF or JSON files.
TEST(ChatTemplate, TemplatesAreIdentifiedByTheirFragments) {
  const std::string turn =
      R"({{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}})";
  const std::string answer =
      R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";
  const auto with_system = [&](const std::string& text) {
    return R"({% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n)" +
           text + R"(<|im_end|>\n' }}{% endif %})" + turn + answer;
  };
  EXPECT_EQ(detect_chat_family(turn + answer), ChatFamily::kChatMl);
  EXPECT_EQ(detect_chat_family(with_system(
                "You are a helpful AI assistant named SmolLM, trained by Hugging Face")),
            ChatFamily::kSmolLm2);
  EXPECT_EQ(detect_chat_family(with_system("You are a helpful assistant.")), ChatFamily::kQwen2);
  EXPECT_EQ(detect_chat_family(with_system(
                "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")),
            ChatFamily::kQwen25);
  EXPECT_EQ(detect_chat_family(with_system("You are Dolphin.")), std::nullopt);
  EXPECT_EQ(detect_chat_family("{{ bos_token }}" + turn + answer), std::nullopt);
  const std::string thinking =
      turn + answer +
      R"(You are provided with function signatures ns.last_query_index message.reasoning_content {{- '<think>\n' }} )" +
      R"({% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %})";
  EXPECT_EQ(detect_chat_family(thinking), ChatFamily::kQwen3);
  EXPECT_EQ(detect_chat_family(turn + answer + "{{ '<think>\\n' }}"),
            std::nullopt);  // always thinks

  const std::string header =
      "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
      "trim "
      "+ '<|eot_id|>'";
  EXPECT_EQ(detect_chat_family(header + "{% set content = bos_token + content %}"),
            ChatFamily::kLlama3);
  EXPECT_EQ(detect_chat_family(header + R"({{- "Cutting Knowledge Date: December 2023\n" }})" +
                               R"({{- "Today Date: " + date_string + "\n\n" }})"),
            ChatFamily::kLlama31);
  EXPECT_EQ(detect_chat_family(header), std::nullopt);

  const std::string gemma =
      R"({{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }})"
      R"({{'<start_of_turn>model\n'}})";
  EXPECT_EQ(detect_chat_family(gemma + "{{ raise_exception('System role not supported') }}"),
            ChatFamily::kGemma);
  EXPECT_EQ(detect_chat_family(
                gemma + R"({%- set first_user_prefix = messages[0]['content'] + '\n\n' -%})"),
            ChatFamily::kGemma);
  EXPECT_EQ(detect_chat_family(gemma), std::nullopt);
  EXPECT_EQ(detect_chat_family(""), std::nullopt);
  EXPECT_EQ(detect_chat_family("[INST] {{ message }} [/INST]"), std::nullopt);
}

TEST(ChatTemplate, ReadsTheTemplatesOfATokenizerConfig) {
  EXPECT_EQ(parse_chat_templates(R"({"chat_template": "x"})")->standard, "x");
  const auto named =
      parse_chat_templates(R"({"chat_template": [{"name": "tool_use", "template": "t"},
                               {"name": "default", "template": "d"}, {"name": "rag"}]})");
  EXPECT_EQ(named->standard, "d");
  EXPECT_EQ(named->with_tools, "t");
  EXPECT_FALSE(parse_chat_templates(R"({"chat_template": null})")->standard.has_value());
  EXPECT_FALSE(parse_chat_templates("{}")->standard.has_value());
  EXPECT_FALSE(parse_chat_templates("{"));
}

}  // namespace
}  // namespace forerun
