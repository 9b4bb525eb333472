#include "forerun/engine/stop_filter.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

// Text fed in pieces of `n` characters.
std::string filtered(StopFilter filter, const std::string& text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += n) out += filter.push(text.substr(i, n));
  return out + filter.flush();
}

TEST(StopFilter, CutsAtTheFirstStopStringHoweverTheTextArrives) {
  for (std::size_t n = 1; n < 12; ++n) {
    EXPECT_EQ(filtered(StopFilter({"STOP", "END"}), "one STO two END three STOP", n),
              "one STO two ");
    EXPECT_EQ(filtered(StopFilter({"aab"}), "aaaab!", n), "aa");
    EXPECT_EQ(filtered(StopFilter({"xyz"}), "nothing of it xy", n), "nothing of it xy");
  }
}

TEST(StopFilter, HoldsBackOnlyWhatMayBecomeAStopString) {
  StopFilter filter({"\n\nQ:"});
  EXPECT_EQ(filter.push("answer"), "answer");
  EXPECT_EQ(filter.push(".\n"), ".");
  EXPECT_EQ(filter.push("\nA"), "\n\nA");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, WithoutStopStringsLetsEverythingThrough) {
  EXPECT_EQ(filtered(StopFilter({""}), "text", 1), "text");
}

TEST(StopFilter, StaysSilentAfterTheStop) {
  StopFilter filter({"."});
  EXPECT_EQ(filter.push("a.b"), "a");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("c"), "");
  EXPECT_EQ(filter.flush(), "");
}

}  // namespace
}  // namespace forerun
