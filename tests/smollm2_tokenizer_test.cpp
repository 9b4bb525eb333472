// The real vocabulary of the demo model against Hugging Face's ids. Needs the model file
// (tools/get_model.sh).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/formats/chat_template.h"
#include "forerun/formats/gguf.h"
#include "forerun/formats/gguf_tokenizer.h"
#include "forerun/formats/tokenizer/tokenizer.h"
#include "tests/support/demo_model.h"
#include "tests/support/tokenizer_values.h"

namespace forerun {
namespace {

const Gguf& demo() {
  static const Gguf gguf = load_gguf(demo_model_path());
  return gguf;
}

const Tokenizer& tokenizer() {
  static const Tokenizer made = *make_tokenizer(*tokenizer_spec(demo()));
  return made;
}

TEST(SmolLm2Tokenizer, GivesTheIdsOfHuggingFaceOnHostileTexts) {
  const nlohmann::json ids = testing::tokenizer_values("smollm2.json")["texts"];
  const std::vector<std::string> texts = testing::hostile_texts();
  EXPECT_EQ(testing::expect_ids(tokenizer(), texts, ids["parse"], Special::kParse), 250U);
  EXPECT_EQ(testing::expect_ids(tokenizer(), texts, ids["text"], Special::kText), 250U);
}

TEST(SmolLm2Tokenizer, GivesTheIdsOfHuggingFaceOnPrompts) {
  const nlohmann::json values = testing::tokenizer_values("smollm2.json");
  const auto prompts = values["prompts"].get<std::vector<std::string>>();
  EXPECT_EQ(
      testing::expect_ids(tokenizer(), prompts, values["on_prompts"]["parse"], Special::kParse),
      49U);
  EXPECT_EQ(testing::expect_ids(tokenizer(), prompts, values["on_prompts"]["text"], Special::kText),
            49U);
  for (const std::string& prompt : prompts)
    EXPECT_EQ(tokenizer().decode(tokenizer().encode(prompt)), prompt);
}

TEST(SmolLm2Tokenizer, HasTheSpecialTokensAndTheChatFormat) {
  EXPECT_EQ(tokenizer().vocab_size(), 49152U);
  EXPECT_EQ(tokenizer().eos(), 2);
  EXPECT_EQ(std::vector<Token>(tokenizer().end_tokens().begin(), tokenizer().end_tokens().end()),
            (std::vector<Token>{0, 2}));
  EXPECT_FALSE(tokenizer().add_bos());
  EXPECT_TRUE(tokenizer().is_control(1));
  const auto source = demo().get<std::string_view>("tokenizer.chat_template");
  ASSERT_TRUE(source);
  EXPECT_EQ(detect_chat_family(*source), ChatFamily::kSmolLm2);
}

}  // namespace
}  // namespace forerun
