// DFlash through the public API, on a chat target: what speculation must keep to with any network,
// here some that have hardly learned, whose drafts are often rejected.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "forerun/text.h"
#include "forerun/train.h"
#include "tests/support/tiny_dflash.h"
#include "tests/support/tiny_prompts.h"

namespace forerun {
namespace {

using testing::options;
using testing::prompt;

using Kind = testing::DFlashKind;

const Model& chat() { return testing::chat_model(); }

// A folder with a network that has hardly begun to learn.
class Network {
 public:
  explicit Network(const Kind& kind) { testing::make_tiny_dflash(kind, path()); }
  std::string path() const { return folder_.path().string(); }
  Drafter drafter(const std::string& suffix = "") const {
    return Drafter::load("dflash:" + path() + suffix, chat());
  }

 private:
  testing::TempFolder folder_;
};

class DFlashKinds : public ::testing::TestWithParam<Kind> {};

TEST_P(DFlashKinds, GreedyTextIsThePlainText) {
  const Network network(GetParam());
  for (const std::size_t length : {2U, 20U, 90U}) {
    const auto p = prompt(length);
    const Generated plain = generate(chat(), Drafter(), p, options(Rule::kMaximal, 0.0));
    for (const std::string suffix : {"", "+lookup", "+sam+recycling"}) {
      for (const Rule rule : {Rule::kMaximal, Rule::kMatch, Rule::kSharedNoise}) {
        const Generated g = generate(chat(), network.drafter(suffix), p, options(rule, 0.0));
        EXPECT_EQ(g.tokens, plain.tokens) << suffix << " " << name_of(rule);
        EXPECT_GT(g.statistics.drafted, 0U);
      }
    }
  }
}

TEST_P(DFlashKinds, TextsWithBiasAndPenaltiesAreThePlainOnesAndCertified) {
  const Network network(GetParam());
  GenerateOptions o = options(Rule::kSharedNoise, 0.8);
  o.changes = {.bias = {{12, 2.0F}}, .repetition_penalty = 1.2, .presence_penalty = 0.5};
  const Generated plain = generate(chat(), Drafter(), prompt(20), o);
  for (const std::string suffix : {"", "+lookup"}) {
    EXPECT_EQ(generate(chat(), network.drafter(suffix), prompt(20), o).tokens, plain.tokens);
  }
  o.rule = Rule::kMaximal;
  o.sampling.temperature = 1.0;
  EXPECT_TRUE(certify(chat(), network.drafter(), {{prompt(20)}}, 200, 100, o).passed());
}

TEST_P(DFlashKinds, SharedNoiseIsThePlainTextWhateverTheDraftLength) {
  const Network network(GetParam());
  const Generated plain = generate(chat(), Drafter(), prompt(20), options(Rule::kSharedNoise, 0.8));
  for (const std::string suffix : {"", "+lookup", "+sam+recycling"}) {
    const Drafter drafter = network.drafter(suffix);
    for (const std::uint32_t most : {1U, 3U, 8U}) {
      GenerateOptions o = options(Rule::kSharedNoise, 0.8);
      o.max_draft = most;
      EXPECT_EQ(generate(chat(), drafter, prompt(20), o).tokens, plain.tokens) << suffix << most;
    }
    GenerateOptions adaptive = options(Rule::kSharedNoise, 0.8);
    adaptive.fixed_draft = false;
    EXPECT_EQ(generate(chat(), drafter, prompt(20), adaptive).tokens, plain.tokens) << suffix;
  }
}

TEST_P(DFlashKinds, CertificatesPass) {
  const Network network(GetParam());
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 6; ++i) prompts.push_back(prompt(30, i));
  for (const std::string suffix : {"", "+lookup", "+sam+recycling"}) {
    for (const Rule rule : {Rule::kMaximal, Rule::kMatch}) {
      const Certificate c =
          certify(chat(), network.drafter(suffix), prompts, 1500, 64, options(rule, 1.0));
      EXPECT_TRUE(c.passed()) << suffix << " " << name_of(rule) << " z " << c.report.z;
      EXPECT_GT(c.report.drafted, 20U);
    }
  }
}

TEST_P(DFlashKinds, TextsOfABatchAreThoseOfSingleRuns) {
  const Network network(GetParam());
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 5; ++i) prompts.push_back(prompt(static_cast<std::size_t>(7 + 9 * i), i));
  for (const std::string suffix : {"", "+lookup", "+sam+recycling"}) {
    const Drafter drafter = network.drafter(suffix);
    GenerateOptions o = options(Rule::kMaximal, 0.9, 30);
    o.batch_size = 2;  // sequences end and others begin between rounds
    const auto batch = generate_batch(chat(), drafter, prompts, o);
    ASSERT_EQ(batch.size(), prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      GenerateOptions one = o;
      one.request = static_cast<std::uint32_t>(i);
      // The hybrid learns from all sequences which source promises more, so only its law is the
      // same.
      if (suffix.empty()) {
        EXPECT_EQ(batch[i].tokens, generate(chat(), drafter, prompts[i], one).tokens) << i;
      }
      EXPECT_EQ(batch[i].tokens.size(), 30U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DFlashKinds,
    ::testing::Values(Kind{}, Kind{.reduced = true}, Kind{.block = 2},
                      Kind{.block = 16, .next = false, .dspark = false},
                      Kind{.block = 5, .next = false, .reduced = true}, Kind{.second = true},
                      Kind{.block = 6, .next = false, .reduced = true, .second = true},
                      Kind{.reduced = true, .gated = true}));

// Tokens that cannot be drafted are emitted all the same.
TEST(DFlashReduced, WhatCannotBeDraftedIsStillSaid) {
  const Network network(Kind{.reduced = true});
  const Drafter drafter = network.drafter();
  std::set<Token> emitted;
  for (Token salt = 0; salt < 8; ++salt) {
    const Generated g = generate(chat(), drafter, prompt(20, salt), options(Rule::kMaximal, 1.3));
    emitted.insert(g.tokens.begin(), g.tokens.end());
  }
  EXPECT_GT(emitted.size(), 100U) << "more tokens than the drafter has";
}

// A stop token inside a kept run ends the text there.
TEST(DFlashStop, AnEndTokenInsideARunEndsTheText) {
  const Network network(Kind{});
  const Generated plain = generate(chat(), Drafter(), prompt(20), options(Rule::kMaximal, 0.0));
  for (std::uint32_t n = 1; n < 12; ++n) {
    const Generated g =
        generate(chat(), network.drafter(), prompt(20), options(Rule::kMaximal, 0.0, n));
    EXPECT_EQ(g.tokens, std::vector<Token>(plain.tokens.begin(), plain.tokens.begin() + n));
  }
}

void refused(const std::string& spec, const std::string& says) {
  try {
    Drafter::load(spec, chat());
    FAIL() << spec << " was accepted";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << "one line: " << e.what();
  }
}

TEST(DFlashRefused, WithAOneLineReason) {
  refused("dflash:", "give dflash:FOLDER");
  refused("dflash:/no/such/folder", "/no/such/folder");
  const Network half(Kind{});
  const Model other = Model::load(FORERUN_SOURCE_DIR "/tests/data/tiny/llama", Precision::kF32);
  EXPECT_THROW(Drafter::load("dflash:" + half.path(), other), std::exception);
  const auto file = std::filesystem::path(half.path()) / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  refused("dflash:" + half.path(), "model.safetensors");
  std::filesystem::remove(file);
  refused("dflash:" + half.path(), half.path());
}

}  // namespace
}  // namespace forerun
