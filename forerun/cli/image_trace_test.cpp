#include "forerun/cli/report/image_trace.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using testing::data_of;
using testing::kHostile;
using testing::kHostileShown;

ImageTracePage example_page() {
  ImageTracePage page;
  page.title = "An image of class 3 <b>";
  page.command = "forerun generate -m 'a & b'";
  page.facts = {{"drafter", "asd"}};
  page.steps = 130;
  // One kept and one reflected; three kept and one of the target's own;
  // and of two calls one that the target gave, one kept, one reflected.
  page.rounds = {{0, 0, 0, 0, 1}, {1, 0, 3, 1, 2}, {3, 0, 3, 3, 4}, {7, 1, 3, 1, 3}};
  page.previews = {{0, "\x89PNG"}, {100, "a"}, {129, "ab"}};
  return page;
}

TEST(ImageTrace, HoldsWhatBecameOfEveryStep) {
  const json page = data_of(render_image_trace(example_page()));
  EXPECT_EQ(page["cells"], "tkrkkkttkr" + std::string(120, ' '));
  EXPECT_EQ(page["steps"], 130);
  EXPECT_EQ(page["rounds"],
            json({{0, 0, 0, 0, 1}, {1, 0, 3, 1, 2}, {3, 0, 3, 3, 4}, {7, 1, 3, 1, 3}}));
  ASSERT_EQ(page["previews"].size(), 3U);
  EXPECT_EQ(page["previews"][0], json({{"step", 0}, {"png", "iVBORw=="}}));  // coreutils' base64
  EXPECT_EQ(page["previews"][1]["png"], "YQ==");
  EXPECT_EQ(page["previews"][2]["png"], "YWI=");
}

TEST(ImageTrace, HostileTextsStayTexts) {
  ImageTracePage hostile = example_page();
  hostile.title = hostile.command = hostile.version = kHostile;
  hostile.facts = {{kHostile, kHostile}};
  const json page = data_of(render_image_trace(hostile));
  for (const char* key : {"title", "command", "forerun"}) EXPECT_EQ(page[key], kHostileShown);
  EXPECT_EQ(page["facts"], json::array({json::array({kHostileShown, kHostileShown})}));
}

TEST(ImageTrace, RoundsBeyondTheStepsAreCut) {
  ImageTracePage page = example_page();
  page.steps = 8;
  EXPECT_EQ(data_of(render_image_trace(page))["cells"], "tkrkkktt");
}

TEST(ImageTrace, OfNothingIsAPage) {
  const json page = data_of(render_image_trace({}));
  EXPECT_EQ(page["cells"], "");
  EXPECT_TRUE(page["rounds"].empty() && page["previews"].empty() && page["facts"].empty());
}

ImageTracePage tokens_example() {
  ImageTracePage page;
  page.title = "An image";
  page.side = 2;
  page.tokens = {{.round = 0, .place = 0, .fate = 't', .chain = {{0.0F, 0.0F}, {1.23456F, 0.5F}}},
                 {.round = 1,
                  .place = 3,
                  .fate = 'm',
                  .chain = {{0.0F, 0.0F}, {1.0F, 0.0F}},
                  .draft = {{0.0F, 0.0F}, {1.0F, 0.0F}},
                  .together = {1}}};
  page.rounds = {{0, 0, 0, 0, 1}, {1, 0, 2, 1, 2}};
  page.previews = {{1, "\x89PNG"}};
  return page;
}

TEST(TokenTrace, HoldsEveryTokenWithItsChains) {
  const json page = data_of(render_image_trace(tokens_example()));
  EXPECT_EQ(page["side"], 2);
  ASSERT_EQ(page["tokens"].size(), 2U);
  EXPECT_EQ(page["tokens"][0]["fate"], "t");
  EXPECT_EQ(page["tokens"][0]["chain"], json({{0.0, 0.0}, {1.235, 0.5}}));
  EXPECT_TRUE(page["tokens"][0]["draft"].empty());
  EXPECT_EQ(page["tokens"][1]["place"], 3);
  EXPECT_EQ(page["tokens"][1]["together"], json({1}));
  EXPECT_EQ(page["rounds"], json({{0, 0, 0, 0, 1}, {1, 0, 2, 1, 2}}));
  EXPECT_EQ(page["previews"][0], json({{"step", 1}, {"png", "iVBORw=="}}));
}

TEST(TokenTrace, NumbersThatAreNotFiniteAreNone) {
  ImageTracePage page = tokens_example();
  page.tokens[0].chain[1].first = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(data_of(render_image_trace(page))["tokens"][0]["chain"][1][0].is_null());
}

TEST(TokenTrace, OfNothingIsAPage) {
  const json page = data_of(render_image_trace({.side = 4}));
  EXPECT_TRUE(page["tokens"].empty() && page["rounds"].empty() && page["previews"].empty());
}

}  // namespace
}  // namespace forerun::cli
