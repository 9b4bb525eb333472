#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <limits>

#include "forerun/base/result.h"
#include "forerun/train/checkpoint.h"
#include "forerun/train/trainer.h"
#include "tests/support/child.h"
#include "tests/support/temp_folder.h"
#include "tests/support/train_worker.h"

namespace forerun {
namespace {

using testing::quick_options;
using testing::read_file;
using testing::TempFolder;
using testing::TinyObjective;

std::string complaint(const TrainOptions& options, TinyObjective::Options tiny = {},
                      const double* poison = nullptr, int* steps = nullptr) {
  TinyObjective objective(std::move(tiny), poison);
  Ranks ranks;
  TrainListener listener;
  listener.on_step = [&](const Progress& p) {
    if (steps != nullptr) *steps = static_cast<int>(p.step);
  };
  try {
    train(objective, options, listener, ranks);
  } catch (const std::exception& e) {
    const std::string message = e.what();
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    return message;
  }
  return "";
}

TEST(TrainFailure, AStepWithoutAFiniteLossIsNeitherTakenNorKept) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const TempFolder folder;
    const TrainOptions o = quick_options(folder.path() / "run");
    double poison = 0.0;
    int calls = 0, steps = 0;
    TinyObjective::Options tiny;
    tiny.before_loss = [&](std::span<const std::size_t>) {
      if (++calls == 29) poison = bad;  // the first micro-batch of step 15
    };
    const std::string message = complaint(o, tiny, &poison, &steps);
    EXPECT_EQ(steps, 14);
    EXPECT_NE(message.find("step 15: the loss is not finite"), message.npos) << message;
    EXPECT_NE(message.find("the checkpoint of step 10 stands"), message.npos) << message;
    const Checkpoint kept(folder.path() / "run" / "checkpoint.safetensors");
    EXPECT_EQ(kept.state().at("step"), 10);
    // And it is intact: the run continues from it to its end.
    EXPECT_EQ(complaint(o), "");
  }
}

TEST(TrainFailure, AGradientThatIsNotFiniteIsNotApplied) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  o.learning_rate = 10.0;  // with this decay every step multiplies weights by -9,999
  o.weight_decay = 1e3;
  o.clip = 0.0;
  o.checkpoint_steps = 1;
  const std::string message = complaint(o);
  EXPECT_NE(message.find("not finite"), message.npos) << message;
  EXPECT_NE(message.find("lower learning rate"), message.npos) << message;
}

// One step is enough to spoil the weights, and no later one would notice.
TEST(TrainFailure, AHeldOutLossThatIsNotFiniteLeavesNoModel) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  double poison = 0.0;
  TinyObjective::Options tiny;
  tiny.held_out_poison = &poison;
  tiny.before_loss = [&](auto) { poison = std::numeric_limits<double>::quiet_NaN(); };
  o.steps = 1;
  const std::string message = complaint(o, tiny);
  EXPECT_NE(message.find("step 1: the held-out loss is not finite"), message.npos) << message;
  EXPECT_NE(message.find("lower learning rate"), message.npos) << message;
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run" / "model.safetensors"));
}

TEST(TrainFailure, AFileWhereTheFolderShallBe) {
  const TempFolder folder;
  folder.write("run", "mine");
  const std::string message = complaint(quick_options(folder.path() / "run"));
  EXPECT_NE(message.find("choose a folder that can be written"), message.npos) << message;
  EXPECT_EQ(read_file(folder.path() / "run"), "mine");
}

TEST(TrainFailure, AFolderThatCannotBeWritten) {
  const TempFolder folder;
  // Root may write anywhere except into something that is not a folder on disk.
  const std::string out = geteuid() == 0 ? "/proc/forerun" : (folder.path() / "run").string();
  if (geteuid() != 0) {
    std::filesystem::create_directory(out);
    chmod(out.c_str(), 0555);
  }
  const std::string message = complaint(quick_options(out));
  EXPECT_NE(message.find("choose a folder that can be written"), message.npos) << message;
}

// A limit on the size of files simulates a full disk: writes fail in the middle.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit less = before_;
    less.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &less);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(TrainFailure, AFullDiskLeavesTheLastCheckpoint) {
  const TempFolder folder;
  TrainOptions o = quick_options(folder.path() / "run");
  const auto checkpoint = folder.path() / "run" / "checkpoint.safetensors";
  o.checkpoint_steps = 5;
  std::string kept;
  TinyObjective::Options tiny;
  tiny.before_loss = [&](std::span<const std::size_t>) {
    if (kept.empty() && std::filesystem::exists(checkpoint)) kept = read_file(checkpoint);
  };
  {
    // Enough for a checkpoint and the log of about ten steps.
    const FileLimit limit(5000);
    const std::string message = complaint(o, tiny);
    EXPECT_NE(message.find("log.jsonl: writing failed"), message.npos) << message;
  }
  {
    const FileLimit limit(3000);  // less than a checkpoint
    o.out = (folder.path() / "small").string();
    const std::string message = complaint(o);
    EXPECT_NE(message.find("checkpoint.safetensors: writing failed"), message.npos) << message;
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "small" / "checkpoint.safetensors"));
    o.out = (folder.path() / "run").string();
  }
  ASSERT_FALSE(kept.empty());
  EXPECT_NO_THROW(Checkpoint{checkpoint});
  EXPECT_EQ(complaint(o), "") << "with space again it goes on";
}

TEST(TrainFailure, OptionsOutOfRangeAreNamed) {
  const TempFolder folder;
  const auto message = [&](auto change) {
    TrainOptions o = quick_options(folder.path() / "run");
    change(o);
    return complaint(o);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message([](auto& o) { o.out = ""; }), "");
  EXPECT_NE(message([](auto& o) { o.batch = 0; }), "");
  const std::size_t negative = std::numeric_limits<std::size_t>::max();  // -1 as a parser reads it
  EXPECT_NE(message([&](auto& o) { o.batch = negative; }).find("batch"), std::string::npos);
  EXPECT_NE(message([&](auto& o) { o.micro_batch = negative; }).find("batch"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.learning_rate = 1e30; }).find("1e+30"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.weight_decay = 1e30; }).find("weight decay"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.micro_batch = 0; }), "");
  EXPECT_NE(message([](auto& o) { o.steps = -1; }), "");
  EXPECT_NE(message([&](auto& o) { o.learning_rate = nan; }), "");
  EXPECT_NE(message([](auto& o) { o.beta2 = 1.0; }), "");
  EXPECT_NE(message([](auto& o) { o.warmup = 1.0; }), "");
  EXPECT_NE(message([](auto& o) { o.ema = 1.0; }), "");
  EXPECT_NE(message([](auto& o) { o.clip = -1.0; }), "");
  EXPECT_NE(message([](auto& o) { o.provenance = "no JSON"; }), "");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
}

}  // namespace
}  // namespace forerun
