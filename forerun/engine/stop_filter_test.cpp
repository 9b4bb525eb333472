#include "forerun/engine/stop_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

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

// What comes before the stop string that is complete first; of several that are, the longest.
std::string by_search(const std::vector<std::string>& stop, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& s : stop) {
      if (text.substr(0, end).ends_with(s)) longest = std::max(longest, s.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopFilter, FindsWhatASearchFindsHoweverTheTextArrives) {
  std::mt19937 random(4);
  const auto letters = [&](std::size_t n) {
    std::string out;
    while (out.size() < n) out += static_cast<char>('a' + random() % 3);
    return out;
  };
  int cut = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> stop;
    for (std::size_t k = random() % 4; stop.size() < k;) stop.push_back(letters(2 + random() % 4));
    const std::string text = letters(20), expected = by_search(stop, text);
    cut += expected.size() < text.size() ? 1 : 0;
    for (const std::size_t n : {1U, 2U, 3U, 7U, 20U}) {
      ASSERT_EQ(filtered(StopFilter(stop), text, n), expected) << text << " in pieces of " << n;
    }
  }
  EXPECT_GT(cut, 500);
  EXPECT_LT(cut, 2500);
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
