#include "forerun/base/quote.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(Quote, KeepsTextThatCanBeSeen) {
  EXPECT_EQ(quote("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(quote("\u0120the caf\u00e9 \u4e2d"), "'\u0120the caf\u00e9 \u4e2d'");
}

TEST(Quote, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(quote("a\x1b[2Jb\n"), "'a\\x1b[2Jb\\x0a'");
  EXPECT_EQ(quote("\x7f"), "'\\x7f'");
  EXPECT_EQ(quote("\u009b31m"), "'\\xc2\\x9b31m'");       // one byte's worth of ESC [
  EXPECT_EQ(quote("\u202egnp"), "'\\xe2\\x80\\xaegnp'");  // turns the line's direction
  EXPECT_EQ(quote("\xff\xc3"), "'\\xff\\xc3'");
}

TEST(Quote, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(quote("abcdef", 3), "'abc...'");
  EXPECT_EQ(printable("\u00e9\u00e9\u00e9", 3), "\u00e9\u00e9...");
  EXPECT_LE(printable(std::string(5'000'000, '\x1b')).size(), 4 * 200u + 3);
}

}  // namespace
}  // namespace forerun
