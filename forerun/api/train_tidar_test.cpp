// Adapters from nothing: answers, a few steps, files that load for this target alone.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/models/gated_lora/gated_lora_file.h"
#include "forerun/train.h"
#include "tests/support/tiny_drafter.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using testing::answers;
using testing::files_in;
using testing::other_target;
using testing::quick;
using testing::read_file;
using testing::target;
using testing::TempFolder;

TidarTraining small_tidar() {
  TidarTraining o;
  o.rank = 2;
  o.markov_rank = 2;
  o.loss.held_out = 0.1;
  return o;
}

class TrainTidar : public ::testing::Test {
 protected:
  GatedLora load(const std::string& path) const {
    return load_gated_lora(path, impl_of(target()).lm.config, target().hash());
  }
  std::string complaint(const TidarTraining& o, const TrainOptions& t,
                        const Model& model = target()) {
    const auto before = files_in(t.out);
    std::string line;
    try {
      train_tidar(model, {answers()}, o, t);
    } catch (const UsageError& e) {
      line = std::string("usage: ") + e.what();
    } catch (const std::exception& e) {
      line = e.what();
    }
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    EXPECT_TRUE(files_in(t.out) == before) << line;
    return line;
  }
  void expect_said(const std::string& word, const std::string& line) {
    EXPECT_NE(line.find(word), line.npos) << line;
  }

  TempFolder folder;
  fs::path out = folder.path() / "adapters";
};

TEST_F(TrainTidar, LearnsAndItsAdaptersLoad) {
  TrainOptions t = quick(out);
  t.steps = 30;
  t.learning_rate = 1e-2;
  t.evaluate_steps = 30;
  std::vector<double> held_out;
  TrainListener listener;
  listener.on_held_out = [&](const HeldOut& h) {
    held_out.push_back(h.loss);
    EXPECT_EQ(h.figures.size(), 4U);  // first, tau, and two further slots
  };
  const TrainReport report = train_tidar(target(), {answers()}, small_tidar(), t, listener);
  EXPECT_EQ(report.end, TrainEnd::kDone);
  ASSERT_EQ(held_out.size(), 2U);
  EXPECT_LT(held_out[1], 0.9 * held_out[0]);
  const GatedLora lora = load(out.string());
  EXPECT_EQ(lora.config.block, 4);
  EXPECT_EQ(lora.config.slots(), 3);
  EXPECT_EQ(lora.config.rank, 2);
}

TEST_F(TrainTidar, ResumedEndsInTheSameWeights) {
  train_tidar(target(), {answers()}, small_tidar(), quick(out));
  TrainOptions stopped = quick(folder.path() / "stopped");
  stopped.time_limit = 1e-9;
  int calls = 0;
  while (train_tidar(target(), {answers()}, small_tidar(), stopped).end == TrainEnd::kTimeLimit) {
    ASSERT_LT(++calls, 10);
    load(stopped.out);  // there are adapters after every call
  }
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(read_file(out / "model.safetensors") ==
              read_file(fs::path(stopped.out) / "model.safetensors"));
}

TEST_F(TrainTidar, GoesOnFromAdaptersWithTheirDesign) {
  TidarTraining o = small_tidar();
  o.block = 3;
  o.first_slot = true;
  o.markov_rank = 0;
  train_tidar(target(), {answers()}, o, quick(out));
  TidarTraining more = small_tidar();
  more.init = out.string();
  const TrainOptions t = quick(folder.path() / "more");
  train_tidar(target(), {answers()}, more, t);
  const GatedLora lora = load(t.out);
  EXPECT_EQ(lora.config.block, 3);
  EXPECT_EQ(lora.config.first_slot, 0);
  EXPECT_FALSE(lora.markov_w1.defined());
}

TEST_F(TrainTidar, RefusesWhatCannotBeTrained) {
  const auto says = [&](const char* word, const std::function<void(TidarTraining&)>& change) {
    TidarTraining o = small_tidar();
    change(o);
    const std::string line = complaint(o, quick(out));
    expect_said("usage: ", line);
    expect_said(word, line);
  };
  says("lora", [](auto& o) { o.rank = 0; });
  says("block", [](auto& o) { o.block = 1; });
  says("block", [](auto& o) { o.block = 257; });
  says("markov", [](auto& o) { o.markov_rank = -1; });
  says("offsets", [](auto& o) { o.loss.offsets = 0; });
  says("gamma", [](auto& o) { o.loss.gamma = std::numeric_limits<double>::quiet_NaN(); });
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(TrainTidar, RefusesAdaptersAndAnswersOfAnotherTarget) {
  train_tidar(target(), {answers()}, small_tidar(), quick(out));
  fs::create_directories(folder.path() / "other");
  const Model other = other_target(folder.path() / "other" / "model");
  const TrainOptions t = quick(folder.path() / "more");
  expect_said("answers of another model", complaint(small_tidar(), t, other));
  EXPECT_THROW(load_gated_lora(out, impl_of(other).lm.config, other.hash()), FormatError);
  // A folder that holds the target itself is not written over.
  expect_said("holds another model", complaint(small_tidar(), quick(target().path())));
}

}  // namespace
}  // namespace forerun
