#include "forerun/formats/hf_config.h"

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using nlohmann::json;

std::string error_of(const std::filesystem::path& folder) {
  try {
    (void)load_hf_config(folder);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "did not throw";
}

TEST(HfConfig, ReadsBothFiles) {
  const testing::TempFolder folder;
  folder.write("config.json", R"({"model_type":"llama","eos_token_id":2})");
  folder.write("generation_config.json", R"({"eos_token_id":[2,7],"temperature":0.6})");
  const HfConfig config = load_hf_config(folder.path());
  EXPECT_EQ(config.config["model_type"], "llama");
  EXPECT_EQ(config.generation["temperature"], 0.6);
  EXPECT_EQ(config.end_of_sequence, (std::vector<Token>{2, 7}));
}

TEST(HfConfig, GenerationSettingsMayBeMissing) {
  const testing::TempFolder folder;
  folder.write("config.json", R"({"eos_token_id":2})");
  const HfConfig config = load_hf_config(folder.path());
  EXPECT_TRUE(config.generation.is_object() && config.generation.empty());
  EXPECT_EQ(config.end_of_sequence, std::vector<Token>{2});
}

TEST(HfConfig, NamesTheFileAtFault) {
  const testing::TempFolder folder;
  const std::string path = folder.path().string();
  EXPECT_EQ(error_of(folder.path()), path + "/config.json: no such file; check the path");
  folder.write("config.json", "[]");
  EXPECT_EQ(error_of(folder.path()),
            path + "/config.json: holds a JSON array, expected an object; download it again");
  folder.write("config.json", "{\"a\": NaN}");
  EXPECT_EQ(error_of(folder.path()).find(path + "/config.json: not valid JSON"), 0u);
  folder.write("config.json", "{}");
  folder.write("generation_config.json", "");
  EXPECT_EQ(error_of(folder.path()).find(path + "/generation_config.json: is empty"), 0u);
  EXPECT_NE(error_of(folder.path() / "config.json").find("is not a folder"), std::string::npos);
  EXPECT_NE(error_of("/no/such/folder").find("is not a folder"), std::string::npos);
}

TEST(HfConfig, FindsEndsOfSequenceWhereTheyAre) {
  const auto ids = [](const char* config, const char* generation) {
    return *parse_end_of_sequence(json::parse(config), json::parse(generation));
  };
  EXPECT_EQ(ids("{}", "{}"), std::vector<Token>{});
  EXPECT_EQ(ids("{}", "null"), std::vector<Token>{});
  EXPECT_EQ(ids(R"({"eos_token_id":null})", "{}"), std::vector<Token>{});
  EXPECT_EQ(ids(R"({"eos_token_id":[1,2]})", R"({"eos_token_id":null})"),
            (std::vector<Token>{1, 2}));
  EXPECT_EQ(ids(R"({"text_config":{"eos_token_id":5}})", "{}"), std::vector<Token>{5});
}

TEST(HfConfig, NamesTheFileOfTheEnds) {
  const testing::TempFolder folder;
  const std::string path = folder.path().string();
  folder.write("config.json", R"({"eos_token_id":4294967295})");
  EXPECT_EQ(error_of(folder.path()).find(path + "/config.json: eos_token_id holds 4294967295"), 0u);
  folder.write("generation_config.json", R"({"eos_token_id":-1})");
  EXPECT_EQ(error_of(folder.path()).find(path + "/generation_config.json: eos_token_id"), 0u);
  folder.write("generation_config.json", R"({"eos_token_id":7})");
  EXPECT_EQ(load_hf_config(folder.path()).end_file, path + "/generation_config.json");
}

TEST(HfConfig, RefusesIdsThatAreNoTokens) {
  for (const char* bad : {"-1", "2147483648", "1.5", "\"</s>\"", "[1,-1]", "[[1]]", "true"}) {
    const json config = {{"eos_token_id", json::parse(bad)}};
    const auto ids = parse_end_of_sequence(config, {});
    ASSERT_FALSE(ids) << bad;
    EXPECT_EQ(ids.error().message.find("eos_token_id holds "), 0u) << ids.error().message;
  }
  EXPECT_EQ(*parse_end_of_sequence(json::parse(R"({"eos_token_id":2147483647})"), {}),
            std::vector<Token>{2147483647});
}

}  // namespace
}  // namespace forerun
