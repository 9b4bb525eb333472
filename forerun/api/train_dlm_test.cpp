// A diffusion language model from nothing but a target and its answers: it learns, loads, and a run
// that was stopped ends in the same weights.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "forerun/api/model_file.h"
#include "forerun/models/diffusion_lm/diffusion_file.h"
#include "forerun/text.h"
#include "forerun/train.h"
#include "tests/support/tiny_drafter.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using testing::answers;
using testing::quick;
using testing::read_file;
using testing::target;

DlmTraining small_dlm() {
  DlmTraining o;
  o.layers = 2;
  o.block = 4;
  o.draft_vocab = 60;
  o.loss.anchors = 8;
  o.loss.held_out = 0.1;
  return o;
}

TrainReport train_small(const DlmTraining& options, const TrainOptions& training,
                        const TrainListener& listener = {}) {
  return train_dlm([] { return target(); }, {answers()}, options, training, listener);
}

DiffusionLm load_made(const fs::path& folder) {
  return load_diffusion_lm(folder, numbers_of(target(), DecoderParts::kEnds));
}

class TrainDlm : public ::testing::Test {
 protected:
  testing::TempFolder folder;
  fs::path out = folder.path() / "drafter";
};

TEST_F(TrainDlm, LearnsAndLoads) {
  std::vector<double> losses;
  int held_out = 0;
  TrainListener listener;
  listener.on_step = [&](const Progress& p) { losses.push_back(p.loss); };
  listener.on_held_out = [&](const HeldOut& h) {
    ++held_out;
    ASSERT_EQ(h.figures.size(), 4U);
    EXPECT_EQ(h.figures[0].name, "first");
    EXPECT_EQ(h.figures[1].name, "tau");
    EXPECT_EQ(h.figures[2].name, "place2");
  };
  TrainOptions training = quick(out);
  training.steps = 48;
  training.evaluate_steps = 24;
  training.learning_rate = 3e-3;
  const TrainReport report = train_small(small_dlm(), training, listener);
  EXPECT_EQ(report.end, TrainEnd::kDone);
  EXPECT_EQ(held_out, 3);
  const auto mean = [&](std::size_t begin) {  // of eight steps, more than an epoch
    return std::accumulate(losses.begin() + static_cast<std::ptrdiff_t>(begin),
                           losses.begin() + static_cast<std::ptrdiff_t>(begin) + 8, 0.0) /
           8.0;
  };
  ASSERT_EQ(losses.size(), 48U);
  EXPECT_LT(mean(40), mean(0) - 0.2);
  const DiffusionLm made = load_made(out);
  EXPECT_EQ(made.config.block, 4);
  EXPECT_EQ(made.config.outputs, 60);
  EXPECT_EQ(made.body.config.layers, 2);
}

TEST_F(TrainDlm, ResumedEndsInTheSameWeights) {
  train_small(small_dlm(), quick(out));
  TrainOptions stopped = quick(folder.path() / "stopped");
  stopped.time_limit = 1e-9;
  int calls = 0;
  while (train_small(small_dlm(), stopped).end == TrainEnd::kTimeLimit) {
    ASSERT_LT(++calls, 10);
    load_made(stopped.out);  // there is a network after every call
  }
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(read_file(out / "model.safetensors") ==
              read_file(fs::path(stopped.out) / "model.safetensors"));
}

// Every row sees every other: trained, resumed and loaded in the same way.
TEST_F(TrainDlm, ABidirectionalOneLearnsResumesAndDrafts) {
  DlmTraining options = small_dlm();
  options.bidirectional = true;
  options.loss.anchors = 2;
  options.layers = 3;  // all of the target's
  std::vector<double> losses;
  TrainListener listener;
  listener.on_step = [&](const Progress& p) { losses.push_back(p.loss); };
  TrainOptions training = quick(out);
  training.steps = 48;
  training.learning_rate = 3e-3;
  train_small(options, training, listener);
  ASSERT_EQ(losses.size(), 48U);
  const auto mean = [&](std::ptrdiff_t begin) {
    return std::accumulate(losses.begin() + begin, losses.begin() + begin + 8, 0.0) / 8.0;
  };
  EXPECT_LT(mean(40), mean(0) - 0.2);
  EXPECT_EQ(load_made(out).config.attention, DiffusionAttention::kBidirectional);

  const Drafter drafter = Drafter::load("diffuspec:" + out.string(), target());
  GenerateOptions o;
  o.rule = Rule::kSharedNoise;
  o.sampling.temperature = 0.8;
  o.max_tokens = 40;
  o.max_draft = 4;
  o.fixed_draft = o.ignore_end = true;
  const std::vector<Token> prompt = {10, 11, 12, 13};
  const Generated drafted = generate(target(), drafter, prompt, o);
  EXPECT_EQ(drafted.tokens, generate(target(), Drafter(), prompt, o).tokens);
  EXPECT_GT(drafted.statistics.drafted, 0U);

  const fs::path whole = folder.path() / "whole";
  train_small(options, quick(whole));
  TrainOptions stopped = quick(folder.path() / "stopped");
  stopped.time_limit = 1e-9;
  int calls = 0;
  while (train_small(options, stopped).end == TrainEnd::kTimeLimit) ASSERT_LT(++calls, 10);
  EXPECT_GT(calls, 1);
  EXPECT_TRUE(read_file(whole / "model.safetensors") ==
              read_file(fs::path(stopped.out) / "model.safetensors"));
  TrainOptions other = quick(stopped.out);
  options.bidirectional = false;
  EXPECT_THROW(train_small(options, other), UsageError);  // another network in the same folder
}

TEST_F(TrainDlm, ContinuesOneWithAnotherBlock) {
  train_small(small_dlm(), quick(out));
  DlmTraining more = small_dlm();
  more.init = out.string();
  more.block = 6;
  const TrainOptions again = quick(folder.path() / "again");
  train_small(more, again);
  const DiffusionLm made = load_made(again.out);
  EXPECT_EQ(made.config.block, 6);
  EXPECT_EQ(made.config.outputs, 60);
}

// Then no place is masked, and the text's own states learn.
TEST_F(TrainDlm, OfOneTokenABlock) {
  DlmTraining o = small_dlm();
  o.block = 1;
  train_small(o, quick(out));
  EXPECT_EQ(load_made(out).config.block, 1);
}

TEST_F(TrainDlm, RefusesWhatCannotBeTrained) {
  const auto refuses = [&](const std::string& part, const auto& change) {
    DlmTraining o = small_dlm();
    change(o);
    try {
      train_small(o, quick(out));
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refuses("9 layers are asked for, the target has 3", [](DlmTraining& o) { o.layers = 9; });
  refuses("a block of 1 to 256", [](DlmTraining& o) { o.block = 0; });
  refuses("anchors", [](DlmTraining& o) { o.loss.anchors = 0; });
  refuses("distill", [](DlmTraining& o) { o.loss.distill = NAN; });
  refuses("weight-bits: 0", [](DlmTraining& o) { o.weight_bits = 3; });
  refuses("not multiples of 32", [](DlmTraining& o) { o.weight_bits = 4; });
}

TEST_F(TrainDlm, DoesNotGoOnFromANetworkOfAnotherTarget) {
  train_small(small_dlm(), quick(out));
  const Model other =
      Model::load(std::string(FORERUN_SOURCE_DIR "/tests/data/tiny/qwen3"), Precision::kF32);
  EXPECT_THROW(load_diffusion_lm(out, numbers_of(other, DecoderParts::kEnds)), FormatError);
}

}  // namespace
}  // namespace forerun
