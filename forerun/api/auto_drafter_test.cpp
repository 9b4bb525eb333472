// What the short name "auto" stands for where a trained drafter lies beside the model. Answers
// beside it: sam_drafter_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/common.h"
#include "forerun/models/medusa/medusa_file.h"
#include "forerun/text.h"
#include "tests/support/random_medusa.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_dflash.h"
#include "tests/support/tiny_prompts.h"
#include "tests/support/tiny_tidar.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using testing::chat_model;

MedusaConfig config_for(const DecoderConfig& target) {
  MedusaConfig c = small_medusa();
  c.hidden = target.hidden;
  c.vocab = c.draft_vocab = target.vocab;
  c.target_layers = target.layers;
  c.feature_layers = {0, 1};
  return c;
}

// A model in a folder of its own, with room for others beside it.
class AutoDrafter : public ::testing::Test {
 protected:
  AutoDrafter() { fs::copy(testing::chat_model_path(), path(), fs::copy_options::recursive); }
  std::string path() const { return (folder_.path() / "model").string(); }
  std::string beside() const { return path() + ".drafter"; }
  Model model() const { return Model::load(path(), Precision::kF32); }
  static Names without() { return {"lookup", "recycling"}; }

  static void put_heads(const std::string& folder, MedusaConfig config) {
    save_medusa(folder, noisy_medusa(config, at::kFloat, 9));
  }
  void put_heads() const { put_heads(beside(), config_for(impl_of(chat_model()).lm.config)); }
  void put(const std::string& from) const {
    fs::remove_all(beside());
    fs::copy(from, beside(), fs::copy_options::recursive);
  }
  void write(const char* name, const std::string& text) const {
    std::ofstream(fs::path(beside()) / name) << text;
  }

 private:
  testing::TempFolder folder_;
};

TEST_F(AutoDrafter, TakesTheTrainedOneBesideTheModel) {
  EXPECT_EQ(drafter_folder(model()), beside());
  EXPECT_EQ(drafter_folder(Model::load(path() + "/", Precision::kF32)), beside());
  EXPECT_EQ(Drafter::load("auto", model()).parts(), without());
  put_heads();
  const Model target = model();
  const std::string network = "medusa:" + beside();
  const Drafter drafter = Drafter::load("auto", target);
  EXPECT_EQ(drafter.name(), "auto");
  EXPECT_EQ(drafter.parts(), (Names{network, "lookup"}));
  EXPECT_EQ(drafter.left_out(), "");
  EXPECT_EQ(Drafter::load("lookahead+auto", target).parts(),
            (Names{network, "lookahead", "lookup"}));
  EXPECT_EQ(Drafter::load("auto+recycling", target).parts(),
            (Names{network, "lookup", "recycling"}));
  EXPECT_EQ(Drafter::load("lookup", target).parts(), Names{"lookup"});
  fs::copy(testing::chat_answers(), path() + ".answers", fs::copy_options::recursive);
  EXPECT_EQ(Drafter::load("auto", target).parts(),
            (Names{network, "lookup", "sam:" + path() + ".answers"}));
  EXPECT_EQ(Drafter::load("auto+sam:" + testing::chat_answers(), target).parts(),
            (Names{network, "lookup", "sam:" + testing::chat_answers()}));
}

// A tree has one network: what is named goes before what is found.
TEST_F(AutoDrafter, LeavesItAloneBesideANamedOne) {
  put_heads();
  const Model target = model();
  const std::string other = path() + " of my own";
  put_heads(other, config_for(impl_of(target).lm.config));
  EXPECT_EQ(Drafter::load("medusa:" + other + "+auto", target).parts(),
            (Names{"medusa:" + other, "lookup", "recycling"}));
  EXPECT_EQ(Drafter::load("tidar:" + testing::tiny_tidar_path(2) + "+auto", target).parts(),
            (Names{"tidar:" + testing::tiny_tidar_path(2), "lookup", "recycling"}));
}

TEST_F(AutoDrafter, KnowsTheKindFromItsConfig) {
  put(testing::tiny_tidar_path(2));
  EXPECT_EQ(Drafter::load("auto", model()).parts(), (Names{"tidar:" + beside(), "lookup"}));
  put(testing::tiny_dflash_path());
  EXPECT_EQ(Drafter::load("auto", model()).parts(), (Names{"dflash:" + beside(), "lookup"}));
}

TEST_F(AutoDrafter, KeepsTheTextWithIt) {
  put_heads();
  const Model target = model();
  const Drafter drafter = Drafter::load("auto", target);
  for (const double temperature : {0.0, 0.8}) {
    const GenerateOptions o = testing::options(Rule::kSharedNoise, temperature, 40);
    const Generated plain = generate(target, Drafter(), testing::prompt(20), o);
    EXPECT_EQ(generate(target, drafter, testing::prompt(20), o).tokens, plain.tokens)
        << temperature;
  }
}

// The user has not named it: drafts are made of the rest, and why is told.
TEST_F(AutoDrafter, LeavesOutWhatCannotBeUsed) {
  const auto expect_left_out = [&](const std::string& why) {
    const Drafter drafter = Drafter::load("auto", model());
    EXPECT_EQ(drafter.parts(), without()) << why;
    EXPECT_NE(drafter.left_out().find(why), std::string::npos) << drafter.left_out();
    EXPECT_EQ(drafter.left_out().empty(), why.empty()) << drafter.left_out();
    EXPECT_NO_THROW(generate(model(), drafter, testing::prompt(8),
                             testing::options(Rule::kSharedNoise, 0.0, 4)));
  };
  fs::create_directories(beside());
  expect_left_out("");  // training has not ended
  write("config.json", "{");
  expect_left_out("config.json");
  write("config.json", "[]");
  expect_left_out("config.json");
  for (const char* none : {"{}", R"({"architectures": []})", R"({"architectures": [7]})",
                           R"({"architectures": 7, "model_type": 7})"}) {
    write("config.json", none);
    expect_left_out("");
  }
  write("config.json", R"({"architectures": ["LlamaForCausalLM"]})");
  expect_left_out("'LlamaForCausalLM', which no drafter reads");
  fs::remove_all(beside());
  MedusaConfig other = config_for(impl_of(chat_model()).lm.config);
  other.hidden += 8;
  put_heads(beside(), other);
  expect_left_out("hidden");
  put_heads();
  EXPECT_EQ(Drafter::load("auto", model()).left_out(), "");
  write("model.safetensors", "damaged");
  expect_left_out("model.safetensors");
  // Beside answers that do not fit either, both are named.
  fs::copy(testing::chat_answers(), path() + ".answers", fs::copy_options::recursive);
  std::ofstream(path() + ".answers/distill.json") << "{";
  expect_left_out("model.safetensors");
  expect_left_out("distill.json: ");
  expect_left_out("; " + beside());
}

}  // namespace
}  // namespace forerun
