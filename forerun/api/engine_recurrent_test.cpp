// Targets with recurrent layers in an engine: texts are those alone, whoever begins alike, and
// beginnings are read once or twice.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "forerun/text.h"
#include "tests/support/engine_texts.h"

namespace forerun {
namespace {

using testing::Ended;
using testing::finish;
using testing::prompt;

class RecurrentTargets : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!machine().int8) GTEST_SKIP() << "float rounding depends on company";
    const std::string folder = FORERUN_SOURCE_DIR "/tests/data/tiny/" + GetParam();
    target_ = Model::load(folder, Precision::kInt8);
    for (const std::string& name : {std::string("none"), std::string("lookup+recycling"),
                                    "draft-model:" + folder, std::string("lookahead")}) {
      drafters_.push_back(Drafter::load(name, *target_, kAutoPrecision));
    }
  }
  GenerateOptions options(std::uint32_t request, std::uint32_t tokens = 12) const {
    GenerateOptions o;
    o.sampling.temperature = 0.8;
    o.max_tokens = tokens;
    o.ignore_end = true;
    o.request = request;
    return o;
  }
  std::vector<Token> alone(const std::vector<Token>& text, const GenerateOptions& o) const {
    return generate(*target_, Drafter(), text, o).tokens;
  }
  TextResult next(Engine& engine, const std::vector<Token>& text, std::uint32_t request) {
    const RequestId id = engine.submit(*target_, drafters_[1], text, options(request));
    Ended ended;
    finish(engine, ended);
    EXPECT_EQ(ended.texts.at(id).tokens, alone(text, options(request))) << request;
    return ended.texts.at(id);
  }

  std::optional<Model> target_;
  std::vector<Drafter> drafters_;
};

TEST_P(RecurrentTargets, TextsAreThoseAloneInAnyCompany) {
  std::mt19937 random(7);
  const auto beginning = prompt(random, 90);
  Engine engine({.max_prefixes = 16});
  std::vector<std::vector<Token>> prompts;
  std::vector<GenerateOptions> wanted;
  std::vector<RequestId> ids;
  Ended ended;
  for (std::uint32_t i = 0; i < 40; ++i) {
    auto& own = prompts.emplace_back(beginning.begin(), beginning.begin() + random() % 90);
    const auto rest = prompt(random, 1 + random() % 20);
    own.insert(own.end(), rest.begin(), rest.end());
    wanted.push_back(options(i, 1 + random() % 30));
    ids.push_back(engine.submit(*target_, drafters_[i % drafters_.size()], own, wanted.back()));
    for (std::size_t n = random() % 3; n > 0; --n) take(engine.step(), ended);
  }
  finish(engine, ended);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(ended.texts.at(ids[i]).tokens, alone(prompts[i], wanted[i])) << i;
  }
}

// The first text does not know where others will part from it, the second one reads up to there,
// the others begin at most 16 tokens before.
TEST_P(RecurrentTargets, BeginningsAreReadTwiceByTextsThatFollowEachOther) {
  std::mt19937 random(8);
  const auto system = prompt(random, 100);
  Engine engine({.max_prefixes = 16});
  for (std::uint32_t i = 0; i < 5; ++i) {
    std::vector<Token> text = system;
    text.push_back(static_cast<Token>(40 + i));
    const auto rest = prompt(random, 60);
    text.insert(text.end(), rest.begin(), rest.end());
    const TextResult result = next(engine, text, i);
    EXPECT_LE(result.shared_tokens, 100U);
    if (i < 2) continue;
    EXPECT_GE(result.shared_tokens, 84U) << i;
  }
}

TEST_P(RecurrentTargets, TheNextTurnReadsOnlyWhatIsNew) {
  std::mt19937 random(9);
  Engine engine({.max_prefixes = 4});
  std::vector<Token> text = prompt(random, 70);
  for (std::uint32_t turn = 0; turn < 4; ++turn) {
    const TextResult result = next(engine, text, turn);
    EXPECT_GE(result.shared_tokens + 20, turn > 0 ? text.size() : 0) << turn;
    // Asked again, it begins at the end of the prompt.
    const TextResult again = next(engine, text, turn + 10);
    EXPECT_GE(again.shared_tokens + 17, text.size()) << turn;
    text.insert(text.end(), again.tokens.begin(), again.tokens.end());
    const auto more = prompt(random, 6);
    text.insert(text.end(), more.begin(), more.end());
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, RecurrentTargets, ::testing::Values("lfm2", "qwen3_5"),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace forerun
