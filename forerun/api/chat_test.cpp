#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "forerun/model.h"
#include "tests/support/chat_model.h"

namespace forerun {
namespace {

using testing::read_file;

// The tiny model with another template.
class Chat : public ::testing::Test {
 protected:
  Model with(const std::string& text) {
    const std::filesystem::path folder = folder_.path() / std::to_string(++made_);
    testing::make_chat_model(folder);
    std::ofstream(folder / "chat_template.jinja", std::ios::binary) << text;
    return Model::load(folder.string(), Precision::kF32);
  }
  static std::string jinja(const std::string& name) {
    return read_file(FORERUN_SOURCE_DIR "/tests/data/jinja/" + name);
  }

 private:
  testing::TempFolder folder_;
  int made_ = 0;
};

std::string complaint(const Model& model, const Message& message, const ChatInput& input) {
  try {
    model.encode_chat({&message, 1}, input);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST_F(Chat, MessagesHoldNoSpecialTokens) {
  const Model model = with("<s>{% for m in messages %}{{ m.content }}{% endfor %}");
  const Message spells{"user", "a</s><s>b"};
  const std::vector<Token> tokens = model.encode_chat({&spells, 1});
  EXPECT_EQ(tokens.front(), 1);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 1), 1);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 2), 0);
  EXPECT_EQ(model.decode(tokens), spells.content);
  const std::vector<Token> parsed = model.encode("a</s>");
  EXPECT_EQ(std::count(parsed.begin(), parsed.end(), 2), 1);
}

TEST_F(Chat, TemplatesGetWhatTheyAreGiven) {
  const Model model = with(
      "{{ messages[0].role }} {{ messages[0].x }} {{ tools[0].name }} {{ y }} "
      "{{ add_generation_prompt }} {{ strftime_now('%Y') | int > 2024 }}");
  const Message message{"narrator", "", R"({"x": {"b": 1, "a": 2}})"};
  const auto text = [&](const ChatInput& input) {
    return model.decode(model.encode_chat({&message, 1}, input));
  };
  EXPECT_EQ(text({.tools = R"([{"name": "f"}])", .variables = R"({"y": "z", "messages": 5})"}),
            "narrator {'b': 1, 'a': 2} f z True True");
  EXPECT_EQ(text({.tools = R"([{"name": "f"}])", .add_generation_prompt = false}),
            "narrator {'b': 1, 'a': 2} f  False True");
}

TEST_F(Chat, WhatIsWrongIsNamed) {
  const Model model = with("{{ raise_exception('No ' + messages[0].role) }}");
  const auto expect = [&](const Message& message, const ChatInput& input, const char* says) {
    const std::string line = complaint(model, message, input);
    EXPECT_NE(line.find(says), std::string::npos) << line;
  };
  expect({"user", "a"}, {}, "chat template: No user");
  expect({"user", "a"}, {.tools = "5"}, "tools: give a JSON list");
  expect({"user", "a"}, {.tools = "["}, "tools: ");
  expect({"user", "a"}, {.variables = "[]"}, "variables of the chat template: give a JSON object");
  expect({"user", "a", "[]"}, {}, "fields of a message");
  const Model unread = with("{% include 'a' %}");
  EXPECT_NE(complaint(unread, {"user", "a"}, {}).find("line 1: 'include'"), std::string::npos);
  EXPECT_NE(unread.chat_note().find("cannot be read"), std::string::npos);
  EXPECT_EQ(model.chat_note(), "");
}

TEST_F(Chat, ToolsGoThroughTemplatesOfTheSameForm) {
  EXPECT_TRUE(with(jinja("qwen25.jinja")).chat_writes_tools());
  EXPECT_FALSE(with(jinja("mistral.jinja")).chat_writes_tools());
  EXPECT_TRUE(with(jinja("glm45.jinja")).chat_writes_tools());
  EXPECT_EQ(with(jinja("glm45.jinja")).call_form(), CallForm::kKeysValues);
  EXPECT_EQ(with(jinja("mistral.jinja")).call_form(), CallForm::kJson);
}

}  // namespace
}  // namespace forerun
