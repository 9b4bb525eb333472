// A whole model that drafts on rows of masks: a few steps, a folder that loads as any model, and
// drafts with its own weights.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/certificate.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/token_shards.h"
#include "forerun/models/gated_lora/mask_model.h"
#include "forerun/train.h"
#include "tests/support/tiny_drafter.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using testing::answers;
using testing::files_in;
using testing::quick;
using testing::read_file;
using testing::target;
using testing::TempFolder;

TidarModelTraining small_model() {
  TidarModelTraining o;
  o.markov_rank = 2;
  o.loss.held_out = 0.1;
  return o;
}

// Documents that count: what the target itself writes has nothing to teach it.
const std::string& counting() {
  static const std::string path = [] {
    std::vector<TokenDocument> documents;
    for (std::int64_t i = 0; i < 60; ++i) {
      TokenDocument d{.id = i, .prompt = 0, .tokens = {}};
      for (std::int64_t j = 0; j < 24; ++j) {
        d.tokens.push_back(static_cast<Token>(10 + (i * 7 + j) % 40));
      }
      documents.push_back(std::move(d));
    }
    const fs::path out = testing::kept().path() / "counting";
    fs::create_directories(out);
    write_token_shard(out / "tokens-00000.safetensors", documents);
    return out.string();
  }();
  return path;
}

TrainReport learn(const TidarModelTraining& o, const TrainOptions& t,
                  const TrainListener& listener = {}, const std::string& from = target().path(),
                  const std::string& data = answers()) {
  return train_tidar_model(from, {data}, o, t, listener);
}

class TrainTidarModel : public ::testing::Test {
 protected:
  std::string complaint(const TidarModelTraining& o, const TrainOptions& t,
                        const std::string& from = target().path()) {
    const auto before = files_in(t.out);
    std::string line;
    try {
      learn(o, t, {}, from);
    } catch (const UsageError& e) {
      line = std::string("usage: ") + e.what();
    } catch (const std::exception& e) {
      line = e.what();
    }
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    EXPECT_TRUE(files_in(t.out) == before) << line;
    return line;
  }
  void expect_word(const std::string& word, const std::string& line) {
    EXPECT_NE(line.find(word), line.npos) << line;
  }
  // The target's folder without its weights.
  std::string sizes_alone() {
    const fs::path bare = folder.path() / "bare";
    fs::create_directories(bare);
    for (const char* name : {"config.json", "tokenizer.json", "chat_template.jinja"}) {
      fs::copy_file(fs::path(target().path()) / name, bare / name,
                    fs::copy_options::overwrite_existing);
    }
    return bare.string();
  }

  TempFolder folder;
  fs::path out = folder.path() / "whole";
};

TEST_F(TrainTidarModel, LearnsBothAndDraftsForItselfWithoutChangingItsTexts) {
  TrainOptions t = quick(out);
  t.steps = 30;
  t.learning_rate = 3e-3;
  t.evaluate_steps = 30;
  std::vector<HeldOut> held_out;
  TrainListener listener;
  listener.on_held_out = [&](const HeldOut& h) { held_out.push_back(h); };
  EXPECT_EQ(learn(small_model(), t, listener, target().path(), counting()).end, TrainEnd::kDone);
  ASSERT_EQ(held_out.size(), 2U);
  ASSERT_EQ(held_out[1].figures.size(), 5U);  // text, first, tau, and two further slots
  EXPECT_LT(held_out[1].loss, 0.7 * held_out[0].loss);
  EXPECT_LT(held_out[1].figures[0].value(), 0.7 * held_out[0].figures[0].value());

  std::vector<Precision> precisions = {Precision::kF32, Precision::kBF16};
  if (machine().int8) precisions.push_back(Precision::kInt8);
  for (const Precision precision : precisions) {
    const Model model = Model::load(out.string(), precision);
    EXPECT_EQ(model.tokenizer_info().end, target().tokenizer_info().end);
    for (const std::string& name :
         {std::string("tidar:self"), "tidar:" + out.string() + "+lookup"}) {
      const Drafter drafter = Drafter::load(name, model);
      GenerateOptions o;
      o.max_tokens = 80;
      o.ignore_end = true;
      o.fixed_draft = true;
      for (const char* text : {"hello", "a b a b a b", "question 3"}) {
        const std::vector<Token> prompt = model.encode(text);
        const Generated plain = generate(model, Drafter(), prompt, o);
        const Generated drafted = generate(model, drafter, prompt, o);
        if (precision != Precision::kBF16) {  // whose rows round otherwise in company
          EXPECT_EQ(drafted.tokens, plain.tokens) << text << " " << name;
        }
        EXPECT_GT(drafted.statistics.drafted, 0U);
        EXPECT_TRUE(drafted.exact);
      }
    }
  }
}

// False alarm below 3e-4; seeded, so once.
TEST_F(TrainTidarModel, ItsSampledDraftsHaveACertificate) {
  learn(small_model(), quick(out));
  const Model model = Model::load(out.string(), Precision::kF32);
  const Drafter drafter = Drafter::load("tidar:self", model);
  GenerateOptions o;
  o.rule = Rule::kMaximal;
  o.sampling.temperature = 1.0;
  o.max_tokens = 60;
  o.ignore_end = true;
  o.fixed_draft = true;
  const std::vector<std::vector<Token>> prompts = {model.encode("hello"), model.encode("a b a b")};
  const Certificate c = certify(model, drafter, prompts, 1000, 64, o);
  EXPECT_TRUE(c.passed()) << c.report.z;
  EXPECT_GT(c.report.drafted, 300U);
}

TEST_F(TrainTidarModel, ResumedEndsInTheSameWeights) {
  learn(small_model(), quick(out));
  TrainOptions stopped = quick(folder.path() / "stopped");
  stopped.time_limit = 1e-9;
  int calls = 0;
  while (learn(small_model(), stopped).end == TrainEnd::kTimeLimit) {
    ASSERT_LT(++calls, 10);
    Drafter::load("tidar:self",
                  Model::load(stopped.out, Precision::kF32));  // there is a model after every call
  }
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(read_file(out / "model.safetensors") ==
              read_file(fs::path(stopped.out) / "model.safetensors"));
}

TEST_F(TrainTidarModel, BeginsWithRandomWeightsOrWithItsOwn) {
  TidarModelTraining o = small_model();
  o.random = true;
  TrainOptions t = quick(out);
  t.steps = 40;
  t.learning_rate = 1e-2;
  t.evaluate_steps = 40;
  std::vector<double> text;
  TrainListener listener;
  listener.on_held_out = [&](const HeldOut& h) { text.push_back(h.figures.at(0).value()); };
  learn(o, t, listener, sizes_alone(), counting());
  ASSERT_EQ(text.size(), 2U);
  EXPECT_NEAR(text[0], std::log(static_cast<double>(target().vocab())), 0.1);  // a flat law
  EXPECT_LT(text[1], text[0] - 0.3);
  o.random = false;
  text.clear();
  t.out = (folder.path() / "more").string();
  learn(o, t, listener, out.string(), counting());
  EXPECT_LT(text.at(0), std::log(static_cast<double>(target().vocab())) - 0.3);
}

TEST_F(TrainTidarModel, ATwinIsAnOrdinaryModel) {
  TidarModelTraining o = small_model();
  o.loss.masks = false;
  learn(o, quick(out));
  const Model model = Model::load(out.string(), Precision::kF32);
  EXPECT_EQ(generate(model, Drafter(), model.encode("hello"), {.max_tokens = 5}).tokens.size(), 5U);
  EXPECT_FALSE(is_mask_model(load_hf_config(out).config));
  EXPECT_THROW(Drafter::load("tidar:self", model), FormatError);
}

TEST_F(TrainTidarModel, DraftsForItselfAlone) {
  learn(small_model(), quick(out));
  EXPECT_THROW(Drafter::load("tidar:" + out.string(), target()), FormatError);
  // A copy has the same weights.
  const fs::path copy = folder.path() / "copy";
  fs::copy(out, copy);
  EXPECT_TRUE(Drafter::load("tidar:" + copy.string(), Model::load(out.string(), Precision::kF32))
                  .has_laws());
}

TEST_F(TrainTidarModel, RefusesWhatCannotBeTrained) {
  const auto says = [&](const char* word, const std::function<void(TidarModelTraining&)>& change) {
    TidarModelTraining o = small_model();
    change(o);
    const std::string line = complaint(o, quick(out));
    expect_word("usage: ", line);
    expect_word(word, line);
  };
  says("block", [](auto& o) { o.block = 1; });
  says("markov", [](auto& o) { o.markov_rank = -1; });
  says("offsets", [](auto& o) { o.loss.offsets = 0; });
  says("alpha", [](auto& o) { o.loss.alpha = -1.0; });
  says("alpha", [](auto& o) {
    o.loss.masks = false;
    o.loss.alpha = 0.0;
  });
  expect_word("Hugging Face folder", complaint(small_model(), quick(out), "/nowhere"));
  const std::string bare = sizes_alone();
  expect_word("model.safetensors", complaint(small_model(), quick(out), bare));
  fs::remove(fs::path(bare) / "tokenizer.json");
  TidarModelTraining random = small_model();
  random.random = true;
  expect_word("tokenizer.json", complaint(random, quick(out), bare));
  expect_word("holds another model", complaint(small_model(), quick(target().path())));
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace forerun
