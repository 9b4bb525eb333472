#include "forerun/models/gated_lora/gated_lora_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "tests/support/temp_folder.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

using nlohmann::json;
using testing::TempFolder;

class GatedLoraFile : public ::testing::Test {
 protected:
  std::string complaint(const std::string& hash = "xxh3:1") const {
    try {
      load_gated_lora(folder.path(), decoder, hash);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "";
  }
  void expect_said(const std::string& words, const std::function<void(json&)>& change) {
    json changed = config;
    change(changed);
    std::ofstream(folder.path() / "config.json") << changed;
    const std::string line = complaint();
    EXPECT_NE(line.find(words), line.npos) << line;
    EXPECT_EQ(line.find(folder.path().string()), 0U) << line;
    EXPECT_EQ(line.find('\n'), line.npos);
  }

  TempFolder folder;
  DecoderConfig decoder = *parse_decoder_config(load_hf_config(kTiny + "llama_plain").config);
  GatedLora lora = [this] {
    GatedLoraConfig c = gated_lora_config(decoder);
    c.target = "xxh3:1";
    c.rank = 2;
    c.block = 5;
    c.markov_rank = 3;
    return initial_gated_lora(c, at::ones({decoder.hidden}), 3);
  }();
  json config;
};

TEST_F(GatedLoraFile, ReadsWhatWasWritten) {
  save_gated_lora(folder.path(), lora, {{"step", 4}});
  GatedLora read = load_gated_lora(folder.path(), decoder, "xxh3:1");
  EXPECT_EQ(read.config.block, 5);
  EXPECT_EQ(read.config.first_slot, 1);
  EXPECT_EQ(read.config.rank, 2);
  const auto ours = weights(lora), theirs = weights(read);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::equal(ours[i].tensor->to(at::kBFloat16), theirs[i].tensor->to(at::kBFloat16)))
        << ours[i].name;
  }
  EXPECT_EQ(load_hf_config(folder.path()).config["forerun"]["step"], 4);
}

// Whose layers have matrices of several widths.
TEST_F(GatedLoraFile, OfModelsWithExpertsInSomeLayersIsRefused) {
  save_gated_lora(folder.path(), lora);
  EXPECT_EQ(complaint(), "");
  decoder.dense.assign(static_cast<std::size_t>(decoder.layers), true);
  EXPECT_NE(complaint().find("experts in some layers"), std::string::npos) << complaint();
}

TEST_F(GatedLoraFile, OfAnotherModelOrDamagedIsRefusedInALine) {
  save_gated_lora(folder.path(), lora);
  config = load_hf_config(folder.path()).config;
  const std::string other = complaint("xxh3:2");
  EXPECT_NE(other.find("trained on the weights"), other.npos) << other;
  expect_said("hidden_size", [](json& c) { c["hidden_size"] = 64; });
  expect_said("num_hidden_layers", [](json& c) { c["num_hidden_layers"] = 4; });
  expect_said("model_type", [](json& c) { c["model_type"] = "llama"; });
  expect_said("'target' is missing", [](json& c) { c.erase("target"); });
  expect_said("out of range", [](json& c) { c["block"] = 1; });
  expect_said("out of range", [](json& c) { c["rank"] = 1 << 20; });
  expect_said("lora_A", [](json& c) { c["rank"] = 3; });
  expect_said("markov", [](json& c) { c["markov_rank"] = 0; });
}

TEST_F(GatedLoraFile, UnfinishedAdaptersAreNotWritten) {
  lora.layers[1].k.b = at::Tensor();
  EXPECT_THROW(save_gated_lora(folder.path() / "new", lora), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
