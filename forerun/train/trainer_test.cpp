#include "forerun/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/temp_folder.h"
#include "tests/support/tiny_objective.h"
#include "tests/support/train_worker.h"

namespace forerun {
namespace {

using testing::quick_options;
using testing::TempFolder;
using testing::TinyObjective;

struct Trained {
  TrainReport report;
  std::vector<double> losses;
  std::vector<at::Tensor> values;
};

Trained trained(const TrainOptions& options, TinyObjective::Options tiny = {}) {
  TinyObjective objective(std::move(tiny));
  Ranks ranks;
  Trained out;
  TrainListener listener;
  listener.on_step = [&](const Progress& p) { out.losses.push_back(p.loss); };
  out.report = train(objective, options, listener, ranks);
  for (const Parameter& p : objective.parameters()) out.values.push_back(p.value.detach());
  return out;
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, (a[i] - b[i]).abs().max().item<double>());
  }
  return worst;
}

TEST(Train, LearnsAndShowsItOnExamplesItNeverTrainedOn) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  o.steps = 400;
  o.evaluate_steps = 0;
  TinyObjective::Options many;
  many.examples = 400;
  many.held_out = 50;
  TinyObjective untrained(many);
  std::vector<std::size_t> all(50);
  std::iota(all.begin(), all.end(), std::size_t{0});
  const LossSum before = untrained.held_out_loss(all);
  const Trained run = trained(o, many);
  EXPECT_LT(run.report.smoothed_loss, 0.2 * run.losses.front());
  ASSERT_TRUE(run.report.has_held_out);
  EXPECT_LT(run.report.held_out.loss, 0.3 * before.loss.item<double>() / before.weight);
  EXPECT_EQ(run.report.end, TrainEnd::kDone);
  EXPECT_EQ(run.report.held_out.figures.at(0).denominator, 50.0);
}

TEST(Train, OneMicroBatchOfEightIsFourOfTwo) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "a");
  o.micro_batch = 8;
  const Trained whole = trained(o);
  o.out = (folder.path() / "b").string();
  o.micro_batch = 2;
  const Trained parts = trained(o);
  // Weights differ within and between micro-batches: a mean of means is far from this.
  EXPECT_LT(largest_difference(whole.values, parts.values), 2e-6);
  for (std::size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_NEAR(whole.losses[i], parts.losses[i], 1e-5 * whole.losses[i]);
  }
}

TEST(Train, TheLossOfAStepIsTheRatioOfSums) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  o.steps = 1;
  o.batch = 1000;  // all examples in one step
  const Trained run = trained(o);
  TinyObjective fresh;
  std::vector<std::size_t> all(fresh.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  // The noise is small compared with the error of an untrained network: any seed works.
  const LossSum sum = fresh.loss(all, 0);
  EXPECT_NEAR(run.losses.at(0), sum.loss.item<double>() / sum.weight, 0.05 * run.losses.at(0));
}

TEST(Train, Bfloat16LearnsAsWell) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  o.steps = 300;
  o.bf16 = true;
  const Trained run = trained(o);
  EXPECT_LT(run.report.smoothed_loss, 0.2 * run.losses.front());
  o.out = (folder.path() / "f32").string();
  o.bf16 = false;
  EXPECT_NE(trained(o).losses.at(0), run.losses.at(0)) << "autocast did nothing";
}

TEST(Train, SavesTheAverageOfTheWeightsAndKeepsTheWeights) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  const Trained averaged = trained(o);
  o.out = (folder.path() / "raw").string();
  o.ema = 0.0;
  const Trained raw = trained(o);
  // Evaluation with the average left the weights unchanged, bit for bit.
  EXPECT_EQ(largest_difference(averaged.values, raw.values), 0.0);
  const Safetensors saved = load_safetensors(folder.path() / "run" / "model.safetensors");
  const Safetensors kept = load_safetensors(folder.path() / "raw" / "model.safetensors");
  const auto bytes = [](const Safetensors& file) {
    const auto b = file.find("in.weight")->bytes;
    return std::string(reinterpret_cast<const char*>(b.data()), b.size());
  };
  EXPECT_NE(bytes(saved), bytes(kept));
  const at::Tensor& weight = raw.values.at(0);
  EXPECT_EQ(bytes(kept), std::string(reinterpret_cast<const char*>(weight.const_data_ptr<float>()),
                                     static_cast<std::size_t>(weight.nbytes())));
}

TEST(Train, LogsEveryStepAndEveryHeldOutLoss) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  o.provenance = R"({"command": "train"})";
  const Trained run = trained(o);
  const auto lines = testing::read_lines(run.report.log);
  ASSERT_EQ(lines.size(), 1U + 60U + 4U);
  EXPECT_EQ(lines[0].at("run").at("provenance").at("command"), "train");
  EXPECT_EQ(lines[1].at("held_out").at("step"), 0) << "what the first weights are worth";
  EXPECT_EQ(lines[2].at("step"), 1);
  EXPECT_EQ(lines[2].at("loss"), run.losses[0]);
  EXPECT_TRUE(lines[2].at("figures").contains("near"));
  EXPECT_EQ(lines[22].at("held_out").at("step"), 20);
}

TEST(Train, EpochsDecideTheStepsAndEveryExampleIsSeenOnceInEach) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  o.steps = 0;
  o.epochs = 3;
  std::vector<int> seen(37);
  TinyObjective::Options tiny;
  tiny.before_loss = [&](std::span<const std::size_t> examples) {
    for (const std::size_t e : examples) ++seen[e];
  };
  EXPECT_EQ(trained(o, tiny).report.steps, 15);  // 37 examples, at most 8 a step
  EXPECT_EQ(seen, std::vector<int>(37, 3));
}

TEST(Train, AQuestionToStopFinishesTheStepAndLeavesACheckpoint) {
  const TempFolder folder;
  const TrainOptions o = quick_options(folder.path() / "run");
  TinyObjective objective;
  Ranks ranks;
  TrainListener listener;
  int steps = 0;
  listener.on_step = [&](const Progress&) { ++steps; };
  listener.go_on = [&] { return steps < 7; };
  TrainReport report = train(objective, o, listener, ranks);
  EXPECT_EQ(report.end, TrainEnd::kInterrupted);
  EXPECT_EQ(report.step, 7);
  TinyObjective again;
  report = train(again, o, {}, ranks);
  EXPECT_EQ(report.resumed_from, 7);
  EXPECT_EQ(report.end, TrainEnd::kDone);
}

// A step of many micro-batches, or a held-out loss over many, would keep a user waiting.
TEST(Train, AQuestionToStopIsHeardBetweenMicroBatches) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  o.micro_batch = 1;
  int losses = 0, held_out_losses = 0, most = 0, most_held_out = 0;
  bool asked = false;
  TinyObjective::Options tiny;
  tiny.before_loss = [&](auto) { asked = asked || ++losses == most; };
  tiny.before_held_out_loss = [&] { asked = asked || ++held_out_losses == most_held_out; };
  const auto run = [&] {
    asked = false;
    losses = held_out_losses = 0;
    TinyObjective objective(tiny);
    Ranks ranks;
    TrainListener listener;
    listener.go_on = [&] { return !asked; };
    return train(objective, o, listener, ranks);
  };
  most_held_out = 2;  // in the evaluation before the first step
  TrainReport report = run();
  EXPECT_EQ(report.end, TrainEnd::kInterrupted);
  EXPECT_EQ(report.step, 0);
  EXPECT_EQ(held_out_losses, 2);
  EXPECT_EQ(losses, 0);
  EXPECT_FALSE(std::filesystem::exists(report.checkpoint)) << "there is nothing to keep";
  most_held_out = 0;
  most = 18;  // in the third step: steps have 7 or 8 examples
  report = run();
  EXPECT_EQ(report.end, TrainEnd::kInterrupted);
  EXPECT_EQ(losses, most) << "it is left at once";
  EXPECT_EQ(report.step, 2) << "and not taken";
  most = 0;
  report = run();
  EXPECT_EQ(report.resumed_from, 2) << "what was taken before is kept";
  EXPECT_EQ(report.end, TrainEnd::kDone);
  o.out = (folder.path() / "calm").string();
  run();
  EXPECT_EQ(testing::losses_of(report.log), testing::losses_of(folder.path() / "calm/log.jsonl"));
}

TEST(Train, ATimeLimitStopsItResumably) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  o.time_limit = 1e-9;
  EXPECT_EQ(trained(o).report.end, TrainEnd::kTimeLimit);
  o.time_limit = 0.0;
  const Trained rest = trained(o);
  EXPECT_EQ(rest.report.resumed_from, 1);
  EXPECT_EQ(rest.report.end, TrainEnd::kDone);
}

}  // namespace
}  // namespace forerun
