// What the short name "auto" stands for where a trained drafter lies beside the model. Answers
// beside it: sam_drafter_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/api/access.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/common.h"
#include "forerun/models/int8_decoder.h"
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
  EXPECT_EQ(drafter.parts(), (Names{network, "lookup", "recycling"}));
  EXPECT_EQ(drafter.left_out(), "");
  EXPECT_EQ(Drafter::load("lookahead+auto", target).parts(),
            (Names{network, "lookahead", "lookup", "recycling"}));
  EXPECT_EQ(Drafter::load("lookup", target).parts(), Names{"lookup"});
  fs::copy(testing::chat_answers(), path() + ".answers", fs::copy_options::recursive);
  EXPECT_EQ(Drafter::load("auto", target).parts(),
            (Names{network, "lookup", "recycling", "sam:" + path() + ".answers"}));
  EXPECT_EQ(Drafter::load("auto+sam:" + testing::chat_answers(), target).parts(),
            (Names{network, "lookup", "recycling", "sam:" + testing::chat_answers()}));
}

// A tree has one network, and one source of each kind.
TEST_F(AutoDrafter, GivesWayToWhatIsNamed) {
  EXPECT_EQ(Drafter::load("auto+recycling", model()).parts(), (Names{"lookup", "recycling"}));
  EXPECT_EQ(Drafter::load("recycling+auto", model()).parts(), (Names{"recycling", "lookup"}));
  put_heads();
  const Model target = model();
  const std::string other = path() + " of my own";
  put_heads(other, config_for(impl_of(target).lm.config));
  EXPECT_EQ(Drafter::load("auto+recycling", target).parts(),
            (Names{"medusa:" + beside(), "lookup", "recycling"}));
  EXPECT_EQ(Drafter::load("medusa:" + other + "+auto", target).parts(),
            (Names{"medusa:" + other, "lookup", "recycling"}));
  EXPECT_EQ(Drafter::load("tidar:" + testing::tiny_tidar_path(2) + "+auto", target).parts(),
            (Names{"tidar:" + testing::tiny_tidar_path(2), "lookup", "recycling"}));
}

TEST_F(AutoDrafter, KnowsTheKindFromItsConfig) {
  const Model target = model();
  put(testing::tiny_tidar_path(2));
  EXPECT_EQ(Drafter::load("auto", target).parts(),
            (Names{"tidar:" + beside(), "lookup", "recycling"}));
  put(testing::tiny_dflash_path());  // the same model sees that it has changed
  EXPECT_EQ(Drafter::load("auto", target).parts(),
            (Names{"dflash:" + beside(), "lookup", "recycling"}));
  nlohmann::json config = nlohmann::json::parse(testing::read_file(beside() + "/config.json"));
  for (const char* kinds : {R"(["Qwen3ForCausalLM"])", R"(["Other", "DFlashDraftModel"])"}) {
    config["architectures"] = nlohmann::json::parse(kinds);
    write("config.json", config.dump());
    EXPECT_EQ(Drafter::load("auto", target).parts(),
              (Names{"dflash:" + beside(), "lookup", "recycling"}));
  }
}

// A path may hold what would else be an option.
TEST_F(AutoDrafter, TakesItWhateverItsFolderIsNamed) {
  const std::string named = path() + ":block=3";
  fs::copy(path(), named, fs::copy_options::recursive);
  fs::copy(testing::tiny_tidar_path(2), named + ".drafter", fs::copy_options::recursive);
  const Drafter drafter = Drafter::load("auto", Model::load(named, Precision::kF32));
  EXPECT_EQ(drafter.parts(), (Names{"tidar:" + named + ".drafter", "lookup", "recycling"}));
  EXPECT_EQ(drafter.left_out(), "");
}

TEST_F(AutoDrafter, IsLookedForWhereTheModelWasLoaded) {
  put_heads();
  const fs::path before = fs::current_path();
  fs::current_path(fs::path(path()).parent_path());
  const Model target = Model::load("model", Precision::kF32);
  fs::current_path(before);
  EXPECT_EQ(Drafter::load("auto", target).parts(),
            (Names{"medusa:" + beside(), "lookup", "recycling"}));
}

TEST_F(AutoDrafter, SharesOneNetwork) {
  put_heads();
  const Model target = model();
  Drafter::load("auto", target);
  const auto first = impl_of(target).drafter->found.network;
  ASSERT_NE(first, nullptr);
  Drafter::load("auto+recycling", target);
  EXPECT_EQ(impl_of(target).drafter->found.network, first);
  Drafter::load("auto", target, Precision::kF32);
  EXPECT_NE(impl_of(target).drafter->found.network, first);
}

// Of the same text in every precision of the target, and the network drafts.
TEST_F(AutoDrafter, KeepsTheTextWithIt) {
  put_heads();
  for (const Precision precision : {Precision::kF32, Precision::kBF16, Precision::kInt8}) {
    if (precision == Precision::kInt8 && !machine().int8) continue;
    const Model target = Model::load(path(), precision);
    const Drafter drafter = Drafter::load("auto", target);
    ASSERT_EQ(drafter.parts().front(), "medusa:" + beside()) << drafter.left_out();
    for (const double temperature : {0.0, 0.8}) {
      GenerateOptions o = testing::options(Rule::kSharedNoise, temperature, 40);
      o.fixed_draft = true;
      o.max_draft = 4;
      const Generated plain = generate(target, Drafter(), testing::prompt(20), o);
      const Generated drafted = generate(target, drafter, testing::prompt(20), o);
      if (precision != Precision::kBF16) {
        EXPECT_EQ(drafted.tokens, plain.tokens) << temperature;
      }
      EXPECT_GE(drafted.statistics.drafted, 3 * (drafted.statistics.rounds - 1)) << temperature;
    }
  }
}

// Passes read the same bits; a copy of every target's embedding would take as much memory again.
TEST_F(AutoDrafter, ReadsTheEmbeddingOfTheTargetItself) {
  if (!machine().int8) GTEST_SKIP() << "no int8 passes here";
  const Model target = Model::load(path(), Precision::kInt8);
  const DecoderLm read = with_embedding(target);
  EXPECT_EQ(read.embedding.const_data_ptr(), impl_of(target).lm.int8->embedding().const_data_ptr());
  EXPECT_EQ(read.embedding.scalar_type(), at::kBFloat16);
}

// The user has not named it: drafts are made of the rest, and why is told.
TEST_F(AutoDrafter, LeavesOutWhatCannotBeUsed) {
  const auto expect_left_out = [&](const std::string& why) {
    const Drafter drafter = Drafter::load("auto", model());
    EXPECT_EQ(drafter.parts(), without()) << why;
    EXPECT_NE(drafter.left_out().find(why), std::string::npos) << drafter.left_out();
    EXPECT_NE(drafter.left_out().find(beside()), std::string::npos) << drafter.left_out();
    EXPECT_NO_THROW(generate(model(), drafter, testing::prompt(8),
                             testing::options(Rule::kSharedNoise, 0.0, 4)));
    EXPECT_EQ(Drafter::load("auto+recycling", model()).left_out(), drafter.left_out());
  };
  const auto expect_none = [&] {
    EXPECT_EQ(Drafter::load("auto", model()).parts(), without());
    EXPECT_EQ(Drafter::load("auto", model()).left_out(), "");
  };
  fs::create_directories(beside());
  expect_none();
  write("checkpoint.safetensors", "training has not ended");
  expect_none();
  for (const char* damaged : {"{", "[]", "{}", R"({"architectures": []})", R"({"model_type": 7})",
                              R"({"architectures": ["LlamaForCausalLM"]})"}) {
    write("config.json", damaged);
    expect_left_out("config.json");
  }
  fs::remove_all(beside());
  MedusaConfig other = config_for(impl_of(chat_model()).lm.config);
  other.hidden += 8;
  put_heads(beside(), other);
  expect_left_out("hidden");
  put_heads();
  EXPECT_EQ(Drafter::load("auto", model()).left_out(), "");
  EXPECT_THROW(Drafter::load("auto", model(), Precision::kInt4), UsageError);  // asked for
  write("model.safetensors", "damaged");
  expect_left_out("model.safetensors");
  // Beside answers that do not fit either, both are named.
  fs::copy(testing::chat_answers(), path() + ".answers", fs::copy_options::recursive);
  std::ofstream(path() + ".answers/distill.json") << "{";
  expect_left_out("distill.json: ");
  expect_left_out("; " + beside());
}

TEST_F(AutoDrafter, LeavesItOutWhereWeightsStayInTheirFile) {
  put_heads();
  const Drafter drafter = Drafter::load("auto", Model::load(path(), Precision::kFile));
  EXPECT_EQ(drafter.parts(), without());
  EXPECT_NE(drafter.left_out().find("stay in their file"), std::string::npos);
}

}  // namespace
}  // namespace forerun
