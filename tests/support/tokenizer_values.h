#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/formats/tokenizer/tokenizer.h"

namespace forerun::testing {

/// A file of tests/data/tokenizer (tools/make_tokenizer_values.py).
inline std::string tokenizer_file(const std::string& name) {
  std::ifstream in(FORERUN_SOURCE_DIR "/tests/data/tokenizer/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline nlohmann::json tokenizer_values(const std::string& name) {
  return nlohmann::json::parse(tokenizer_file(name));
}

/// The texts of texts.json, as bytes.
inline std::vector<std::string> hostile_texts() {
  std::vector<std::string> out;
  for (const auto& entry : tokenizer_values("texts.json")) {
    std::string text;
    if (entry.contains("hex")) {
      const std::string hex = entry["hex"];
      for (std::size_t i = 0; i < hex.size(); i += 2)
        text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    } else if (entry.contains("repeat")) {
      for (int i = 0; i < entry["repeat"][1].get<int>(); ++i)
        text += entry["repeat"][0].get<std::string>();
    } else {
      text = entry["text"];
    }
    out.push_back(text);
  }
  return out;
}

inline std::vector<std::string> with_prompts(std::vector<std::string> texts) {
  for (const auto& prompt : tokenizer_values("prompts.json")) texts.push_back(prompt);
  return texts;
}

/// Ids as the script packs them: [i, n] is n times i.
inline std::vector<Token> unpacked(const nlohmann::json& packed) {
  std::vector<Token> out;
  for (const auto& entry : packed) {
    if (entry.is_array()) {
      out.insert(out.end(), entry[1].get<std::size_t>(), entry[0].get<Token>());
    } else {
      out.push_back(entry);
    }
  }
  return out;
}

/// Every text must have the reference's ids. Returns the number compared.
inline std::size_t expect_ids(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                              const nlohmann::json& expected, Special special) {
  EXPECT_EQ(texts.size(), expected.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Token> want = unpacked(expected.at(i));
    const std::vector<Token> got = tokenizer.encode(texts[i], special);
    if (got == want) continue;
    ADD_FAILURE() << "text " << i << ": " << ::testing::PrintToString(texts[i].substr(0, 200))
                  << "\n  want " << nlohmann::json(want).dump().substr(0, 500) << "\n  got  "
                  << nlohmann::json(got).dump().substr(0, 500);
  }
  return texts.size();
}

}  // namespace forerun::testing
