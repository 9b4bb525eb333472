#include "forerun/cli/flag_hints.h"

#include <gtest/gtest.h>

#include <vector>

namespace forerun::cli {
namespace {

const std::vector<std::string> kFlags = {"-m",     "--model",   "--temp",     "--top-k",
                                         "--seed", "--threads", "--max-draft"};

TEST(FlagHint, NamesTheFlagThatDoesWhatAnotherProgramsDoes) {
  EXPECT_EQ(flag_hint("-hf", kFlags),
            "-hf is -m here: models are read from files and folders of this machine");
  EXPECT_EQ(flag_hint("-t", kFlags), "-t is --threads here");
  EXPECT_EQ(flag_hint("--draft-max", kFlags), "--draft-max is --max-draft here");
  EXPECT_EQ(flag_hint("--num-speculative-tokens=4", kFlags),
            "--num-speculative-tokens is --max-draft here");
  EXPECT_EQ(flag_hint("--reasoning-parser", std::vector<std::string>{"--reasoning-format"}),
            "--reasoning-parser is --reasoning-format here: the tags are those of the model's chat "
            "template");
  EXPECT_EQ(flag_hint("--guided-regex", std::vector<std::string>{"--regex"}),
            "--guided-regex is --regex here");
}

TEST(FlagHint, SaysWhyThereIsNone) {
  EXPECT_EQ(flag_hint("-ngl", kFlags), "-ngl is not needed: it computes on CPUs");
  EXPECT_EQ(flag_hint("--np", kFlags), "");
  // The command has no such flag: there is nothing to name.
  EXPECT_EQ(flag_hint("--dtype", kFlags), "");
}

TEST(FlagHint, FindsTheFlagThatAMisspelledOneMeans) {
  EXPECT_EQ(flag_hint("--tmep", kFlags), "did you mean --temp?");
  EXPECT_EQ(flag_hint("--top_k", kFlags), "did you mean --top-k?");
  EXPECT_EQ(flag_hint("--thread", kFlags), "did you mean --threads?");
  EXPECT_EQ(flag_hint("--colour", kFlags), "");
  EXPECT_EQ(flag_hint("--", kFlags), "");
  EXPECT_EQ(flag_hint("", kFlags), "");
}

TEST(ForeignShortFlag, IsOneOfSeveralLetters) {
  for (const char* word : {"-hf", "-ngl", "-fa", "-md"}) EXPECT_TRUE(is_foreign_short_flag(word));
  for (const char* word : {"-h", "-s", "-n64", "-dlookup", "--hf-repo", "hf", "-", "", "-hfx"}) {
    EXPECT_FALSE(is_foreign_short_flag(word)) << word;
  }
}

}  // namespace
}  // namespace forerun::cli
