#include "forerun/cli/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using testing::has;
using testing::unbalanced;

json drafter(const std::string& name, double ratio) {
  return {{"drafter", name},
          {"tok_s", 20.0 * ratio},
          {"speedup_vs_none", ratio},
          {"tau", 1.5},
          {"outputs", 300},
          {"rounds", 200},
          {"drafted", 400},
          {"examined", {200, 100, 10}},
          {"accepted", {100, 40, 1}},
          {"ms_per_target_pass", 40.0},
          {"ms_per_draft", 8.0},
          {"ms_rest_per_round", 2.0},
          {"exact", true},
          {"identical_to_none", true},
          {"identical_up_to_ties", true},
          {"differences", json::array()},
          {"by_category",
           {{"coding", {{"speedup_vs_none", ratio}, {"tok_s", 20.0 * ratio}, {"tau", 1.5}}},
            {"writing", {{"speedup_vs_none", 0.8}, {"tok_s", 16.0}, {"tau", 1.0}}}}}};
}

json example() {
  return {{"forerun", "0.1.0"},
          {"date", "2025-06-14 09:12 UTC"},
          {"cpu", "A CPU"},
          {"threads", 2},
          {"model", "/models/model.gguf"},
          {"precision", "f32"},
          {"rule", "maximal"},
          {"temperature", 0.0},
          {"seed", 0},
          {"prompts", 49},
          {"prompts_total", 49},
          {"command", "forerun bench --model model.gguf"},
          {"drafters", {drafter("none", 1.0), drafter("lookup", 1.24)}},
          {"cost",
           {{"precision", "f32"},
            {"prefix", 200},
            {"ms", {{"1", 6.1}, {"2", 6.2}, {"8", 7.0}}},
            {"bandwidth_limit_ms", 5.1}}}};
}

TEST(Report, BalanceCheckFindsBrokenPages) {  // the negative control of the tests below
  EXPECT_EQ(unbalanced("<!DOCTYPE html><p><b>x</b><br/></p>"), "");
  EXPECT_EQ(unbalanced("<!DOCTYPE html><p><b>x</p></b>"), "/p");
  EXPECT_EQ(unbalanced("<!DOCTYPE html><p class=\"a\">"), "p");
}

TEST(Report, HasItsChartsAndFacts) {
  const std::string page = render_report(example());
  EXPECT_EQ(unbalanced(page), "");
  for (const char* part :
       {"id=\"speed\"", "id=\"acceptance\"", "id=\"cost\"", "id=\"rounds\"", "model.gguf", "A CPU",
        "1.24 times the speed of plain decoding, with lookup", "Identical:", "linear cost",
        "memory bandwidth: 5.1 ms", "forerun bench --model model.gguf", "(300 / 200)"}) {
    EXPECT_TRUE(has(page, part)) << part;
  }
  EXPECT_FALSE(has(page, "Interrupted"));
  EXPECT_FALSE(has(page, "id=\"lengths\""));
}

TEST(Report, FetchesAndRunsNothing) {
  const std::string page = render_report(example());
  for (const char* part : {"http:", "https:", "//", "<script", "@import", "url(", "src="}) {
    EXPECT_FALSE(has(page, part)) << part;
  }
}

TEST(Report, EscapesEveryText) {
  const std::string evil = "<script>alert('x')</script>\"&\x01\xff";
  json d = example();
  for (const char* key : {"forerun", "date", "cpu", "model", "precision", "rule", "command"}) {
    d[key] = evil;
  }
  d["drafters"][1]["drafter"] = evil;
  d["drafters"][1]["by_category"][evil] = {{"speedup_vs_none", 1.1}};
  d["drafters"][1]["draft_lengths"] = {{"0", 3}, {evil, 4}};
  d["cost"]["precision"] = evil;
  const std::string page = render_report(d);
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_FALSE(has(page, "<script"));
  EXPECT_FALSE(has(page, "\x01"));
  EXPECT_FALSE(has(page, "\xff"));
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;\xEF\xBF\xBD"));
}

TEST(Report, SurvivesWhateverIsMissingOrNoNumber) {
  const json bad[] = {nullptr,
                      std::nan(""),
                      std::numeric_limits<double>::infinity(),
                      -1.0,
                      0,
                      1e300,
                      "text",
                      json::array(),
                      json::object(),
                      {{"1", nullptr}, {"2", std::nan("")}, {"x", 1}, {"-3", 4}},
                      {1, nullptr, "x"}};
  const json whole = example(), row = drafter("none", 1.0);
  for (const json& value : bad) {
    for (const auto& [key, unused] : whole.items()) {
      json d = example();
      d[key] = value;
      EXPECT_EQ(unbalanced(render_report(d)), "") << key << value;
    }
    for (const auto& [key, unused] : row.items()) {
      json d = example();
      d["drafters"][1][key] = value;
      const std::string page = render_report(d);
      EXPECT_EQ(unbalanced(page), "") << key << value;
      EXPECT_FALSE(has(page, "nan") || has(page, "\"inf") || has(page, ">inf")) << key << value;
    }
  }
  for (const json& d : {json(), json::object(), json::array()}) {
    EXPECT_TRUE(has(render_report(d), "No speed was measured"));
  }
}

TEST(Report, SaysHowTheTextsCompare) {
  const auto page = [](const json& change) {
    json d = example();
    d["drafters"][1].update(change);
    for (const auto& [key, value] : change.items()) {
      if (value.is_null()) d["drafters"][1].erase(key);
    }
    return render_report(d);
  };
  const json tie = {{"prompt", 3}, {"position", 5}, {"margin", 1e-5}, {"tie", true}};
  EXPECT_TRUE(
      has(page({{"identical_to_none", false}, {"differences", {tie}}}), "Identical up to ties:"));
  EXPECT_TRUE(
      has(page({{"identical_to_none", false}, {"identical_up_to_ties", false}}), "Different:"));
  EXPECT_TRUE(
      has(page({{"identical_to_none", nullptr}, {"identical_up_to_ties", nullptr}}), "Same law:"));
  const std::string inexact = page({{"exact", false}});
  EXPECT_TRUE(has(inexact, "Inexact:"));
  EXPECT_TRUE(has(inexact, "with lookup (inexact)"));
}

TEST(Report, SaysWhereItWasInterrupted) {
  json d = example();
  d["prompts"] = 12;
  EXPECT_TRUE(has(render_report(d), "Interrupted after 12 of 49 prompts."));
}

TEST(Report, DrawsTheDraftLengthsOfAController) {
  json d = example();
  d["drafters"][1]["draft_lengths"] = {{"0", 30}, {"1", 1500}, {"4", 20}};
  const std::string page = render_report(d);
  EXPECT_TRUE(has(page, "id=\"lengths\""));
  EXPECT_TRUE(has(page, "1,550 rounds"));
  d["drafters"][1]["draft_lengths"] = json::object();
  EXPECT_FALSE(has(render_report(d), "id=\"lengths\""));
}

TEST(Report, LeavesTheCostOutWhereItWasNotMeasured) {
  json d = example();
  d["cost"] = nullptr;
  EXPECT_FALSE(has(render_report(d), "id=\"cost\""));
  d = example();
  d["cost"]["ms"].erase("1");  // no ratio and no linear cost without M = 1
  const std::string page = render_report(d);
  EXPECT_TRUE(has(page, "id=\"cost\""));
  EXPECT_FALSE(has(page, ">linear cost</text>"));
}

TEST(Report, KeepsDraftersApartWhoseFilesShareAName) {
  json d = example();
  d["drafters"].push_back(drafter("draft-model:/a/model.gguf", 1.1));
  EXPECT_TRUE(has(render_report(d), ">draft-model:model.gguf<"));
  d["drafters"].push_back(drafter("draft-model:/b/model.gguf", 1.1));
  const std::string page = render_report(d);
  EXPECT_FALSE(has(page, ">draft-model:model.gguf<"));
  EXPECT_TRUE(has(page, ">draft-model:/b/model.gguf<"));
}

}  // namespace
}  // namespace forerun::cli
