#include "forerun/cli/report/diffusion_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using testing::data_of;
using testing::kHostile;
using testing::kHostileShown;

DiffusionTracePage small_page() {
  DiffusionTracePage page;
  page.title = "A prompt";
  page.places = 3;
  page.steps = {{{2, "c"}}, {{0, "a"}, {1, "b"}}};
  return page;
}

TEST(DiffusionTrace, HoldsWhatEveryPassFilled) {
  const json page = data_of(render_diffusion_trace(small_page()));
  EXPECT_EQ(page["places"], 3);
  EXPECT_EQ(page["steps"], json::parse(R"([[[2, "c"]], [[0, "a"], [1, "b"]]])"));
}

TEST(DiffusionTrace, HostileTextsStayTexts) {
  DiffusionTracePage hostile = small_page();
  hostile.title = hostile.command = hostile.version = hostile.steps[0][0].text = kHostile;
  const json page = data_of(render_diffusion_trace(hostile));
  for (const char* key : {"title", "command", "forerun"}) EXPECT_EQ(page[key], kHostileShown);
  EXPECT_EQ(page["steps"][0][0][1], kHostileShown);
}

}  // namespace
}  // namespace forerun::cli
