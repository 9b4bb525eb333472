// The drafters in models/smollm2-135m with the real model: they belong to it, draft, and change
// nothing. Needs the model file (tools/get_model.sh).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "forerun/text.h"
#include "tests/support/demo_model.h"

namespace forerun {
namespace {

const std::string kDFlash = "dflash:" FORERUN_SOURCE_DIR "/models/smollm2-135m/dflash";
const std::string kTidar = "tidar:" FORERUN_SOURCE_DIR "/models/smollm2-135m/tidar";
const std::string kDiffusion = "diffuspec:" FORERUN_SOURCE_DIR "/models/smollm2-135m/dlm";
const std::string kAnswers = "sam:" FORERUN_SOURCE_DIR "/models/smollm2-135m/answers";

const Model& target() {
  static const Model model = Model::load(demo_model_path(), Precision::kInt8);
  return model;
}

std::vector<std::vector<Token>> prompts() {
  std::vector<std::vector<Token>> out;
  for (const char* text :
       {"Tom has 3 boxes with 12 apples each. He gives 7 apples to Anna. How many are left?",
        "Why is the sky blue?", "Write a short poem about the sea."}) {
    const Message turn{"user", text};
    out.push_back(target().encode_chat({&turn, 1}));
  }
  return out;
}

class ShippedDrafter : public ::testing::TestWithParam<std::string> {};

TEST_P(ShippedDrafter, GivesTheTargetsTextInFewerPasses) {
  const Drafter drafter = Drafter::load(GetParam(), target());
  GenerateOptions o;
  o.fixed_draft = true;  // what a processor thinks of it is another question
  o.max_draft = 5;
  o.max_tokens = 64;
  for (const auto& [temperature, least] : {std::pair{0.0, 1.3}, std::pair{0.8, 1.15}}) {
    o.sampling.temperature = temperature;
    o.rule = Rule::kSharedNoise;
    RunStatistics all;
    for (const std::vector<Token>& prompt : prompts()) {
      const Generated plain = generate(target(), Drafter(), prompt, o);
      const Generated drafted = generate(target(), drafter, prompt, o);
      const auto d = first_difference(target(), prompt, plain.tokens, drafted.tokens, o);
      EXPECT_TRUE(!d || d->tie) << "output " << d->position << " at T = " << temperature;
      all.add(drafted.statistics);
    }
    EXPECT_GT(all.tau(), least) << "T = " << temperature;
  }
}

TEST(AutomaticPrecision, IsInt4ForTheDemoModelWhereTokensAreMade) {
  const std::string path = demo_model_path();
  if (!machine().int8) GTEST_SKIP() << "this processor has no AVX2";
  const Precision chosen = auto_precision(path).precision;
  const bool amx = machine().kernels.find("AMX") != std::string::npos;
  EXPECT_EQ(chosen, amx ? Precision::kInt8 : Precision::kInt4);
  EXPECT_EQ(Model::load(path).precision(), chosen);
  EXPECT_EQ(auto_precision(path, PassRows::kMany).precision, Precision::kInt8);
}

// The file stores its layers in 4 bits; drafters that learned beside int8 draft for these as well.
TEST_P(ShippedDrafter, GivesTheTextOfInt4) {
  const Model int4 = Model::load(demo_model_path(), Precision::kInt4);
  ASSERT_EQ(int4.precision(), Precision::kInt4);
  const Drafter drafter = Drafter::load(GetParam(), int4);
  GenerateOptions o;
  o.fixed_draft = true;
  o.max_draft = 5;
  o.max_tokens = 48;
  o.rule = Rule::kSharedNoise;
  for (const double temperature : {0.0, 0.8}) {
    o.sampling.temperature = temperature;
    RunStatistics all;
    for (const std::vector<Token>& prompt : prompts()) {
      const Generated drafted = generate(int4, drafter, prompt, o);
      EXPECT_EQ(drafted.tokens, generate(int4, Drafter(), prompt, o).tokens);
      all.add(drafted.statistics);
    }
    EXPECT_GT(all.tau(), 1.1) << "T = " << temperature;
  }
}

TEST(ShippedDFlash, BesideLookupHasNoLawForEachDraft) {
  GenerateOptions o;
  o.rule = Rule::kRatioOnSearch;
  o.sampling.temperature = 1.0;
  EXPECT_THROW(generate(target(), Drafter::load(kDFlash + "+lookup", target()), prompts()[0], o),
               UsageError);
}

INSTANTIATE_TEST_SUITE_P(DFlash, ShippedDrafter, ::testing::Values(kDFlash, kDFlash + "+lookup"));
INSTANTIATE_TEST_SUITE_P(DiffuSpec, ShippedDrafter,
                         ::testing::Values(kDiffusion, kDiffusion + "+lookup+recycling"));
INSTANTIATE_TEST_SUITE_P(Answers, ShippedDrafter,
                         ::testing::Values(kAnswers, kAnswers + "+lookup+recycling"));
INSTANTIATE_TEST_SUITE_P(Tidar, ShippedDrafter, ::testing::Values(kTidar, kTidar + "+lookup"));

}  // namespace
}  // namespace forerun
