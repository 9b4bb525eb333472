// Two processes under mpirun; tests/support/train_worker.h is their code.
#include "forerun/train/ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "forerun/train/checkpoint.h"
#include "tests/support/child.h"
#include "tests/support/temp_folder.h"
#include "tests/support/train_worker.h"

namespace forerun {
namespace {

using nlohmann::json;
using testing::Child;
using testing::read_file;
using testing::TempFolder;

TEST(Ranks, OneAloneNeedsNoOther) {
  Ranks alone;
  double x = 3.0;
  alone.sum_(std::span(&x, 1));
  EXPECT_EQ(x, 3.0);
  EXPECT_EQ(alone.size(), 1);
  EXPECT_TRUE(alone.first());
  EXPECT_TRUE(alone.any(true));
  EXPECT_FALSE(alone.any(false));
  EXPECT_EQ(alone.gather("mine"), std::vector<std::string>{"mine"});
  EXPECT_THROW(alone.together([] { throw std::out_of_range("x"); }), std::out_of_range);
}

#ifdef FORERUN_MPIRUN
constexpr bool kMpi = true;
#else
constexpr bool kMpi = false;
#define FORERUN_MPIRUN "mpirun"
#endif

class TwoRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kMpi) GTEST_SKIP() << "built without MPI: install libopenmpi-dev and openmpi-bin";
  }

  static std::vector<std::string> command(int ranks) {
    return {FORERUN_MPIRUN, "-n",   std::to_string(ranks), "--oversubscribe",
            "--bind-to",    "none", "--allow-run-as-root", testing::this_program()};
  }
  static std::vector<std::string> environment(const json& asked) {
    return {std::string(testing::kWorker) + "=" + asked.dump()};
  }
  int run(const json& asked, int ranks = 2) {
    return Child(command(ranks), environment(asked), output()).wait();
  }
  std::filesystem::path output() const { return folder.path() / "output.txt"; }
  /// The lines that ranks wrote, without what mpirun adds.
  std::vector<std::string> message() const {
    std::vector<std::string> out;
    std::ifstream in(output());
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("worker: ", 0) == 0) out.push_back(line);
    }
    return out;
  }

  TempFolder folder;
};

// The largest difference of two checkpoints' parameters, relative to the largest parameter.
double difference(const std::filesystem::path& a, const std::filesystem::path& b) {
  const Safetensors x = load_safetensors(a), y = load_safetensors(b);
  double worst = 0.0, largest = 0.0;
  for (const TensorView& t : x.tensors()) {
    if (t.name.rfind("parameter/", 0) != 0) continue;
    const auto other = y.find(t.name)->bytes;
    for (std::size_t i = 0; i < t.bytes.size(); i += sizeof(float)) {
      float u = 0.0F, v = 0.0F;
      std::memcpy(&u, t.bytes.data() + i, sizeof u);
      std::memcpy(&v, other.data() + i, sizeof v);
      worst = std::max(worst, std::abs(double{u} - double{v}));
      largest = std::max(largest, std::abs(double{u}));
    }
  }
  return worst / largest;
}

TEST_F(TwoRanks, EqualOneWithTheSameBatch) {
  const auto one = folder.path() / "one", two = folder.path() / "two", three = folder.path() / "3";
  json asked = {{"out", one.string()}, {"batch", 10}, {"micro_batch", 3}};
  ASSERT_EQ(testing::train_as_asked(asked), 0);
  asked["out"] = two.string();
  ASSERT_EQ(run(asked), 0) << read_file(output());
  asked["out"] = three.string();
  ASSERT_EQ(run(asked, 3), 0) << read_file(output());
  for (const auto& other : {two, three}) {
    EXPECT_LT(difference(one / "checkpoint.safetensors", other / "checkpoint.safetensors"), 1e-6);
    const auto a = testing::losses_of(one / "log.jsonl"),
               b = testing::losses_of(other / "log.jsonl");
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      const json& x = a[i].contains("held_out") ? a[i]["held_out"] : a[i];
      const json& y = a[i].contains("held_out") ? b[i]["held_out"] : b[i];
      EXPECT_NEAR(x["loss"].get<double>(), y["loss"].get<double>(), 1e-5 * x["loss"].get<double>());
      EXPECT_EQ(x["figures"], y["figures"]);
      EXPECT_EQ(x.value("tokens", 0), y.value("tokens", 0));
    }
    const auto lines = testing::read_lines(other / "log.jsonl");
    EXPECT_EQ(lines[0]["run"]["surroundings"]["ranks"], other == two ? 2 : 3);
  }
}

TEST_F(TwoRanks, ABatchSmallerThanTheRanksIsRefusedInOneLine) {
  EXPECT_NE(run({{"out", (folder.path() / "run").string()}, {"batch", 1}}), 0);
  ASSERT_EQ(message().size(), 1U) << read_file(output());
  EXPECT_NE(message()[0].find("raise the batch"), std::string::npos) << message()[0];
}

TEST_F(TwoRanks, StopTogetherWhenMpirunPassesOnThatTheyShall) {
  const auto out = folder.path() / "run";
  const json asked = {{"out", out.string()},
                      {"steps", 100000},
                      {"step_ms", 1},
                      {"checkpoint_steps", 0},
                      {"evaluate_steps", 0}};
  Child child(command(2), environment(asked), output());
  std::error_code missing;
  while (!child.ended() &&
         !(std::filesystem::file_size(out / "log.jsonl", missing) > 5000 && !missing)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_FALSE(child.ended()) << read_file(output());
  child.kill(SIGUSR1);  // mpirun forwards it to all ranks
  EXPECT_NE(child.wait(), 0);
  // No checkpoint was due: the stop request caused this one.
  const auto log = testing::read_lines(out / "log.jsonl");
  EXPECT_EQ(Checkpoint(out / "checkpoint.safetensors").state().at("step"), log.back().at("step"));
}

class OneFails : public TwoRanks {
 protected:
  // Rank `rank` fails in step 25; checkpoints are every 10 steps.
  std::string fails(const std::string& how, int rank) {
    const auto out = folder.path() / "run";
    const json asked = {{"out", out.string()},
                        {"micro_batch", 8},
                        {"bad", how},
                        {"bad_rank", rank},
                        {"bad_step", 25}};
    EXPECT_NE(run(asked), 0);
    EXPECT_EQ(Checkpoint(out / "checkpoint.safetensors").state().at("step"), 20);
    EXPECT_EQ(message().size(), 1U) << read_file(output());
    const std::string line = message().empty() ? "" : message()[0];
    // Afterwards one process continues to the end.
    EXPECT_EQ(testing::train_as_asked({{"out", out.string()}, {"micro_batch", 8}}), 0);
    EXPECT_EQ(Checkpoint(out / "checkpoint.safetensors").state().at("step"), 60);
    return line;
  }
};

TEST_F(OneFails, ByAnExceptionOnRankZero) {
  EXPECT_EQ(fails("throw", 0), "worker: shard 3 is damaged");
}

TEST_F(OneFails, ByAnExceptionOnTheOtherRank) {
  EXPECT_EQ(fails("throw", 1), "worker: shard 3 is damaged");
}

TEST_F(OneFails, ByALossThatIsNoNumber) {
  EXPECT_NE(fails("nan", 1).find("step 25: the loss is not finite"), std::string::npos);
}

TEST_F(OneFails, ByBeingKilled) {
  EXPECT_NE(fails("die", 1).find("rank 1 (process "), std::string::npos);
}

TEST_F(OneFails, ByBeingKilledAsRankZero) {
  EXPECT_NE(fails("die", 0).find("rank 0 (process "), std::string::npos);
}

}  // namespace
}  // namespace forerun
