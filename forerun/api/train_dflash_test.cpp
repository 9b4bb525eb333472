// A drafter from nothing: answers, a few steps, and greedy text that is the target's own.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "forerun/train.h"
#include "tests/support/tiny_drafter.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using testing::answers;
using testing::expect_plain_greedy_text;
using testing::other_target;
using testing::quick;
using testing::read_file;
using testing::small;
using testing::target;
using testing::target_name;
using testing::TrainDFlash;

TEST_F(TrainDFlash, AResultLoadsAndLeavesGreedyTextAsItIs) {
  int steps = 0, held_out = 0;
  TrainListener listener;
  listener.on_step = [&](const Progress& p) {
    EXPECT_TRUE(std::isfinite(p.loss));
    EXPECT_GT(p.tokens, 0);
    ++steps;
  };
  listener.on_held_out = [&](const HeldOut& h) {
    EXPECT_TRUE(std::isfinite(h.loss));
    ++held_out;
  };
  const TrainReport report = train_dflash(target(), {answers()}, small(), quick(out), listener);
  EXPECT_EQ(report.end, TrainEnd::kDone);
  EXPECT_EQ(report.step, 4);
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(held_out, 3);  // before the first step, after the second and the last
  EXPECT_TRUE(report.has_held_out);
  expect_plain_greedy_text(out);
}

// Every part that a drafter may have or lack, from random weights too.
TEST_F(TrainDFlash, EveryShapeOfNetworkLoadsAgain) {
  const auto trains = [&](const char* name, const std::function<void(DFlashTraining&)>& change) {
    SCOPED_TRACE(name);
    DFlashTraining o = small();
    change(o);
    TrainOptions t = quick(folder.path() / name);
    t.steps = 1;
    t.evaluate_steps = 0;
    train_dflash(target(), {answers(), answers()}, o, t);
    expect_plain_greedy_text(t.out);
  };
  trains("plain", [](DFlashTraining& o) {
    o.markov_rank = 0;
    o.confidence = false;
    o.draft_vocab = 0;
    o.predicts_next = false;
    o.slot_state = false;
  });
  trains("conv", [](DFlashTraining& o) { o.conv = true; });
  trains("selector", [](DFlashTraining& o) {
    o.conv = true;
    o.selector_rank = 4;
  });
  trains("few candidates", [](DFlashTraining& o) {
    o.selector_rank = 4;
    o.draft_vocab = 9;
    o.predicts_next = false;
  });
  trains("gated", [](DFlashTraining& o) { o.markov_head = "gated"; });
  trains("l1", [](DFlashTraining& o) { o.loss.law_loss = "l1"; });
  trains("random", [](DFlashTraining& o) {
    o.from_target = false;
    o.layers = 5;  // more than the target has
    o.features = {1};
    o.markov_rank = 0;
  });
}

TEST_F(TrainDFlash, ADraftVocabularyBeyondTheTargetsIsAllOfIt) {
  TrainOptions all = quick(folder.path() / "all"), more = quick(folder.path() / "more");
  DFlashTraining o = small();
  o.draft_vocab = 0;
  train_dflash(target(), {answers()}, o, all);
  o.draft_vocab = 1 << 20;
  train_dflash(target(), {answers()}, o, more);
  EXPECT_TRUE(read_file(fs::path(all.out) / "model.safetensors") ==
              read_file(fs::path(more.out) / "model.safetensors"));
}

TEST_F(TrainDFlash, ResumedEndsInTheSameWeights) {
  train_dflash(target(), {answers()}, small(), quick(out));
  TrainOptions stopped = quick(folder.path() / "stopped");
  stopped.time_limit = 1e-9;
  int calls = 0;
  while (train_dflash(target(), {answers()}, small(), stopped).end == TrainEnd::kTimeLimit) {
    ASSERT_LT(++calls, 10);
    expect_plain_greedy_text(stopped.out);  // there is a drafter after every call
  }
  EXPECT_EQ(calls, 4);  // a step each; the last held-out loss is left to a fifth process
  EXPECT_TRUE(read_file(out / "model.safetensors") ==
              read_file(fs::path(stopped.out) / "model.safetensors"));
}

// Both read the same rounded states.
TEST_F(TrainDFlash, AStateStoreServesTwoRuns) {
  DFlashTraining o = small();
  o.loss.state_store = (folder.path() / "states").string();
  train_dflash(target(), {answers()}, o, quick(out));
  const TrainOptions again = quick(folder.path() / "again");
  train_dflash(target(), {answers()}, o, again);
  EXPECT_TRUE(read_file(out / "model.safetensors") ==
              read_file(fs::path(again.out) / "model.safetensors"));
  expect_plain_greedy_text(out);
}

// By its weights, not by the name of its folder.
TEST_F(TrainDFlash, AStateStoreOfAnotherTargetIsNotReadForThisOne) {
  const fs::path unknown = folder.path() / "answers";  // without distill.json
  fs::create_directories(unknown);
  for (const auto& file : fs::directory_iterator(answers())) {
    if (file.path().extension() == ".safetensors") fs::copy(file, unknown);
  }
  fs::create_directories(folder.path() / "other");
  const Model other = other_target(folder.path() / "other" / target_name());
  DFlashTraining o = small();
  const auto learned = [&](const char* name, const char* store) {
    o.loss.state_store = (folder.path() / store).string();
    const TrainOptions t = quick(folder.path() / name);
    train_dflash(other, {unknown.string()}, o, t);
    return read_file(fs::path(t.out) / "model.safetensors");
  };
  o.loss.state_store = (folder.path() / "states").string();
  train_dflash(target(), {unknown.string()}, o, quick(out));
  EXPECT_TRUE(learned("shared", "states") == learned("fresh", "own states"));
}

}  // namespace
}  // namespace forerun
