// Models as they are found: what their files have beside what a model needs, and where they lie.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/formats/hf_config.h"
#include "forerun/model.h"
#include "forerun/models/load_decoder.h"
#include "tests/support/checkpoint_copy.h"
#include "tests/support/tiny_folder.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::read_file;
using testing::thrown_by;

// A copy of a tiny model's folder with other settings.
class FoundModel : public ::testing::Test {
 protected:
  FoundModel() { fs::copy(kTiny + "llama_plain", folder(), fs::copy_options::recursive); }
  std::string folder() const { return (temp_.path() / "model").string(); }
  json read(const std::string& name) const {
    return json::parse(read_file(fs::path(folder()) / name));
  }
  void write(const std::string& name, const json& value) const {
    std::ofstream(fs::path(folder()) / name) << value.dump();
  }
  Model load() const { return Model::load(folder(), Precision::kF32); }

  testing::TempFolder temp_;
};

json added(Token id, const std::string& content) {
  return {{"id", id}, {"content", content}, {"special", true}};
}

// As in Gemma 3 1B, whose tokenizer has the token of pictures that the model has no row for.
TEST_F(FoundModel, AddedTokensWithoutARowAreOrdinaryText) {
  json tokenizer = read("tokenizer.json");
  tokenizer["added_tokens"].push_back(added(176, "<image>"));
  tokenizer["added_tokens"].push_back(added(180, "<sound>"));
  write("tokenizer.json", tokenizer);
  const Model model = load();
  EXPECT_EQ(model.tokenizer_info().pieces, 176U);
  const std::vector<Token> spelled = model.encode("a<image>b");
  EXPECT_EQ(spelled.size(), 9U);
  EXPECT_EQ(model.decode(spelled), "a<image>b");
  EXPECT_EQ(spelled, Model::load(kTiny + "llama_plain", Precision::kF32).encode("a<image>b"));
}

TEST_F(FoundModel, OrdinaryTokensWithoutARowAreRefused) {
  json tokenizer = read("tokenizer.json");
  tokenizer["model"]["vocab"]["more"] = 176;
  tokenizer["added_tokens"].push_back(added(177, "<image>"));
  write("tokenizer.json", tokenizer);
  EXPECT_NE(thrown_by([&] { load(); }).find("has 178 entries, the model scores 176"),
            std::string::npos);
}

// Tensors of types that are not read are no harm where nobody asks for them.
TEST_F(FoundModel, MayHoldTensorsThatNobodyReads) {
  testing::CheckpointCopy copy(kTiny + "llama_plain", "model.safetensors");
  const std::string mask = "abc";
  const auto bytes = std::as_bytes(std::span(mask));
  copy.tensors["model.mask"] = {"model.mask", DType::kU8, {3}, bytes};
  const auto loads = [&] {
    copy.write();
    load_decoder(load_hf_config(copy.folder.path()), load_safetensors(copy.folder.path()),
                 copy.folder.path().string(), Precision::kF32);
  };
  EXPECT_EQ(thrown_by(loads), "did not throw");
  copy.tensors["model.norm.weight"].dtype = DType::kU8;
  copy.tensors["model.norm.weight"].bytes = copy.tensors["model.norm.weight"].bytes.first(48);
  copy.expect_says("tensor 'model.norm.weight' is stored as U8, which forerun does not read",
                   loads);
  copy.config["quantization_config"] = {{"quant_method", "bitsandbytes"}};
  copy.expect_says("quantised by 'bitsandbytes'", loads);
}

TEST_F(FoundModel, TakesTheChatTemplateOfAProcessor) {
  write("tokenizer_config.json", {{"bos_token", "<s>"}});
  write("chat_template.json", {{"chat_template", "older"}});
  EXPECT_EQ(load().tokenizer_info().chat_template, "older");
  write("tokenizer_config.json", {{"chat_template", "own"}});
  EXPECT_EQ(load().tokenizer_info().chat_template, "own");
  std::ofstream(fs::path(folder()) / "chat_template.jinja") << "newer";
  EXPECT_EQ(load().tokenizer_info().chat_template, "newer");
  fs::remove(fs::path(folder()) / "chat_template.jinja");
  write("tokenizer_config.json", json::object());
  std::ofstream(fs::path(folder()) / "chat_template.json") << "{";
  EXPECT_NE(thrown_by([&] { load(); }).find("chat_template.json: not valid JSON"),
            std::string::npos);
}

TEST_F(FoundModel, IsFoundByItsNameInTheCache) {
  const fs::path hub = temp_.path() / "hub", repository = hub / "models--some--model";
  fs::create_directories(repository / "refs");
  fs::create_directories(repository / "snapshots");
  std::ofstream(repository / "refs" / "main") << "abc";
  fs::rename(folder(), repository / "snapshots" / "abc");
  setenv("HF_HUB_CACHE", hub.c_str(), 1);
  const Model model = Model::load("some/model", Precision::kF32);
  EXPECT_EQ(model.path(), repository / "snapshots" / "abc");
  EXPECT_EQ(Model::load(repository.string(), Precision::kF32).path(), model.path());
  fs::remove(repository / "snapshots" / "abc" / "model.safetensors");
  fs::remove(repository / "snapshots" / "abc" / "config.json");
  fs::rename(repository / "snapshots" / "abc" / "model.gguf",
             repository / "snapshots" / "abc" / "tiny.gguf");
  EXPECT_EQ(Model::load("some/model", Precision::kF32).path(),
            repository / "snapshots" / "abc" / "tiny.gguf");
  try {
    Model::load("some/other", Precision::kF32);
    FAIL() << "did not throw";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("hf download some/other"), std::string::npos) << e.what();
  }
  unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace forerun
