#include "forerun/cli/report/text_trace.h"

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

TEST(TextTrace, HoldsEveryRound) {
  TextTracePage page;
  page.title = "Why?";
  page.rounds = {{.drafts = {{"a", -1, true}, {" b", 0, false}, {"c", -1, false}},
                  .own = "\n",
                  .outputs = 2,
                  .drafter_ms = 0.5,
                  .target_ms = 4.0},
                 {.drafts = {}, .own = "x", .outputs = 1}};
  const json shown = data_of(render_text_trace(page));
  ASSERT_EQ(shown["rounds"].size(), 2U);
  EXPECT_EQ(shown["rounds"][0]["drafts"],
            json::array({json::array({"a", -1, true}), json::array({" b", 0, false}),
                         json::array({"c", -1, false})}));
  EXPECT_EQ(shown["rounds"][0]["own"], "\n");
  EXPECT_EQ(shown["rounds"][0]["target"], 4.0);
  EXPECT_EQ(shown["rounds"][1]["drafts"], json::array());
}

TEST(TextTrace, HostileTextsStayTexts) {
  TextTracePage page;
  page.title = page.command = page.version = kHostile;
  page.facts = {{kHostile, kHostile}};
  page.rounds = {{.drafts = {{kHostile, -1, false}}, .own = kHostile, .outputs = 1}};
  const json shown = data_of(render_text_trace(page));
  for (const char* key : {"title", "command", "forerun"}) EXPECT_EQ(shown[key], kHostileShown);
  EXPECT_EQ(shown["rounds"][0]["own"], kHostileShown);
  EXPECT_EQ(shown["rounds"][0]["drafts"][0][0], kHostileShown);
}

}  // namespace
}  // namespace forerun::cli
