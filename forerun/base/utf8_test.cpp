#include "forerun/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace forerun {
namespace {

TEST(Utf8, EveryScalarValueSurvives) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c == 0xD800) c = 0xE000;
    const std::string bytes = to_utf8(c);
    const Utf8Char read = first_char(bytes);
    ASSERT_TRUE(read.valid && read.code == c && read.size == bytes.size())
        << std::hex << static_cast<unsigned>(c);
    for (std::size_t n = 1; n < bytes.size(); ++n) ASSERT_EQ(cut_suffix(bytes.substr(0, n)), n);
    ASSERT_EQ(cut_suffix(bytes), 0U);
  }
}

TEST(Utf8, InvalidBytesAreReplacedByMaximalSubparts) {
  // Examples of The Unicode Standard 15.0, tables 3-8 to 3-11.
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFDA");
}

TEST(Utf8, SuffixesThatCannotBecomeACharacterAreNotCut) {
  EXPECT_EQ(cut_suffix(""), 0U);
  EXPECT_EQ(cut_suffix("a"), 0U);
  EXPECT_EQ(cut_suffix("\x80"), 0U);
  EXPECT_EQ(cut_suffix("\xE0\x80"), 0U);  // overlong
  EXPECT_EQ(cut_suffix("\xED\xA0"), 0U);  // a surrogate
  EXPECT_EQ(cut_suffix("a\xF0\x9F"), 2U);
  EXPECT_EQ(cut_suffix("\xFF\xE2"), 1U);
}

}  // namespace
}  // namespace forerun
