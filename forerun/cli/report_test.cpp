#include "forerun/cli/report.h"

#include <gtest/gtest.h>

#include <cmath>
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

json page_of(const json& document) { return data_of(render_report(document)); }

json page_with(const json& change) {
  json d = example();
  d["drafters"][1].update(change);
  return page_of(d);
}

TEST(Report, HoldsTheDocumentAndItsFinding) {
  json document = example();
  document["drafters"][1]["by_prompt"] = {{{"outputs", 3}}};
  const json page = page_of(document);
  EXPECT_EQ(page["headline"], "1.24 times the speed of plain decoding, with lookup");
  EXPECT_EQ(page["verdict"]["head"], "Identical:");
  EXPECT_EQ(page["verdict"]["kind"], "good");
  json whole = example();
  for (const std::size_t i : {0, 1}) {
    json held = page["drafters"][i];
    held.erase("shown");
    held.erase("against_plain");
    EXPECT_EQ(held, whole["drafters"][i]);  // hence no "by_prompt"
  }
  whole.erase("drafters");
  for (const auto& [key, value] : whole.items()) EXPECT_EQ(page[key], value) << key;
  EXPECT_EQ(page["drafters"][0]["shown"], "plain decoding");
  EXPECT_EQ(page["drafters"][1]["against_plain"], "identical");
}

TEST(Report, HostileTextsStayTexts) {
  json d = example();
  const auto keys = {"forerun", "date", "cpu", "model", "precision", "rule", "command"};
  for (const char* key : keys) d[key] = kHostile;
  d["drafters"][1]["drafter"] = kHostile;
  d["drafters"][1]["by_category"][kHostile] = {{"speedup_vs_none", 1.1}};
  d["cost"]["precision"] = kHostile;
  const json page = page_of(d);
  for (const char* key : keys) EXPECT_EQ(page[key], kHostileShown) << key;
  EXPECT_EQ(page["drafters"][1]["drafter"], kHostileShown);
  EXPECT_TRUE(page["drafters"][1]["by_category"].contains(kHostileShown));
}

TEST(Report, ToleratesMissingAndInvalidFields) {
  const json bad[] = {nullptr,
                      std::nan(""),
                      std::numeric_limits<double>::infinity(),
                      -1.0,
                      1e300,
                      "text",
                      json::array(),
                      json::object(),
                      {{"1", nullptr}, {"2", std::nan("")}, {"x", 1}, {"-3", 4}},
                      {1, nullptr, "x"}};
  const json whole = example();
  for (const json& value : bad) {
    for (const auto& [key, unused] : whole.items()) {
      json d = example();
      d[key] = value;
      EXPECT_TRUE(page_of(d)["headline"].is_string()) << key << value;
    }
    for (const auto& [key, unused] : whole["drafters"][0].items()) {
      EXPECT_TRUE(page_with({{key, value}})["verdict"]["text"].is_string()) << key << value;
    }
    EXPECT_EQ(page_of(value)["headline"], "No speed was measured");
  }
  EXPECT_EQ(page_with({{"speedup_vs_none", std::nan("")}})["headline"],
            "Plain decoding: 20.0 tok/s");
}

TEST(Report, ReportsTheBestDrafter) {
  const auto headline = [](double ratio) {
    return page_with({{"speedup_vs_none", ratio}})["headline"];
  };
  EXPECT_EQ(headline(1.004), "lookup is as fast as plain decoding");
  EXPECT_EQ(headline(0.87),
            "Nothing beats plain decoding; the best, lookup, runs at 0.87 times its speed");
  json d = example();
  d["drafters"].push_back(drafter("two-calls", 1.5));
  d["drafters"].push_back(drafter("dflash", 1.1));
  EXPECT_EQ(page_of(d)["headline"], "1.50 times the speed of plain decoding, with two-calls");
}

TEST(Report, ReportsHowTheTextsCompare) {
  const auto check = [](const json& change, const char* kind, const char* head, const char* row) {
    const json page = page_with(change);
    EXPECT_EQ(page["verdict"]["kind"], kind);
    EXPECT_EQ(page["verdict"]["head"], head);
    EXPECT_EQ(page["drafters"][1]["against_plain"], row);
  };
  const json no = false, none = nullptr;
  check({{"identical_to_none", no}}, "good", "Identical up to ties:", "ties");
  check({{"identical_to_none", no}, {"identical_up_to_ties", no}}, "bad",
        "Different:", "different");
  check({{"identical_to_none", none}, {"identical_up_to_ties", none}}, "good",
        "Same law:", "same law");
  check({{"exact", no}}, "warn", "Inexact:", "inexact");
  check({{"exact", none}, {"identical_to_none", none}, {"identical_up_to_ties", none}}, "plain",
        "n/a:", "unknown");
  EXPECT_EQ(page_with({{"exact", no}})["headline"],
            "1.24 times the speed of plain decoding, with lookup (inexact)");
}

TEST(Report, TheWorstDrafterGivesTheVerdict) {
  json d = example();
  d["drafters"].push_back(drafter("two-calls", 1.1));
  d["drafters"][1].update({{"identical_to_none", false}, {"identical_up_to_ties", false}});
  EXPECT_EQ(page_of(d)["verdict"]["head"], "Different:");
  d["drafters"][1] = {{"drafter", "unknown"}};  // nothing is claimed for all of them
  EXPECT_EQ(page_of(d)["verdict"]["head"], "n/a:");
}

TEST(Report, KeepsDraftersApartWhoseFilesShareAName) {
  json d = example();
  d["drafters"].push_back(drafter("draft-model:/a/model.gguf", 1.1));
  EXPECT_EQ(page_of(d)["drafters"][2]["shown"], "draft-model:model.gguf");
  d["drafters"].push_back(drafter("draft-model:/b/model.gguf", 1.1));
  EXPECT_EQ(page_of(d)["drafters"][2]["shown"], "draft-model:/a/model.gguf");
  EXPECT_EQ(page_of(d)["drafters"][3]["shown"], "draft-model:/b/model.gguf");
}

}  // namespace
}  // namespace forerun::cli
