// Texts of tiny Dream and LLaDA models: the same from both file formats, ended by end tokens,
// and what cannot be done is said in one line.
#include "forerun/diffusion_text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace forerun {
namespace {

const std::string kModels = FORERUN_SOURCE_DIR "/tests/data/diffusion_lm/";

TEST(DiffusionText, IsTheSameFromFolderAndFile) {
  for (const std::string name : {"dream", "llada"}) {
    ASSERT_TRUE(is_diffusion_language_model(kModels + name));
    ASSERT_TRUE(is_diffusion_language_model(kModels + name + "/model.gguf"));
    const auto folder = DiffusionLanguageModel::load(kModels + name, Precision::kF32);
    const auto file = DiffusionLanguageModel::load(kModels + name + "/model.gguf", Precision::kF32);
    const std::vector<Token> prompt = folder.encode("hello you");
    EXPECT_EQ(prompt, file.encode("hello you"));
    const DiffusionTextOptions options{.length = 24, .steps = 7, .ignore_end = true};
    const DiffusedText a = generate_by_diffusion(folder, prompt, options);
    const DiffusedText b = generate_by_diffusion(file, prompt, options);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.tokens.size(), 24U);
    EXPECT_EQ(a.steps, 7);
    EXPECT_EQ(a.text, folder.decode(a.tokens));
  }
}

TEST(DiffusionText, EveryStepIsReportedAndCanBeTheLast) {
  const auto model = DiffusionLanguageModel::load(kModels + "llada", Precision::kF32);
  const std::vector<Token> prompt = model.encode("hello");
  std::ptrdiff_t masked = 12;
  DiffusionTextListener listener;
  listener.on_step = [&](std::int64_t, std::span<const Token> places) {
    const auto now = std::count(places.begin(), places.end(), -1);
    EXPECT_EQ(masked - now, 3);
    masked = now;
  };
  const DiffusionTextOptions options{
      .length = 12, .steps = 4, .unmasking = "low-confidence", .ignore_end = true};
  EXPECT_EQ(generate_by_diffusion(model, prompt, options, listener).tokens.size(), 12U);
  EXPECT_EQ(masked, 0);
  listener.on_step = {};
  listener.go_on = [] { return false; };
  const DiffusedText cut = generate_by_diffusion(model, prompt, options, listener);
  EXPECT_TRUE(cut.interrupted);
  EXPECT_EQ(cut.steps, 1);
  EXPECT_TRUE(cut.text.empty());
}

TEST(DiffusionText, SaysWhatCannotBeDone) {
  const auto model = DiffusionLanguageModel::load(kModels + "dream", Precision::kF32);
  const std::vector<Token> prompt = model.encode("hello");
  const auto says = [&](const std::string& part, const DiffusionTextOptions& options) {
    try {
      generate_by_diffusion(model, prompt, options);
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  says("no way of unmasking is called 'best'", {.unmasking = "best"});
  says("context of 256", {.length = 1000});
  says("blocks are of low-confidence alone", {.block = 4});
  EXPECT_THROW(generate_by_diffusion(model, {}, {}), UsageError);
  const std::string decoder = FORERUN_SOURCE_DIR "/tests/data/tiny/qwen2";
  EXPECT_FALSE(is_diffusion_language_model(decoder));
  EXPECT_FALSE(is_diffusion_language_model("/nowhere"));
  EXPECT_THROW(DiffusionLanguageModel::load(decoder, Precision::kF32), FormatError);
  EXPECT_THROW(Model::load(kModels + "dream", Precision::kF32), FormatError);
}

}  // namespace
}  // namespace forerun
