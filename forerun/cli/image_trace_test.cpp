#include "forerun/cli/report/image_trace.h"

#include <gtest/gtest.h>

#include "tests/support/page.h"

namespace forerun::cli {
namespace {

using testing::has;
using testing::unbalanced;

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

ImageTracePage example() {
  ImageTracePage page;
  page.title = "An image of class 3 <b>";
  page.command = "forerun generate -m 'a & b'";
  page.facts = {{"drafter", "asd"}};
  page.steps = 130;
  // One kept and one reflected; three kept and one of the target's own;
  // and of two calls one that the target gave, one kept, one reflected.
  page.rounds = {{0, 0, 0, 0, 1}, {1, 0, 3, 1, 2}, {3, 0, 3, 3, 4}, {7, 1, 3, 1, 3}};
  page.predictions = {{0, "\x89PNG"}, {100, "a"}, {129, "ab"}};
  return page;
}

TEST(ImageTrace, ShowsWhatBecameOfEveryStep) {
  const std::string html = render_image_trace(example());
  EXPECT_EQ(occurrences(html, "<rect class=\"kept\" x="), 5U);
  EXPECT_EQ(occurrences(html, "<rect class=\"reflected\" x="), 2U);
  EXPECT_EQ(occurrences(html, "<rect class=\"own\" x="), 3U);
  EXPECT_EQ(occurrences(html, "<line class=\"cut\""), 4U);
  EXPECT_TRUE(has(html, "data:image/png;base64,iVBORw==\""));  // checked with coreutils' base64
  EXPECT_TRUE(has(html, "base64,YQ==\""));
  EXPECT_TRUE(has(html, "base64,YWI=\""));
}

TEST(ImageTrace, IsAWellFormedPageThatFetchesNothing) {
  const std::string html = render_image_trace(example());
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_TRUE(has(html, "An image of class 3 &lt;b&gt;"));
  EXPECT_TRUE(has(html, "a &amp; b"));
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_FALSE(has(html, "http://"));
  EXPECT_FALSE(has(html, "https://"));
}

TEST(ImageTrace, OfNothingIsAPage) { EXPECT_EQ(unbalanced(render_image_trace({})), ""); }

}  // namespace
}  // namespace forerun::cli
