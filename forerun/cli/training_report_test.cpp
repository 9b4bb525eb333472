#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "forerun/cli/report/curves.h"
#include "forerun/cli/report/training.h"
#include "forerun/cli/report/training_log.h"
#include "tests/support/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using report::read_training_log;
using report::TrainingLog;
using testing::has;
using testing::unbalanced;

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

std::vector<json> example() {
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

TEST(TrainingReport, HasItsCurvesAndFacts) {
  const std::string page = render_training(text(example()));
  EXPECT_EQ(unbalanced(page), "");
  for (const char* part :
       {"Held-out loss 0.275 after 40 of 100 steps", "id=\"loss\"", "id=\"figures\"", "id=\"run\"",
        "accuracy", "class=\"event\"", "forerun train", "2 × 1", "4,000", "dflash for a model",
        "held-out loss after step 30: 0.3667"}) {
    EXPECT_TRUE(has(page, part)) << part;
  }
}

TEST(TrainingReport, FetchesAndRunsNothing) {
  const std::string page = render_training(text(example()));
  for (const char* part : {"http:", "https:", "//", "<script", "@import", "url(", "src="}) {
    EXPECT_FALSE(has(page, part)) << part;
  }
}

TEST(TrainingReport, EscapesEveryText) {
  const std::string evil = "<script>alert('x')</script>\"&";
  std::vector<json> lines = example();
  lines[0]["run"]["options"]["objective"] = evil;
  lines[0]["run"]["options"][evil] = evil;
  lines[0]["run"]["provenance"]["command"] = evil;
  lines[0]["run"]["provenance"]["forerun"] = evil;
  lines[1]["figures"][evil] = 1.0;
  const std::string page = render_training(text(lines));
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_FALSE(has(page, "<script"));
}

TEST(TrainingReport, SurvivesWhateverIsMissingOrNoNumber) {
  const json bad[] = {
      nullptr,          -1.0, 0, 1e300, "text", json::array(), json::object(), {{"step", nullptr}},
      {1, nullptr, "x"}};
  const json whole = step_line(1);
  for (const json& value : bad) {
    for (const auto& [key, unused] : whole.items()) {
      std::vector<json> lines = example();
      lines[3][key] = value;
      const std::string page = render_training(text(lines));
      EXPECT_EQ(unbalanced(page), "") << key << value;
      EXPECT_FALSE(has(page, "nan") || has(page, ">inf") || has(page, ",inf")) << key << value;
    }
    for (const char* key : {"run", "held_out", "resumed"}) {
      EXPECT_EQ(unbalanced(render_training(text({{{key, value}}}))), "") << key << value;
      EXPECT_EQ(unbalanced(render_training(text({{{key, {{"options", value}, {"step", 3}}}}}))),
                "");
    }
  }
  EXPECT_TRUE(has(render_training(""), "No step was logged yet"));
  EXPECT_EQ(unbalanced(render_training("{\"step\": 1, \"lo")), "");
  EXPECT_EQ(unbalanced(render_training(text({step_line(1)}))), "") << "one step alone";
}

TEST(TrainingReport, StaysSmallHoweverLongTheRun) {
  std::vector<json> lines;
  for (int step = 1; step <= 20000; ++step) lines.push_back(step_line(step));
  EXPECT_LT(render_training(text(lines)).size(), 200000U);
}

TEST(TrainingLog, ReadsEverySeries) {
  const TrainingLog log = read_training_log(text(example()));
  EXPECT_EQ(log.loss.trained.size(), 40U);
  EXPECT_EQ(log.loss.held_out.size(), 4U);
  EXPECT_EQ(log.loss.trained.at(3).value, 9.0 / 4);
  ASSERT_EQ(log.figures.size(), 1U);
  EXPECT_EQ(log.figures[0].held_out.size(), 4U);
  EXPECT_EQ(log.resumed, std::vector<double>{20.0});
  EXPECT_EQ(log.tokens, 4000.0);
}

TEST(TrainingLog, ThinningKeepsTheMeanAndTheEnd) {
  report::Samples samples;
  for (int i = 1; i <= 1000; ++i) samples.push_back({double(i), double(i % 7)});
  const report::Samples few = report::thinned(samples, 30);
  ASSERT_EQ(few.size(), 30U);
  EXPECT_EQ(few.back().step, 1000.0);
  for (const auto& s : few) EXPECT_NEAR(s.value, 3.0, 0.4);
}

TEST(FallingAxis, HasMarksWhateverTheRange) {
  for (const auto& [low, high] :
       {std::pair{2.2, 2.5}, {1.0, 11.0}, {0.001, 10.0}, {3.0, 3.0001}, {900.0, 8000.0}}) {
    const report::Axis axis = report::falling_axis(low, high);
    EXPECT_GE(axis.ticks.size(), 2U) << low << " " << high;
    EXPECT_LE(axis.ticks.size(), 12U) << low << " " << high;
    for (const double tick : axis.ticks) EXPECT_TRUE(tick >= axis.low && tick <= axis.high);
  }
}

}  // namespace
}  // namespace forerun::cli
