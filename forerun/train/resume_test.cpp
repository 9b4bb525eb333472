#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "forerun/core/rng_key.h"
#include "forerun/train/trainer.h"
#include "tests/support/child.h"
#include "tests/support/temp_folder.h"
#include "tests/support/train_worker.h"

namespace forerun {
namespace {

using nlohmann::json;
using testing::Child;
using testing::losses_of;
using testing::quick_options;
using testing::read_file;
using testing::TempFolder;
using testing::TinyObjective;

Child worker(const json& asked, const std::filesystem::path& output) {
  return Child({testing::this_program()}, {std::string(testing::kWorker) + "=" + asked.dump()},
               output);
}

std::size_t size_of(const std::filesystem::path& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  return missing ? 0 : size;
}

TEST(Resume, AfterKillsAtRandomMomentsTheLossesAreThoseOfAnUninterruptedRun) {
  const TempFolder folder;
  const auto calm = folder.path() / "calm", killed = folder.path() / "killed";
  json asked = {{"out", calm.string()}, {"steps", 120}, {"checkpoint_steps", 3}};
  ASSERT_EQ(worker(asked, folder.path() / "calm.txt").wait(), 0)
      << read_file(folder.path() / "calm.txt");

  asked["out"] = killed.string();
  asked["step_ms"] = 1;
  int kills = 0, resumes = 0;
  for (std::uint32_t attempt = 0; attempt < 40; ++attempt) {
    Child child = worker(asked, folder.path() / "killed.txt");
    // Some lines further in its log, then a moment: anywhere in a step or in a checkpoint.
    const RngKey key{20250614, attempt, 0, 0};
    const std::size_t lines = size_of(killed / "log.jsonl") +
                              static_cast<std::size_t>(9000 * key.uniform(Purpose::kDraft, 0));
    while (!child.ended() && size_of(killed / "log.jsonl") < lines) std::this_thread::yield();
    std::this_thread::sleep_for(
        std::chrono::microseconds(static_cast<int>(20000 * key.uniform(Purpose::kDraft, 1))));
    if (child.ended()) {
      ASSERT_EQ(child.wait(), 0) << read_file(folder.path() / "killed.txt");
      break;
    }
    child.kill(SIGKILL);
    child.wait();
    ++kills;
  }
  for (const json& line : testing::read_lines(killed / "log.jsonl"))
    resumes += line.contains("resumed");
  EXPECT_GT(kills, 2);
  EXPECT_GT(resumes, 0);
  EXPECT_EQ(losses_of(calm / "log.jsonl"), losses_of(killed / "log.jsonl"));
  EXPECT_TRUE(read_file(calm / "model.safetensors") == read_file(killed / "model.safetensors"));
}

TrainReport train_in(const TrainOptions& options, TinyObjective::Options tiny = {}) {
  TinyObjective objective(std::move(tiny));
  Ranks ranks;
  return train(objective, options, {}, ranks);
}

// The error of `train`; "" if there is none.
std::string complaint(const TrainOptions& options, TinyObjective::Options tiny = {}) {
  try {
    train_in(options, std::move(tiny));
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

struct Files {
  std::string checkpoint, log, model;
  bool operator==(const Files&) const = default;
};
Files files(const std::filesystem::path& out) {
  return {read_file(out / "checkpoint.safetensors"), read_file(out / "log.jsonl"),
          read_file(out / "model.safetensors")};
}

class Stopped : public ::testing::Test {
 protected:
  Stopped() {
    options.time_limit = 1e-9;
    train_in(options);
    options.time_limit = 0.0;
    before = files(options.out);
  }
  TempFolder folder;
  TrainOptions options = quick_options(folder.path() / "run");
  Files before;
};

TEST_F(Stopped, OtherOptionsAreRefusedAndNothingIsOverwritten) {
  TrainOptions other = options;
  other.learning_rate = 3e-3;
  other.seed = 1;
  const std::string message = complaint(other);
  EXPECT_NE(message.find("learning_rate 0.01 (now 0.003)"), message.npos) << message;
  EXPECT_NE(message.find("seed 0 (now 1)"), message.npos) << message;
  EXPECT_EQ(files(options.out), before);
}

TEST_F(Stopped, AnotherObjectiveIsRefused) {
  TinyObjective::Options tiny;
  tiny.name = "another";
  EXPECT_NE(complaint(options, tiny).find("objective tiny (now another)"), std::string::npos);
  tiny.name = "tiny layers=2 data=7";
  options.out = (folder.path() / "words").string();
  options.time_limit = 1e-9;
  train_in(options, tiny);
  tiny.name = "tiny layers=2 data=8";
  EXPECT_NE(complaint(options, tiny).find("started with objective data=7 (now data=8);"),
            std::string::npos);
  options.out = (folder.path() / "run").string();
  options.time_limit = 0.0;
  tiny = {};
  tiny.hidden = 23;  // the same description, other tensors
  EXPECT_NE(complaint(options, tiny).find("has another shape"), std::string::npos);
  EXPECT_EQ(files(options.out), before);
}

TEST_F(Stopped, OtherFirstWeightsAreRefused) {
  TinyObjective::Options tiny;
  tiny.start = 7;
  EXPECT_NE(complaint(options, tiny).find("started from other weights"), std::string::npos);
  EXPECT_EQ(files(options.out), before);
  EXPECT_EQ(complaint(options), "");
}

TEST_F(Stopped, HalfACheckpointIsRefusedAndNothingIsOverwritten) {
  const auto path = std::filesystem::path(options.out) / "checkpoint.safetensors";
  for (const double share : {0.0, 0.001, 0.3, 0.999}) {
    const auto size =
        static_cast<std::size_t>(share * static_cast<double>(before.checkpoint.size()));
    std::ofstream(path, std::ios::binary) << before.checkpoint.substr(0, size);
    const Files broken = files(options.out);
    const std::string message = complaint(options);
    EXPECT_NE(message.find("checkpoint.safetensors: "), message.npos) << message;
    EXPECT_NE(message.find("move it away to start the run from its beginning"), message.npos)
        << message;
    EXPECT_EQ(message.find("download"), message.npos) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    EXPECT_EQ(files(options.out), broken);
  }
}

TEST_F(Stopped, AChangedByteIsNoticed) {
  const auto path = std::filesystem::path(options.out) / "checkpoint.safetensors";
  for (std::size_t i = 1; i < 8; ++i) {
    std::string changed = before.checkpoint;
    changed[changed.size() - i * changed.size() / 16] ^= 1;  // in the second half: numbers
    std::ofstream(path, std::ios::binary) << changed;
    const std::string message = complaint(options);
    EXPECT_NE(message.find("checksum"), message.npos) << message;
  }
}

TEST_F(Stopped, TheLogIsCutToTheCheckpoint) {
  const auto path = std::filesystem::path(options.out) / "log.jsonl";
  std::ofstream(path, std::ios::app) << "{\"step\":2,\"loss\":7.5}\n{\"step\":3,\"lo";
  train_in(options);
  const auto lines = testing::read_lines(path);
  ASSERT_GT(lines.size(), 5U);
  // No held-out loss before the first step: the time limit was over.
  EXPECT_EQ(lines[2].at("resumed").at("step"), 1);
  EXPECT_EQ(lines[3].at("step"), 2);
  EXPECT_NE(lines[3].at("loss"), 7.5);
}

TEST_F(Stopped, HalfWrittenFilesOfAKilledProcessAreRemoved) {
  const auto left = std::filesystem::path(options.out) / "checkpoint.safetensors.tmp-77-0";
  std::ofstream(left) << "half";
  train_in(options);
  EXPECT_FALSE(std::filesystem::exists(left));
}

// Its last held-out loss is all that such a run lacks: the next process makes it, and no step.
TEST_F(Stopped, InTheLastEvaluationItIsFinishedByTheNextProcess) {
  bool go_on = true;
  TinyObjective::Options tiny;
  tiny.held_out = 9;  // three micro-batches
  TinyObjective objective(tiny);
  options.out = (folder.path() / "last").string();
  TrainListener listener;
  listener.on_step = [&](const Progress& p) { go_on = p.step < 60; };
  listener.go_on = [&] { return go_on; };
  Ranks ranks;
  const TrainReport left = train(objective, options, listener, ranks);
  EXPECT_EQ(left.end, TrainEnd::kInterrupted);
  EXPECT_EQ(left.step, 60);
  const TrainReport done = train_in(options, tiny);
  EXPECT_EQ(done.end, TrainEnd::kDone);
  EXPECT_EQ(done.held_out.step, 60);
  const Files after = files(options.out);
  EXPECT_EQ(train_in(options, tiny).end, TrainEnd::kDone);
  EXPECT_EQ(files(options.out), after);
  // As if nobody had stopped it.
  options.out = (folder.path() / "calm").string();
  train_in(options, tiny);
  EXPECT_EQ(losses_of(left.log), losses_of(folder.path() / "calm" / "log.jsonl"));
  EXPECT_EQ(files(options.out).model, after.model);
}

TEST_F(Stopped, AFinishedRunStaysAsItIs) {
  train_in(options);
  const Files done = files(options.out);
  const TrainReport report = train_in(options);
  EXPECT_EQ(report.end, TrainEnd::kDone);
  EXPECT_EQ(report.step, 60);
  EXPECT_EQ(files(options.out), done);
}

TEST_F(Stopped, AResultThatWasNotWrittenAnyMoreIsWrittenNextTime) {
  train_in(options);
  const Files done = files(options.out);
  // As if killed after the last checkpoint and before the result.
  std::ofstream(std::filesystem::path(options.out) / "model.safetensors") << "of an earlier step";
  train_in(options);
  EXPECT_EQ(files(options.out), done);
}

TEST_F(Stopped, OneFolderServesOneProcess) {
  TinyObjective::Options tiny;
  std::string message;
  tiny.before_loss = [&](std::span<const std::size_t>) {
    if (message.empty()) message = complaint(options);
  };
  train_in(options, tiny);
  EXPECT_NE(message.find("another process trains into this folder"), message.npos) << message;
}

}  // namespace
}  // namespace forerun
