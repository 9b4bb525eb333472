// Nemotron-Labs-Diffusion through the public API: its folder is a target, its adapter drafts for
// it, and no text changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "forerun/common.h"
#include "forerun/text.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = FORERUN_SOURCE_DIR "/tests/data/nemotron";
constexpr Token kMask = 100;

const Model& nemotron() {
  static const Model model = Model::load(kFolder, Precision::kF32);
  return model;
}

std::vector<Token> values(const std::string& name) {
  static const Safetensors file = load_safetensors(kFolder + "/expected.safetensors");
  return tokens_of(file, name);
}

GenerateOptions short_options(Rule rule, double temperature) {
  GenerateOptions o;
  o.rule = rule;
  o.sampling.temperature = temperature;
  o.max_tokens = 60;
  o.max_draft = 6;
  o.ignore_end = true;
  o.seed = 4;
  return o;
}

const std::vector<std::string> kNames = {
    "tidar:self",         "tidar:" + kFolder,
    "tidar:self:block=3", "tidar:" + kFolder + "/linear_spec_lora:block=5",
    "tidar:self+lookup",  "tidar:self:block=12+recycling"};

std::string message(const std::string& name, const Model& model = nemotron()) {
  try {
    Drafter::load(name, model);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(NemotronModel, WritesTheTextOfPyTorch) {
  const auto plain =
      generate(nemotron(), Drafter(), values("prompt"), short_options(Rule::kMaximal, 0.0));
  EXPECT_EQ(plain.tokens, values("text"));
}

TEST(NemotronModel, EveryTextIsThatOfPlainDecoding) {
  std::vector<Precision> precisions = {Precision::kF32};
  if (machine().int8) precisions.push_back(Precision::kInt8);
  for (const Precision precision : precisions) {
    const Model model = Model::load(kFolder, precision);
    for (const std::string& name : kNames) {
      const Drafter drafter = Drafter::load(name, model);
      for (const Rule rule : {Rule::kSharedNoise, Rule::kMatch, Rule::kBlock}) {
        for (const double temperature : {0.0, 0.9}) {
          if (rule == Rule::kBlock && temperature > 0.0) continue;  // another text of the same law
          for (const bool fixed : {false, true}) {
            GenerateOptions o = short_options(rule, temperature);
            o.fixed_draft = fixed;
            const auto plain = generate(model, Drafter(), values("prompt"), o);
            const auto drafted = generate(model, drafter, values("prompt"), o);
            EXPECT_EQ(drafted.tokens, plain.tokens)
                << name << " " << name_of(rule) << temperature << name_of(precision);
            EXPECT_TRUE(drafted.exact);
            if (fixed) {
              EXPECT_GT(drafted.statistics.drafted, 0U) << name;
            }
          }
        }
      }
    }
  }
}

// A greedy pass in int8 leaves out rows that it cannot reach: the mask token, whose logit is
// removed afterwards, may not decide that.
TEST(NemotronModel, TheMaskTokenExcludesNoRow) {
  if (!machine().int8) GTEST_SKIP() << "this processor has no AVX2";
  const Model model = Model::load(kFolder, Precision::kInt8);
  const Drafter drafter = Drafter::load("recycling+lookup", model),
                found = Drafter::load("lookup", model);
  GenerateOptions o = short_options(Rule::kSharedNoise, 0.0);
  o.max_tokens = 150;
  o.fixed_draft = true;
  std::uint64_t kept = 0;
  for (Token first = 1; first <= 12; ++first) {
    // A prompt that holds the answer: lookup drafts what follows.
    std::vector<Token> prompt = {first, first + 20};
    const auto text = generate(model, Drafter(), prompt, o).tokens;
    prompt.insert(prompt.end(), text.begin(), text.begin() + 40);
    prompt.insert(prompt.end(), {first, first + 20});
    const auto plain = generate(model, Drafter(), prompt, o);
    for (const Drafter* d : {&drafter, &found}) {
      const auto drafted = generate(model, *d, prompt, o);
      EXPECT_EQ(drafted.tokens, plain.tokens) << first << " " << d->name();
      kept += drafted.statistics.kept();
    }
  }
  EXPECT_GT(kept, 200U);
}

// False alarm below 3e-4 a case, over seeds; seeded, so once.
TEST(NemotronModel, SampledDraftsHaveCertificates) {
  const Drafter drafter = Drafter::load("tidar:self", nemotron());
  const std::vector<std::vector<Token>> prompts = {values("prompt"), {5, 6, 7}};
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
    GenerateOptions o = short_options(rule, 1.0);
    o.fixed_draft = true;
    const Certificate c = certify(nemotron(), drafter, prompts, 1500, 64, o);
    EXPECT_TRUE(c.passed()) << name_of(rule) << " z " << c.report.z;
    EXPECT_GT(c.report.drafted, 500U);
  }
}

// Untrained logits of the mask token are as large as any: left in, it would come every 160 outputs.
TEST(NemotronModel, NeverWritesTheMaskToken) {
  const Drafter drafter = Drafter::load("tidar:self", nemotron());
  GenerateOptions o = short_options(Rule::kMaximal, 8.0);
  o.changes.bias = {{kMask, 50.0F}};
  o.fixed_draft = true;
  for (o.request = 0; o.request < 20; ++o.request) {
    const auto text = generate(nemotron(), drafter, {values("prompt")}, o).tokens;
    EXPECT_EQ(std::count(text.begin(), text.end(), kMask), 0);
  }
}

TEST(NemotronModel, WritesToTheEndOfTheContext) {
  const Drafter drafter = Drafter::load("tidar:self", nemotron());
  GenerateOptions o = short_options(Rule::kSharedNoise, 0.0);
  o.max_tokens = 100000;
  o.fixed_draft = true;
  const auto plain = generate(nemotron(), Drafter(), values("prompt"), o);
  EXPECT_GT(plain.tokens.size(), 200U);
  EXPECT_EQ(generate(nemotron(), drafter, values("prompt"), o).tokens, plain.tokens);
}

TEST(NemotronModel, DraftsWithoutAnAdapterToo) {
  const testing::TempFolder folder;
  fs::copy(kFolder, folder.path());  // without folders in it
  const Model model = Model::load(folder.path().string(), Precision::kF32);
  const GenerateOptions o = short_options(Rule::kMatch, 0.0);
  EXPECT_EQ(generate(model, Drafter::load("tidar:self", model), values("prompt"), o).tokens,
            values("text"));
}

TEST(NemotronModel, WhatDoesNotFitIsRefusedWithALine) {
  for (const auto& [name, words] : std::vector<std::pair<std::string, std::string>>{
           {"tidar:self:block=1", "takes a number from 2 to 256"},
           {"tidar:self:block=2", "no row for a draft"},
           {"tidar:self:block=x", "takes a number"},
           {"tidar:self:block=4:block=5", "given twice"},
           {"tidar:" + kFolder + "/nothing", "no adapters at"}}) {
    EXPECT_NE(message(name).find(words), std::string::npos) << message(name);
    EXPECT_EQ(message(name).find('\n'), std::string::npos);
  }
  const Model llama = Model::load(kTiny + "llama", Precision::kF32);
  const std::string line = message("tidar:" + kFolder + "/linear_spec_lora", llama);
  EXPECT_NE(line.find("Nemotron-Labs-Diffusion models alone"), std::string::npos) << line;
}

}  // namespace
}  // namespace forerun
