#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/cli/report/training.h"
#include "tests/support/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using testing::data_of;
using testing::kHostile;

json step_line(int step) {
  return {{"step", step},
          {"epoch", 0.1 * step},
          {"loss", 9.0 / step},
          {"smoothed_loss", 10.0 / step},
          {"learning_rate", 1e-3},
          {"gradient_norm", 2.5},
          {"tokens", 100 * step},
          {"tokens_per_second", 1234.0},
          {"gflops_per_second", 250.0},
          {"seconds", 7.0 * step},
          {"figures", {{"accuracy", 0.01 * step}}}};
}

std::vector<json> example_run() {
  std::vector<json> lines = {
      {{"run",
        {{"options", {{"objective", "dflash for a model"}, {"steps", 100}, {"batch", 32}}},
         {"surroundings", {{"ranks", 2}, {"threads", 1}}},
         {"provenance", {{"command", "forerun train"}, {"forerun", "0.1.0"}}}}}}};
  for (int step = 1; step <= 40; ++step) {
    lines.push_back(step_line(step));
    if (step % 10 == 0) {
      lines.push_back(
          {{"held_out",
            {{"step", step}, {"loss", 11.0 / step}, {"figures", {{"accuracy", 0.2}}}}}});
    }
    if (step == 20) lines.push_back({{"resumed", {{"step", 20}}}});
  }
  return lines;
}

std::string text(const std::vector<json>& lines) {
  std::string out;
  for (const json& line : lines) {
    out += line.dump(-1, ' ', false, json::error_handler_t::ignore) + "\n";
  }
  return out;
}

json page_of_run(const std::vector<json>& lines) { return data_of(render_training(text(lines))); }

json curve(const json& curves, const std::string& name) {
  for (const json& c : curves) {
    if (c["name"] == name) return c;
  }
  return nullptr;
}

TEST(TrainingReport, HoldsEveryCurveAndFact) {
  const json page = page_of_run(example_run());
  EXPECT_EQ(page["run"], example_run()[0]["run"]);
  EXPECT_EQ(page["resumed"], json({20.0}));
  EXPECT_EQ(page["tokens"], 4000);
  EXPECT_EQ(page["seconds"], 280.0);
  ASSERT_EQ(page["series"].size(), 6U);
  const json loss = curve(page["series"], "loss");
  ASSERT_EQ(loss["points"].size(), 40U);
  EXPECT_EQ(loss["points"][3], json({4.0, 2.25, 2.25, 2.25}));
  EXPECT_EQ(loss["last"], 9.0 / 40);
  EXPECT_EQ(loss["median"], 9.0 / 20);
  EXPECT_EQ(page["figures"].size(), 1U);
  EXPECT_EQ(curve(page["figures"], "accuracy")["points"].size(), 40U);
  EXPECT_EQ(curve(page["held_out"], "loss")["points"].size(), 4U);
  EXPECT_EQ(curve(page["held_out"], "accuracy")["last"], 0.2);
}

TEST(TrainingReport, HostileTextsStayTexts) {
  std::vector<json> lines = example_run();
  // The log is JSON, so bytes that are no UTF-8 cannot stand in it.
  const std::string hostile = kHostile.substr(0, kHostile.size() - 3);
  lines[0]["run"]["options"]["objective"] = hostile;
  lines[0]["run"]["options"][hostile] = hostile;
  lines[0]["run"]["provenance"]["command"] = hostile;
  lines[1]["figures"][hostile] = 1.0;
  lines[1]["figures"]["__proto__"] = 1.0;
  const json page = page_of_run(lines);
  EXPECT_EQ(page["run"]["options"][hostile], hostile);
  EXPECT_EQ(page["run"]["provenance"]["command"], hostile);
  EXPECT_EQ(curve(page["figures"], hostile)["last"], 1.0);
  EXPECT_EQ(curve(page["figures"], "__proto__")["last"], 1.0);
}

TEST(TrainingReport, ToleratesMissingAndInvalidFields) {
  const json bad[] = {
      nullptr,          -1.0, 0, 1e300, "text", json::array(), json::object(), {{"step", nullptr}},
      {1, nullptr, "x"}};
  const json whole = step_line(1);
  for (const json& value : bad) {
    for (const auto& [key, unused] : whole.items()) {
      std::vector<json> lines = example_run();
      lines[3][key] = value;
      EXPECT_EQ(page_of_run(lines)["held_out"].size(), 2U) << key << value;
    }
    for (const char* key : {"run", "held_out", "resumed"}) {
      EXPECT_TRUE(page_of_run({{{key, value}}})["series"].empty()) << key << value;
      EXPECT_TRUE(page_of_run({{{key, {{"options", value}, {"step", 3}}}}})["series"].empty());
    }
  }
  EXPECT_TRUE(data_of(render_training(""))["run"].is_null());
  EXPECT_TRUE(data_of(render_training("{\"step\": 1, \"lo"))["series"].empty());
  EXPECT_EQ(page_of_run({step_line(1)})["series"].size(), 6U) << "one step alone";
}

TEST(TrainingReport, StaysSmallHoweverLongTheRun) {
  std::vector<json> lines;
  for (int step = 1; step <= 20000; ++step) {
    lines.push_back(step_line(step));
    lines.back()["gradient_norm"] = step % 7;
  }
  const std::string page = render_training(text(lines));
  EXPECT_LT(page.size(), 200000U);
  const json points = curve(data_of(page)["series"], "gradient_norm")["points"];
  EXPECT_LE(points.size(), 300U);
  EXPECT_EQ(points.back()[0], 20000.0);
  for (const json& p : points) {  // 66 or 67 steps each
    EXPECT_NEAR(p[1].get<double>(), 3.0, 0.2);
    EXPECT_EQ(p[2], 0.0);
    EXPECT_EQ(p[3], 6.0);
  }
}

}  // namespace
}  // namespace forerun::cli
