#include "forerun/cli/report/token_trace.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using testing::data_of;
using testing::kHostile;
using testing::kHostileShown;

TokenTracePage example() {
  TokenTracePage page;
  page.title = "An image";
  page.side = 2;
  page.tokens = {{.round = 0, .place = 0, .fate = 't', .chain = {{0.0F, 0.0F}, {1.23456F, 0.5F}}},
                 {.round = 1,
                  .place = 3,
                  .fate = 'm',
                  .chain = {{0.0F, 0.0F}, {1.0F, 0.0F}},
                  .draft = {{0.0F, 0.0F}, {1.0F, 0.0F}},
                  .together = {1}}};
  page.rounds = {{0, 0, 0, 1}, {1, 2, 1, 2}};
  page.images = {{1, "\x89PNG"}};
  return page;
}

TEST(TokenTrace, HoldsEveryTokenWithItsChains) {
  const json page = data_of(render_token_trace(example()));
  EXPECT_EQ(page["side"], 2);
  ASSERT_EQ(page["tokens"].size(), 2U);
  EXPECT_EQ(page["tokens"][0]["fate"], "t");
  EXPECT_EQ(page["tokens"][0]["chain"], json({{0.0, 0.0}, {1.235, 0.5}}));
  EXPECT_TRUE(page["tokens"][0]["draft"].empty());
  EXPECT_EQ(page["tokens"][1]["place"], 3);
  EXPECT_EQ(page["tokens"][1]["together"], json({1}));
  EXPECT_EQ(page["rounds"], json({{0, 0, 0, 1}, {1, 2, 1, 2}}));
  EXPECT_EQ(page["images"][0], json({{"tokens", 1}, {"png", "iVBORw=="}}));
}

TEST(TokenTrace, HostileTextsStayTexts) {
  TokenTracePage hostile = example();
  hostile.title = hostile.command = hostile.version = kHostile;
  hostile.facts = {{kHostile, kHostile}};
  const json page = data_of(render_token_trace(hostile));
  for (const char* key : {"title", "command", "forerun"}) EXPECT_EQ(page[key], kHostileShown);
}

TEST(TokenTrace, NumbersThatAreNotFiniteAreNone) {
  TokenTracePage page = example();
  page.tokens[0].chain[1].first = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(data_of(render_token_trace(page))["tokens"][0]["chain"][1][0].is_null());
}

TEST(TokenTrace, OfNothingIsAPage) {
  const json page = data_of(render_token_trace({}));
  EXPECT_TRUE(page["tokens"].empty() && page["rounds"].empty() && page["images"].empty());
}

}  // namespace
}  // namespace forerun::cli
