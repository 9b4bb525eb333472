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
          fnv1a(normalized(fmt::format("a{}\u0301\u0334\u05b0\u302a", to_utf8(c)), {Nfc{}}), hash);
    }
    EXPECT_EQ(fmt::format("{:016x}", hash), want[start / 4096])
        << "from U+" << std::hex << static_cast<unsigned>(start);
  }
}

TEST(Normalizer, StepsApplyInOrder) {
  EXPECT_EQ(normalized("a b", {Prepend{"_"}, Replace{" ", "_"}, Replace{"__", "x"}}), "_a_b");
  EXPECT_EQ(normalized(std::string("\0 ", 2), {Replace{" ", ""}}), std::string("\0", 1));
  EXPECT_EQ(normalized("e\u0301", {}), "e\u0301");
  EXPECT_EQ(normalized("e\u0301", {Nfc{}}), "\u00e9");
}

}  // namespace
}  // namespace forerun::internal
