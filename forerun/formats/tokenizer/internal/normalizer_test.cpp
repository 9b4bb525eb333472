#include "forerun/formats/tokenizer/internal/normalizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "forerun/base/utf8.h"
#include "tests/support/tokenizer_values.h"

namespace forerun::internal {
namespace {

std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  return hash;
}

TEST(Normalizer, NfcOfEveryCodePointBetweenMarksIsTheReferences) {
  const nlohmann::json want = testing::tokenizer_values("classes.json")["nfc"];
  ASSERT_EQ(want.size(), 0x110U);
  for (char32_t start = 0; start < 0x110000; start += 4096) {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (char32_t c = start; c < start + 4096; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      hash =
          fnv1a(*normalized(fmt::format("a{}\u0301\u0334\u05b0\u302a", to_utf8(c)), {Nfc{}}), hash);
    }
    EXPECT_EQ(fmt::format("{:016x}", hash), want[start / 4096])
        << "from U+" << std::hex << static_cast<unsigned>(start);
  }
}

TEST(Normalizer, StepsApplyInOrder) {
  EXPECT_EQ(*normalized("a b", {Prepend{"_"}, Replace{" ", "_"}, Replace{"__", "x"}}), "_a_b");
  EXPECT_EQ(*normalized(std::string("\0 ", 2), {Replace{" ", ""}}), std::string("\0", 1));
  EXPECT_EQ(*normalized("e\u0301", {}), "e\u0301");
  EXPECT_EQ(*normalized("e\u0301", {Nfc{}}), "\u00e9");
}

TEST(Normalizer, GrowthIsBounded) {
  const std::vector<NormalizeStep> doubling(40, Replace{"a", "aa"});  // 2^40 times
  const Result<std::string> bomb = normalized(std::string(1000, 'a'), doubling);
  ASSERT_FALSE(bomb);
  EXPECT_NE(bomb.error().message.find("step 5 of 40 makes more than 16256 bytes of a text of 1000"),
            std::string::npos)
      << bomb.error().message;
  EXPECT_FALSE(normalized("a", {Prepend{std::string(1000, 'b')}}));
  // As published tokenizers grow it: each space to three bytes, and three before the text.
  const std::string spaces(1000, ' ');
  EXPECT_EQ(normalized(spaces, {Prepend{"\u2581"}, Replace{" ", "\u2581"}})->size(), 3003u);
}

}  // namespace
}  // namespace forerun::internal
