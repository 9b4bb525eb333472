#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "forerun/text.h"
#include "forerun/train.h"
#include "tests/support/chat_model.h"
#include "tests/support/temp_folder.h"

/// A tiny target that chats, some of its answers, and fast training of a drafter on them.
namespace forerun::testing {

namespace fs = std::filesystem;

inline const TempFolder& kept() {
  static const TempFolder folder;
  return folder;
}

/// The target; loaded once in a process.
inline const Model& target() {
  static const Model model =
      Model::load(testing::make_chat_model(kept().path() / "model"), Precision::kF32);
  return model;
}

inline std::string target_name() { return fs::path(target().path()).filename().string(); }

/// The same except for a weight, in `folder`.
inline Model other_target(const fs::path& folder) {
  testing::make_chat_model(folder);
  std::string bytes = read_file(folder / "model.safetensors");
  bytes[bytes.size() - 4 * 37000 - 1] ^= 1;  // the exponent of a number in a block
  std::ofstream(folder / "model.safetensors", std::ios::binary) << bytes;
  return Model::load(folder.string(), Precision::kF32);
}

/// Folder of some dozens of the target's answers.
inline const std::string& answers() {
  static const std::string path = [] {
    DistillOptions o;
    o.generate.sampling.temperature = 0.7;
    o.generate.max_tokens = 32;
    const std::string out = (kept().path() / "answers").string();
    distill(target(), questions(30), out, o);
    return out;
  }();
  return path;
}

inline DFlashTraining small() {
  DFlashTraining o;
  o.layers = 1;
  o.block = 4;
  o.features = {0, 1};  // a target of three blocks has no five to choose
  o.draft_vocab = 60;
  o.markov_rank = 4;
  o.loss.anchors = 8;
  o.loss.held_out = 0.1;
  return o;
}

inline TrainOptions quick(const fs::path& out) {
  TrainOptions o;
  o.out = out.string();
  o.steps = 4;
  o.batch = 4;
  o.micro_batch = 2;
  o.evaluate_steps = 2;
  o.checkpoint_seconds = 0.0;
  o.bf16 = false;
  o.threads = 1;
  return o;
}

class TrainDFlash : public ::testing::Test {
 protected:
  TempFolder folder;
  fs::path out = folder.path() / "drafter";
};

inline void expect_plain_greedy_text(const fs::path& drafter_folder) {
  const Drafter drafter =
      Drafter::load("dflash:" + drafter_folder.string(), target(), Precision::kF32);
  EXPECT_TRUE(drafter.has_laws());
  GenerateOptions o;
  o.max_tokens = 80;
  o.ignore_end = true;
  o.fixed_draft = true;
  for (const char* text : {"hello", "a b a b a b", "question 3"}) {
    const std::vector<Token> prompt = target().encode(text);
    const Generated plain = generate(target(), Drafter(), prompt, o);
    const Generated drafted = generate(target(), drafter, prompt, o);
    EXPECT_EQ(drafted.tokens, plain.tokens) << text;
    EXPECT_GT(drafted.statistics.drafted, 0U);
  }
}

}  // namespace forerun::testing
