#include "forerun/cli/report/image_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using testing::data_of;
using testing::kHostile;
using testing::kHostileShown;

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

TEST(ImageTrace, HoldsWhatBecameOfEveryStep) {
  const json page = data_of(render_image_trace(example()));
  EXPECT_EQ(page["cells"], "tkrkkkttkr" + std::string(120, ' '));
  EXPECT_EQ(page["steps"], 130);
  EXPECT_EQ(page["rounds"],
            json({{0, 0, 0, 0, 1}, {1, 0, 3, 1, 2}, {3, 0, 3, 3, 4}, {7, 1, 3, 1, 3}}));
  ASSERT_EQ(page["predictions"].size(), 3U);
  EXPECT_EQ(page["predictions"][0], json({{"step", 0}, {"png", "iVBORw=="}}));  // coreutils' base64
  EXPECT_EQ(page["predictions"][1]["png"], "YQ==");
  EXPECT_EQ(page["predictions"][2]["png"], "YWI=");
}

TEST(ImageTrace, HostileTextsStayTexts) {
  ImageTracePage hostile = example();
  hostile.title = hostile.command = hostile.version = kHostile;
  hostile.facts = {{kHostile, kHostile}};
  const json page = data_of(render_image_trace(hostile));
  for (const char* key : {"title", "command", "forerun"}) EXPECT_EQ(page[key], kHostileShown);
  EXPECT_EQ(page["facts"], json::array({json::array({kHostileShown, kHostileShown})}));
}

TEST(ImageTrace, RoundsBeyondTheStepsAreCut) {
  ImageTracePage page = example();
  page.steps = 8;
  EXPECT_EQ(data_of(render_image_trace(page))["cells"], "tkrkkktt");
}

TEST(ImageTrace, OfNothingIsAPage) {
  const json page = data_of(render_image_trace({}));
  EXPECT_EQ(page["cells"], "");
  EXPECT_TRUE(page["rounds"].empty() && page["predictions"].empty() && page["facts"].empty());
}

}  // namespace
}  // namespace forerun::cli
