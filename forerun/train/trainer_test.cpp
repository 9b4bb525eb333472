#include "forerun/train/trainer.h"

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"
#include "tests/support/tiny_objective.h"

namespace forerun {
namespace {

using testing::TempFolder;
using testing::TinyObjective;

TrainOptions quick(const TempFolder& folder) {
  TrainOptions o;
  o.out = (folder.path() / "run").string();
  o.steps = 300;
  o.batch = 8;
  o.micro_batch = 4;
  o.learning_rate = 1e-2;
  o.bf16 = false;
  o.evaluate_steps = 100;
  o.checkpoint_steps = 100;
  o.threads = 1;
  return o;
}

TEST(Train, LearnsATaskThatItHasNotSeen) {
  const TempFolder folder;
  TinyObjective objective;
  Ranks ranks;
  std::vector<double> losses, held_out;
  TrainListener listener;
  listener.on_step = [&](const Progress& p) { losses.push_back(p.loss); };
  listener.on_held_out = [&](const HeldOut& h) { held_out.push_back(h.loss); };
  const TrainReport report = train(objective, quick(folder), listener, ranks);
  ASSERT_EQ(losses.size(), 300U);
  EXPECT_LT(report.smoothed_loss, 0.2 * losses.front());
  EXPECT_EQ(held_out.size(), 3U);
  EXPECT_EQ(report.end, TrainEnd::kDone);
}

}  // namespace
}  // namespace forerun
