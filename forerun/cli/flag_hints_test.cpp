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
  EXPECT_EQ(flag_hint("--context-shift", kFlags),
            "there is no --context-shift: a text ends where the model's context does");
  EXPECT_EQ(flag_hint("--no-context-shift", kFlags),
            "--no-context-shift is not needed: a text ends where the model's context does");
  // The command has no such flag: there is nothing to name.
  EXPECT_EQ(flag_hint("--dtype", kFlags), "");
}

TEST(FlagHint, OfAServerSaysWhereRequestsSayIt) {
  const std::vector<std::string> serve = {"-m", "--port", "--max-active", "--allow-origin"};
  EXPECT_EQ(flag_hint("--system-prompt", serve),
            "there is no --system-prompt: requests hold the system message");
  EXPECT_EQ(flag_hint("--system-prompt", std::vector<std::string>{"--system"}),
            "--system-prompt is --system here");
  EXPECT_EQ(flag_hint("--allowed-origins", serve), "--allowed-origins is --allow-origin here");
  EXPECT_EQ(flag_hint("--enable_auto_tool_choice", serve),
            "--enable_auto_tool_choice is not needed: tools of requests are called in the form of "
            "Hermes and Qwen, or in the model's own channels");
  EXPECT_EQ(flag_hint("--no-slots", serve), "--no-slots is not needed: there is no /slots");
  EXPECT_EQ(flag_hint("--slots", serve),
            "there is no --slots: /metrics tells of the texts that run");
  EXPECT_EQ(flag_hint("--no-webui", serve), "there is no --no-webui: the page is always there");
  EXPECT_EQ(flag_hint("--lora", serve), "there is no --lora: merge adapters into the model before");
  EXPECT_EQ(flag_hint("--mlock", serve),
            "--mlock is not needed: weights are in memory, but for those that --precision file "
            "leaves in their file");
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
