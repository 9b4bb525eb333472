#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "forerun/formats/token_shards.h"
#include "forerun/text.h"
#include "forerun/train.h"
#include "tests/support/chat_model.h"

namespace forerun::testing {

inline const Model& chatty() {
  static const TempFolder folder;
  static const Model model = Model::load(make_chat_model(folder.path() / "model"), Precision::kF32);
  return model;
}

using Documents = std::map<std::int64_t, std::pair<std::int64_t, std::vector<Token>>>;

inline Documents documents_in(const std::filesystem::path& folder) {
  const TokenShards shards = TokenShards::load(folder);
  Documents out;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto tokens = shards.tokens(i);
    const auto value =
        std::pair(shards.prompt(i), std::vector<Token>(tokens.begin(), tokens.end()));
    EXPECT_TRUE(out.emplace(shards.id(i), value).second) << "twice: " << shards.id(i);
  }
  return out;
}

inline const std::vector<std::string> kPrompts = {"hello", "what is a sequence?", "a b a b", "hell",
                                                  "why?",  "one two three"};

inline DistillOptions options(double temperature) {
  DistillOptions o;
  o.generate.sampling.temperature = temperature;
  o.generate.max_tokens = 16;
  o.generate.seed = 3;
  o.generate.batch_size = 4;
  return o;
}

// What `distill` says; "" if it works.
template <class Failure>
std::string complaint(const Model& model, const std::vector<std::string>& prompts,
                      const std::filesystem::path& folder, const DistillOptions& o) {
  try {
    distill(model, prompts, folder.string(), o);
  } catch (const Failure& e) {
    const std::string line = e.what();
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    return line;
  }
  return "";
}

class DistillFolder : public ::testing::Test {
 protected:
  TempFolder folder;
  std::filesystem::path out = folder.path() / "answers";
};

}  // namespace forerun::testing
