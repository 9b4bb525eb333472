#include "forerun/formats/tokenizer/tokenizer_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/formats/tokenizer/tokenizer.h"
#include "tests/support/mutate.h"
#include "tests/support/tokenizer_values.h"

namespace forerun {
namespace {

using nlohmann::json;

json small() {
  return {{"model",
           {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
}

std::string error_of(const json& root, const std::string& config = "") {
  const Result<TokenizerSpec> spec = parse_tokenizer_json(root.dump(), config);
  return spec ? "" : spec.error().message;
}

TEST(TokenizerJson, ReadsMergesInBothForms) {
  json root = small();
  EXPECT_EQ(parse_tokenizer_json(root.dump(), "")->merges.front().second, "b");
  root["model"]["merges"] = json::array({json::array({"a", "b"})});
  EXPECT_EQ(parse_tokenizer_json(root.dump(), "")->merges.front().second, "b");
}

TEST(TokenizerJson, ConfigNamesTheSpecialTokens) {
  const std::string config =
      R"({"bos_token": "a", "eos_token": {"content": "b"}, "pad_token": null, "add_bos_token": true})";
  const Result<TokenizerSpec> spec = parse_tokenizer_json(small().dump(), config);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->bos, 0);
  EXPECT_EQ(spec->eos, 1);
  EXPECT_EQ(spec->pad, std::nullopt);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_FALSE(spec->add_eos);
}

TEST(TokenizerJson, OtherModelsAndStepsAreNamed) {
  const auto with = [](const char* path, const json& value) {
    json root = small();
    root[json::json_pointer(path)] = value;
    return error_of(root);
  };
  EXPECT_NE(with("/model/type", "Unigram").find("Unigram"), std::string::npos);
  EXPECT_NE(with("/model/type", "WordPiece").find("'WordPiece' is not supported"),
            std::string::npos);
  EXPECT_NE(with("/normalizer", {{"type", "Lowercase"}}).find("'Lowercase' is not supported"),
            std::string::npos);
  EXPECT_NE(with("/pre_tokenizer", {{"type", "Whitespace"}}).find("'Whitespace' is not supported"),
            std::string::npos);
  EXPECT_NE(with("/model/dropout", 0.5).find("dropout"), std::string::npos);
  EXPECT_NE(with("/model/end_of_word_suffix", "</w>").find("end_of_word_suffix"),
            std::string::npos);
  EXPECT_NE(with("/model/vocab/c", 1 << 30).find("id 1073741824"), std::string::npos);
  EXPECT_NE(with("/model/vocab/c", 1).find("id 1 is both"), std::string::npos);
  EXPECT_NE(with("/model/merges", {"a b c"}).find("merge 0"), std::string::npos);
  EXPECT_NE(with("/added_tokens", {{{"id", 0}, {"content", "x"}}}).find("added token 'x' has id 0"),
            std::string::npos);
  EXPECT_EQ(with("/model/type", nullptr), "");
}

TEST(TokenizerJson, StringsOfTheFileAreShownEscapedAndCut) {
  const std::string hostile = "\x1b[2J" + std::string(5'000'000, 'x');
  for (const char* path : {"/model/type", "/normalizer/type", "/pre_tokenizer/type",
                           "/model/unk_token", "/added_tokens/0/content"}) {
    json root = small();
    root["added_tokens"] = {{{"id", 0}, {"content", "a"}}};
    root[json::json_pointer(path)] = hostile;
    const std::string message = error_of(root);
    EXPECT_NE(message.find("'\\x1b[2Jxxx"), std::string::npos) << path;
    EXPECT_LT(message.size(), 400u) << path;
  }
}

TEST(TokenizerJson, DeepNestingIsRefused) {
  std::string deep = R"({"model":)";
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
  EXPECT_FALSE(parse_tokenizer_json(deep, ""));
  EXPECT_FALSE(parse_tokenizer_json("", ""));
  EXPECT_FALSE(parse_tokenizer_json("[]", ""));
  EXPECT_FALSE(parse_tokenizer_json(small().dump(), "[1]"));
}

// Whatever the bytes are: an error, or a tokenizer that encodes and decodes.
TEST(TokenizerJson, DamagedFilesNeverCrash) {
  std::vector<testing::Bytes> seeds;
  for (const char* name :
       {"gpt2.json", "llama3.json", "qwen2.json", "gemma.json", "metaspace.json"}) {
    json root = testing::tokenizer_values(name);
    // Fewer merges, so that damage meets the structure more often than the lists.
    json& merges = root["model"]["merges"];
    if (merges.size() > 20) merges.erase(merges.begin() + 20, merges.end());
    seeds.push_back(testing::bytes_of(root.dump()));
  }
  seeds.push_back(testing::bytes_of(small().dump()));
  std::uint64_t made = 0;
  const std::uint64_t tried =
      testing::for_each_mutant(seeds, [&](const testing::Bytes& mutant, std::uint64_t) {
        Result<TokenizerSpec> spec = parse_tokenizer_json(testing::text_of(mutant), "");
        if (!spec) {
          EXPECT_FALSE(spec.error().message.empty());
          return;
        }
        const Result<Tokenizer> tokenizer = make_tokenizer(*std::move(spec));
        if (!tokenizer) {
          EXPECT_FALSE(tokenizer.error().message.empty());
          return;
        }
        ++made;
        try {
          tokenizer->decode(
              tokenizer->encode("The <|im_end|> 12 caf\u00e9 \xff\n\n  x", Special::kParse));
        } catch (const std::runtime_error&) {  // a split pattern that never ends
        }
      });
  EXPECT_GT(made, 0U);
  EXPECT_LT(made, tried);
}

}  // namespace
}  // namespace forerun
