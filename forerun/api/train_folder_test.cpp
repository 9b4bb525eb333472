// Which folders training may write its result into.
#include "forerun/api/train_folder.h"

#include <gtest/gtest.h>

#include <string>

#include "forerun/common.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

std::string log_of(const std::string& method) {
  return R"({"run":{"options":{"objective":")" + method + " depth=2\"}}}\n{\"step\":1}\n";
}
std::string config_of(const std::string& method) {
  return R"({"forerun":{"options":{"objective":")" + method + " depth=2\"}}}";
}

class TrainFolder : public ::testing::Test {
 protected:
  bool allows(const std::string& method) const {
    try {
      expect_own_folder(folder.path(), method);
      return true;
    } catch (const UsageError& e) {
      const std::string line = e.what();
      EXPECT_NE(line.find(folder.path().string()), line.npos) << line;
      EXPECT_NE(line.find("choose another --out"), line.npos) << line;
      EXPECT_EQ(line.find('\n'), line.npos) << line;
      return false;
    }
  }
  TempFolder folder;
};

TEST_F(TrainFolder, OfAnswersIsNotFree) {
  folder.write("distill.json", "{}");
  EXPECT_FALSE(allows("medusa"));
}

TEST_F(TrainFolder, IsFreeWithoutAModel) {
  EXPECT_TRUE(allows("dit"));
  folder.write("log.jsonl", log_of("dit"));  // begun, and killed before its first checkpoint
  EXPECT_TRUE(allows("dit"));
  folder.write("curves.html", "<html>");
  EXPECT_TRUE(allows("dit"));
  folder.write("log.jsonl", "");  // killed before its first line
  fs::remove(folder.path() / "curves.html");
  EXPECT_TRUE(allows("dit"));
}

TEST_F(TrainFolder, WithAForeignLogOrPageIsRefused) {
  folder.write("curves.html", "<html>another page</html>");
  EXPECT_FALSE(allows("dit"));
  fs::remove(folder.path() / "curves.html");
  for (const char* log : {"{\"time\":1}\n", "no JSON", "\n\n"}) {
    folder.write("log.jsonl", log);
    EXPECT_FALSE(allows("dit")) << log;
  }
}

TEST_F(TrainFolder, OfARunOfTheSameMethodMayBeRestarted) {
  folder.write("config.json", config_of("dit"));
  folder.write("model.safetensors", "weights");
  EXPECT_FALSE(allows("dit")) << "no log: a model that was copied, or that ships";
  folder.write("log.jsonl", log_of("dit"));
  EXPECT_TRUE(allows("dit"));
  for (const char* other : {"dflash", "free", "classifier", "di", "dit2"}) {
    EXPECT_FALSE(allows(other)) << other;
  }
}

TEST_F(TrainFolder, WithACheckpointIsLeftToTheTrainer) {
  folder.write("config.json", config_of("free"));
  folder.write("checkpoint.safetensors", "x");
  EXPECT_TRUE(allows("dit"));
}

TEST_F(TrainFolder, OfAModelOfOtherMakingIsRefused) {
  folder.write("log.jsonl", log_of("dit"));
  for (const char* config : {"", "[]", "{}", "{\"forerun\":3}", R"({"forerun":{"options":[1]}})",
                             R"({"forerun":{"options":{"objective":7}}})", "no JSON"}) {
    folder.write("config.json", config);
    EXPECT_FALSE(allows("dit")) << config;
  }
  fs::remove(folder.path() / "config.json");
  folder.write("model.safetensors", "weights");
  EXPECT_FALSE(allows("dit"));
}

TEST_F(TrainFolder, WithALogOfSomethingElseIsRefused) {
  folder.write("config.json", config_of("dit"));
  for (const std::string& log : {std::string(), std::string("[1]\n"), std::string("{\"run\":1}\n"),
                                 log_of("free"), std::string("\n").append(log_of("dit"))}) {
    folder.write("log.jsonl", log);
    EXPECT_FALSE(allows("dit")) << log;
  }
}

}  // namespace
}  // namespace forerun
