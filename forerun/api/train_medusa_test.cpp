// Medusa heads from nothing but a target and its answers: they learn, load, and leave texts as they
// are; and what training refuses, in one line, with nothing left behind that was not there.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "forerun/api/model_file.h"
#include "forerun/formats/token_shards.h"
#include "forerun/models/medusa/medusa_config_json.h"
#include "forerun/models/medusa/medusa_file.h"
#include "forerun/text.h"
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

MedusaTraining few_heads() {
  MedusaTraining o;
  o.width = 32;
  o.intermediate = 64;
  o.features = {0, 1};  // a target of three blocks has no five to choose from
  o.draft_vocab = 60;
  o.markov_rank = 4;
  o.loss.anchors = 8;
  o.loss.held_out = 0.1;
  return o;
}

TrainReport learn_heads(const MedusaTraining& options, const TrainOptions& training,
                        const TrainListener& listener = {}) {
  return train_medusa(target(), {answers()}, options, training, listener);
}

Medusa load_heads(const fs::path& folder) {
  return load_medusa(folder, numbers_of(target(), DecoderParts::kEnds));
}

TrainOptions long_run(const fs::path& out) {
  TrainOptions o = quick(out);
  o.steps = 48;
  o.evaluate_steps = 24;
  o.learning_rate = 3e-3;
  return o;
}

void expect_plain_texts(const fs::path& heads) {
  const Drafter drafter = Drafter::load("medusa:" + heads.string(), target(), Precision::kF32);
  EXPECT_FALSE(drafter.has_laws());
  for (const double temperature : {0.0, 0.8}) {
    GenerateOptions o;
    o.rule = temperature > 0.0 ? Rule::kSharedNoise : Rule::kMaximal;
    o.sampling.temperature = temperature;
    o.max_tokens = 60;
    o.ignore_end = o.fixed_draft = true;
    for (const char* text : {"hello", "a b a b a b", "question 3"}) {
      const std::vector<Token> prompt = target().encode(text);
      const Generated plain = generate(target(), Drafter(), prompt, o);
      const Generated drafted = generate(target(), drafter, prompt, o);
      EXPECT_EQ(drafted.tokens, plain.tokens) << text << temperature;
      EXPECT_GT(drafted.statistics.drafted, 0U);
    }
  }
}

class TrainMedusa : public ::testing::Test {
 protected:
  // What it says, in one line; nothing is left behind that was not there.
  std::string complaint(const std::vector<std::string>& data, const MedusaTraining& o,
                        const TrainOptions& t, const Model& model = target()) {
    const auto before = files_in(t.out);
    std::string line;
    try {
      train_medusa(model, data, o, t);
    } catch (const UsageError& e) {
      line = std::string("usage: ") + e.what();
    } catch (const std::exception& e) {
      line = e.what();
    }
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    EXPECT_TRUE(files_in(t.out) == before) << line;
    return line;
  }
  void expect_says(const std::string& line, std::initializer_list<std::string> words) {
    for (const std::string& word : words) EXPECT_NE(line.find(word), line.npos) << line;
  }

  testing::TempFolder folder;
  fs::path out = folder.path() / "heads";
};

TEST_F(TrainMedusa, LearnsLoadsAndLeavesTextsAsTheyAre) {
  std::vector<double> losses;
  std::vector<HeldOut> held_out;
  TrainListener listener;
  listener.on_step = [&](const Progress& p) { losses.push_back(p.loss); };
  listener.on_held_out = [&](const HeldOut& h) { held_out.push_back(h); };
  const TrainReport report = learn_heads(few_heads(), long_run(out), listener);
  EXPECT_EQ(report.end, TrainEnd::kDone);
  ASSERT_EQ(losses.size(), 48U);
  const auto mean = [&](std::ptrdiff_t begin) {  // of eight steps, more than an epoch
    return std::accumulate(losses.begin() + begin, losses.begin() + begin + 8, 0.0) / 8.0;
  };
  EXPECT_LT(mean(40), mean(0) - 0.5);
  ASSERT_EQ(held_out.size(), 3U);  // before the first step, after half of them and after the last
  for (const HeldOut& h : held_out) {
    EXPECT_TRUE(std::isfinite(h.loss));
    ASSERT_EQ(h.figures.size(), 2U);
    EXPECT_EQ(h.figures[0].name, "first");
    EXPECT_EQ(h.figures[1].name, "tau");
  }
  const MedusaConfig made = load_heads(out).config;
  EXPECT_EQ(made.heads, 3);
  EXPECT_EQ(made.width, 32);
  EXPECT_EQ(made.intermediate, 64);
  EXPECT_EQ(made.feature_layers, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(made.draft_vocab, 60);
  EXPECT_EQ(made.markov_rank, 4);
  EXPECT_EQ(made.weight_bits, 0);
  expect_plain_texts(out);
}

TEST_F(TrainMedusa, EveryShapeOfHeadsLoadsAgain) {
  const auto trains = [&](const char* name, const std::function<void(MedusaTraining&)>& change) {
    SCOPED_TRACE(name);
    MedusaTraining o = few_heads();
    change(o);
    TrainOptions t = quick(folder.path() / name);
    t.steps = 1;
    t.evaluate_steps = 0;
    train_medusa(target(), {answers(), answers()}, o, t);
    expect_plain_texts(t.out);
  };
  trains("plain", [](MedusaTraining& o) { o.markov_rank = o.draft_vocab = 0; });
  trains("wide", [](MedusaTraining& o) { o.width = 96; });  // than the target's states
  trains("one", [](MedusaTraining& o) {
    o.heads = 1;
    o.features = {1};
  });
  trains("many", [](MedusaTraining& o) {
    o.heads = 7;
    o.features = {1, 0, 1};
  });
}

TEST_F(TrainMedusa, ADraftVocabularyBeyondTheTargetsIsAllOfIt) {
  const TrainOptions all = quick(folder.path() / "all"), more = quick(folder.path() / "more");
  MedusaTraining o = few_heads();
  o.draft_vocab = 0;
  learn_heads(o, all);
  o.draft_vocab = 1 << 20;
  learn_heads(o, more);
  EXPECT_TRUE(read_file(fs::path(all.out) / "model.safetensors") ==
              read_file(fs::path(more.out) / "model.safetensors"));
}

TEST_F(TrainMedusa, ResumedEndsInTheSameWeights) {
  learn_heads(few_heads(), quick(out));
  TrainOptions stopped = quick(folder.path() / "stopped");
  stopped.time_limit = 1e-9;
  int calls = 0;
  while (learn_heads(few_heads(), stopped).end == TrainEnd::kTimeLimit) {
    ASSERT_LT(++calls, 10);
    load_heads(stopped.out);  // there are heads after every call
  }
  EXPECT_EQ(calls, 4);  // a step each; the last held-out loss is left to a fifth process
  EXPECT_TRUE(read_file(out / "model.safetensors") ==
              read_file(fs::path(stopped.out) / "model.safetensors"));
  // Another seed gives others.
  TrainOptions other = quick(folder.path() / "other");
  other.seed = 1;
  learn_heads(few_heads(), other);
  EXPECT_FALSE(read_file(out / "model.safetensors") ==
               read_file(fs::path(other.out) / "model.safetensors"));
}

TEST_F(TrainMedusa, GoesOnFromHeadsAndKeepsTheirDesign) {
  std::vector<double> fresh, more;
  TrainListener listener;
  listener.on_step = [&](const Progress& p) { fresh.push_back(p.loss); };
  const TrainReport report = learn_heads(few_heads(), long_run(out), listener);
  MedusaTraining o;  // of another design
  o.heads = 1;
  o.features = {1};
  o.loss = few_heads().loss;
  o.init = out.string();
  TrainOptions again = quick(folder.path() / "again");
  again.steps = 1;
  std::vector<HeldOut> held_out;
  listener.on_step = [&](const Progress& p) { more.push_back(p.loss); };
  listener.on_held_out = [&](const HeldOut& h) { held_out.push_back(h); };
  learn_heads(o, again, listener);
  EXPECT_EQ(medusa_config_json(load_heads(again.out).config),
            medusa_config_json(load_heads(out).config));
  EXPECT_TRUE(at::equal(load_heads(again.out).draft_to_target, load_heads(out).draft_to_target));
  // They begin as what was saved, in bf16: on the first batch, which is that of the first run too.
  ASSERT_FALSE(held_out.empty());
  EXPECT_EQ(held_out[0].step, 0);
  EXPECT_NEAR(held_out[0].loss, report.held_out.loss, 0.003 * report.held_out.loss);
  EXPECT_LT(more.at(0), fresh.at(0) - 0.5);
  // What came before is read alone.
  EXPECT_EQ(load_heads(out).config.heads, 3);
  o.weight_bits = 4;
  expect_says(complaint({answers()}, o, quick(folder.path() / "bits")),
              {"usage: ", "not multiples of 32"});
  o.init = (folder.path() / "missing").string();
  expect_says(complaint({answers()}, o, quick(folder.path() / "bits")), {"missing"});
}

// Both read the same rounded states.
TEST_F(TrainMedusa, AStateStoreServesTwoRuns) {
  MedusaTraining o = few_heads();
  o.loss.state_store = (folder.path() / "states").string();
  learn_heads(o, quick(out));
  const auto size = fs::file_size(o.loss.state_store);
  const TrainOptions again = quick(folder.path() / "again");
  learn_heads(o, again);
  EXPECT_TRUE(read_file(out / "model.safetensors") ==
              read_file(fs::path(again.out) / "model.safetensors"));
  EXPECT_EQ(fs::file_size(o.loss.state_store), size);
  expect_plain_texts(out);
}

// ---- refused ----

TEST_F(TrainMedusa, RefusesSizesOutOfRange) {
  const auto says = [&](const char* word, const std::function<void(MedusaTraining&)>& change) {
    MedusaTraining o = few_heads();
    change(o);
    expect_says(complaint({answers()}, o, quick(out)), {"usage: ", word});
  };
  for (const std::int64_t bad : {-1, 0}) {
    says("heads: 1 to 64", [&](auto& o) { o.heads = bad; });
    says("width: 1 to", [&](auto& o) { o.width = bad; });
    says("mlp: 1 to", [&](auto& o) { o.intermediate = bad; });
    says("anchors: 1 or more", [&](auto& o) { o.loss.anchors = bad; });
  }
  says("heads: 1 to 64", [](auto& o) { o.heads = 65; });
  says("width: 1 to", [](auto& o) { o.width = (1 << 20) + 1; });
  says("mlp: 1 to", [](auto& o) { o.intermediate = (1 << 20) + 1; });
  says("feature layer 2: name some of 0 to 1", [](auto& o) { o.features = {0, 2}; });
  says("feature layer -1", [](auto& o) { o.features = {-1}; });
  says("name the layers", [](auto& o) { o.features.clear(); });
  says("draft-vocab", [](auto& o) { o.draft_vocab = -1; });
  says("markov", [](auto& o) { o.markov_rank = -1; });
  says("markov", [](auto& o) { o.markov_rank = 1 << 17; });
  says("weight-bits: 0", [](auto& o) { o.weight_bits = 8; });
  says("not multiples of 32", [](auto& o) { o.weight_bits = 4; });
  says("length", [](auto& o) { o.loss.length = 1; });
  says("held-out", [](auto& o) { o.loss.held_out = 1.0; });
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {-0.1, 1.5, none})
    says("distill", [&](auto& o) { o.loss.distill = bad; });
  for (const double bad : {0.0, -1.0, none}) says("gamma", [&](auto& o) { o.loss.gamma = bad; });
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(TrainMedusa, RefusesAnswersOfAnotherModelOrNone) {
  const Model other = other_target(folder.path() / "model");
  expect_says(complaint({answers()}, few_heads(), quick(out), other),
              {"usage: ", answers(), "answers of another model"});
  expect_says(complaint({}, few_heads(), quick(out)), {"usage: ", "no data"});
  expect_says(complaint({(folder.path() / "missing").string()}, few_heads(), quick(out)),
              {"missing", "cannot be read"});
  const fs::path large = folder.path() / "large";
  fs::create_directories(large);
  const std::vector<TokenDocument> documents = {{.id = 8, .prompt = 1, .tokens = {1, 2, 3, 176}}};
  write_token_shard(large / "a.safetensors", documents);
  expect_says(complaint({large.string()}, few_heads(), quick(out)),
              {"usage: ", "document 8", "token 176", "another model"});
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(TrainMedusa, RefusesToOverwriteWhatIsNotItsOwn) {
  const auto refused = [&](const fs::path& where) {
    expect_says(complaint({answers()}, few_heads(), quick(where)),
                {"usage: ", where.string(), "--out"});
  };
  const fs::path model = folder.path() / "model", drafter = folder.path() / "drafter";
  testing::make_chat_model(model);
  refused(model);
  TrainOptions one = quick(drafter);
  one.steps = 1;
  train_dflash(target(), {answers()}, testing::small(), one);
  fs::remove(drafter / "checkpoint.safetensors");
  refused(drafter);
  // What it made itself it may begin again; not heads that came without their run.
  learn_heads(few_heads(), quick(out));
  fs::remove(out / "checkpoint.safetensors");
  EXPECT_EQ(learn_heads(few_heads(), quick(out)).resumed_from, 0);
  fs::remove(out / "checkpoint.safetensors");
  fs::remove(out / "log.jsonl");
  refused(out);

  const fs::path file = folder.write("file", "precious");
  expect_says(complaint({answers()}, few_heads(), quick(file)), {file.string()});
  MedusaTraining o = few_heads();
  o.loss.state_store = file.string();
  expect_says(complaint({answers()}, o, quick(folder.path() / "new")),
              {file.string(), "--state-store"});
  EXPECT_EQ(read_file(file), "precious");
}

TEST_F(TrainMedusa, RefusesToResumeWithOtherOptions) {
  TrainOptions stopped = quick(out);
  stopped.time_limit = 1e-9;
  learn_heads(few_heads(), stopped);
  const auto says = [&](std::initializer_list<std::string> words,
                        const std::function<void(MedusaTraining&)>& change) {
    MedusaTraining o = few_heads();
    change(o);
    expect_says(complaint({answers()}, o, quick(out)), words);
  };
  says({"usage: ", "gamma=4", "gamma=5"}, [](auto& o) { o.loss.gamma = 5.0; });
  says({"usage: ", "heads=3", "heads=2"}, [](auto& o) { o.heads = 2; });
  says({"usage: ", "width=32", "width=64"}, [](auto& o) { o.width = 64; });
  says({"usage: ", "state_store=off (now state_store=on)"},
       [&](auto& o) { o.loss.state_store = (folder.path() / "states").string(); });
  expect_says(complaint({answers(), answers()}, few_heads(), quick(out)), {"usage: ", "examples"});
  EXPECT_EQ(learn_heads(few_heads(), quick(out)).resumed_from, 1);
}

}  // namespace
}  // namespace forerun
