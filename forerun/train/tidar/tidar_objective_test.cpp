#include "forerun/train/tidar/tidar_objective.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "forerun/models/decoder_training.h"
#include "forerun/models/gated_lora/mask_training.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tidar_training.h"

namespace forerun {
namespace {

using testing::shards_in;
using testing::some_tokens;
using testing::TempFolder;
using testing::TidarParts;

using Positions = std::vector<std::int64_t>;

AnswerDocument document(const std::vector<Token>& tokens, std::int64_t prompt, std::uint64_t key) {
  return {.tokens = tokens, .prompt = prompt, .key = key};
}

class TidarBlocks : public ::testing::Test {
 protected:
  TidarBlocks() {
    parts.data = {shards_in(
        folder.path() / "data",
        std::vector<TokenDocument>{{.id = 0, .prompt = 5, .tokens = some_tokens(40, 1)},
                                   {.id = 1, .prompt = 0, .tokens = some_tokens(30, 2)}})};
  }
  TempFolder folder;
  TidarParts parts;
  std::vector<Token> tokens = some_tokens(40, 1);
};

TEST_F(TidarBlocks, OfASetFollowEachOtherFromARandomPositionOn) {
  parts.options.offsets = 1;
  const TidarObjective objective = parts.make();
  std::set<std::int64_t> begins;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Positions starts = objective.starts_of(document(tokens, 5, 3), seed);
    begins.insert(starts.at(0));
    for (std::size_t i = 1; i < starts.size(); ++i) EXPECT_EQ(starts[i], starts[i - 1] + 4);
    EXPECT_EQ(starts, objective.starts_of(document(tokens, 5, 3), seed));
  }
  EXPECT_EQ(begins, (std::set<std::int64_t>{5, 6, 7, 8}));
}

TEST_F(TidarBlocks, OfAllOffsetsBeginAtEveryPositionOfTheAnswerButItsLast) {
  const Positions starts = parts.make().starts_of(document(tokens, 0, 3), 1);
  ASSERT_EQ(starts.size(), 38U);  // from 1 on; a block at 39 has no draft
  EXPECT_EQ(starts.front(), 1);
  EXPECT_EQ(starts.back(), 38);
  parts.lora->config.first_slot = 0;
  EXPECT_EQ(parts.make().starts_of(document(tokens, 0, 3), 1).size(), 39U);
}

TEST_F(TidarBlocks, DependOnSeedAndDocumentAlone) {
  parts.options.offsets = 2;
  TidarObjective objective = parts.make();
  const auto loss = [&](const std::vector<std::size_t>& i, std::uint64_t seed) {
    return objective.loss(i, seed).loss.item<double>();
  };
  const double both = loss({0, 1}, 5);
  EXPECT_EQ(both, loss({0, 1}, 5));
  std::set<double> others;
  for (std::uint64_t seed = 0; seed < 8; ++seed) others.insert(loss({0, 1}, seed));
  EXPECT_GT(others.size(), 4U);
  EXPECT_NEAR(both, loss({1}, 5) + loss({0}, 5), 1e-5 * both);
}

TEST_F(TidarBlocks, SeeNothingOfTheTextFromTheirFirstPositionOn) {
  const auto masks = [&](const std::vector<Token>& text) {
    return mask_states(*parts.decoder, *parts.lora, {.documents = {text}, .starts = {{7, 9, 20}}})
        .masks.detach();
  };
  const at::Tensor before = masks(tokens);
  std::vector<Token> changed = tokens;
  changed[9] ^= 1;  // the first position of the second block
  const at::Tensor after = masks(changed);
  EXPECT_TRUE(at::equal(before.narrow(0, 0, 2), after.narrow(0, 0, 2)));
  EXPECT_FALSE(at::equal(before[2], after[2]));
}

TEST_F(TidarBlocks, LeaveTheTextAsItIs) {
  const MaskStates states =
      mask_states(*parts.decoder, *parts.lora, {.documents = {tokens}, .starts = {{7, 9}}});
  const std::span<const Token> text = tokens;
  EXPECT_TRUE(at::equal(states.text, training_hidden(*parts.decoder, {&text, 1})));
  EXPECT_FALSE(states.text.requires_grad());
}

TEST_F(TidarBlocks, OutsideTheDocumentAreRefused) {
  for (const std::int64_t p : {0, 40}) {
    EXPECT_THROW(mask_states(*parts.decoder, *parts.lora, {.documents = {tokens}, .starts = {{p}}}),
                 std::invalid_argument);
  }
}

// The mean weight over random offsets is that of all of them: no block is preferred.
TEST_F(TidarBlocks, RandomOffsetsCoverAllAlike) {
  const double all = parts.make().loss(std::vector<std::size_t>{0}, 1).weight;
  parts.options.offsets = 1;
  TidarObjective objective = parts.make();
  double sum = 0.0;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    sum += objective.loss(std::vector<std::size_t>{0}, seed).weight;
  }
  EXPECT_NEAR(sum / 64.0, all / 4.0, 0.05 * all / 4.0);
}

TEST_F(TidarBlocks, WhatARunMustKeepIsInTheFingerprint) {
  std::set<std::string> seen = {parts.make().fingerprint()};
  EXPECT_TRUE(seen.contains(parts.make().fingerprint()));
  const auto differs = [&](const std::function<void(TidarParts&)>& change) {
    TidarParts other = parts;
    other.lora = std::make_shared<GatedLora>(*parts.lora);
    change(other);
    const std::string text = other.make().fingerprint();
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_EQ(text.find('\n'), text.npos);
  };
  differs([](TidarParts& p) { p.options.gamma = 5.0; });
  differs([](TidarParts& p) { p.options.distill = 0.25; });
  differs([](TidarParts& p) { p.options.offsets = 2; });
  differs([](TidarParts& p) { p.options.length = 20; });
  differs([](TidarParts& p) { p.lora->config.target = "b"; });
  differs([](TidarParts& p) { p.lora->config.first_slot = 0; });
  differs([](TidarParts& p) { p.lora->config.block = 5; });
  differs([](TidarParts& p) { p.data.push_back(p.data[0]); });
}

}  // namespace
}  // namespace forerun
