// Folders of answers that are refused, and stay as they are.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/distill.h"

namespace forerun {
namespace {

using testing::chatty;
using testing::complaint;
using testing::DistillFolder;
using testing::documents_in;
using testing::files_in;
using testing::kPrompts;
using testing::options;
using testing::read_file;

TEST_F(DistillFolder, OfOtherOptionsIsRefusedNamingTheOption) {
  const DistillOptions o = options(0.7);
  distill(chatty(), kPrompts, out.string(), o);
  const auto before = files_in(out);
  const auto refused = [&](const char* name, const std::function<void(DistillOptions&)>& change,
                           const std::vector<std::string>& prompts = kPrompts) {
    DistillOptions other = o;
    change(other);
    const std::string line = complaint<UsageError>(chatty(), prompts, out, other);
    EXPECT_NE(line.find(out.string()), line.npos) << line;
    EXPECT_NE(line.find(name), line.npos) << line;
    EXPECT_NE(line.find("--out"), line.npos) << line;
  };
  refused("temperature = 0.7, not 0.0", [](auto& x) { x.generate.sampling.temperature = 0.0; });
  refused("top_k", [](auto& x) { x.generate.sampling.top_k = 5; });
  refused("top_p", [](auto& x) { x.generate.sampling.top_p = 0.5; });
  refused("max_tokens = 16, not 25", [](auto& x) { x.generate.max_tokens = 25; });
  refused("seed = 3, not 4", [](auto& x) { x.generate.seed = 4; });
  refused("self_temperature", [](auto& x) { x.self_temperature = 0.5; });
  refused("prompts = 6, not 1", [](auto&) {}, {"hello"});
  std::vector<std::string> changed = kPrompts;
  std::swap(changed[0], changed[1]);
  refused(
      "prompts_hash", [](auto&) {}, changed);
  const Model other = Model::load(chatty().path(), Precision::kBF16);
  EXPECT_NE(complaint<UsageError>(other, kPrompts, out, o).find("precision"), std::string::npos);
  EXPECT_EQ(files_in(out), before);
}

// Of one name, one vocabulary and one size.
TEST_F(DistillFolder, KnowsItsModelByItsWeights) {
  const DistillOptions o = options(0.0);
  const auto model_in = [&](const char* name) { return folder.path() / name / "model"; };
  for (const char* name : {"a", "b", "c"}) testing::make_chat_model(model_in(name));
  const auto weights = model_in("b") / "model.safetensors";
  std::string bytes = read_file(weights);
  bytes.back() ^= 1;
  std::ofstream(weights, std::ios::binary) << bytes;
  std::filesystem::rename(model_in("c"), folder.path() / "renamed");
  distill(Model::load(model_in("a").string(), Precision::kF32), kPrompts, out.string(), o);
  const auto before = files_in(out);
  const std::string line =
      complaint<UsageError>(Model::load(model_in("b").string(), Precision::kF32), kPrompts, out, o);
  EXPECT_NE(line.find("target_hash = \"xxh3:"), line.npos) << line;
  EXPECT_EQ(
      complaint<UsageError>(Model::load((folder.path() / "renamed").string(), Precision::kF32),
                            kPrompts, out, o),
      "")
      << "the same weights";
  EXPECT_EQ(files_in(out), before);
}

TEST_F(DistillFolder, DamagedIsRefusedAndLeftAsItIs) {
  const DistillOptions o = options(0.7);
  distill(chatty(), kPrompts, out.string(), o);
  const std::string manifest = read_file(out / "distill.json");
  const auto refused = [&](const char* file, const std::string& content) {
    std::ofstream(out / file, std::ios::binary) << content;
    const auto before = files_in(out);
    const std::string line = complaint<FormatError>(chatty(), kPrompts, out, o);
    EXPECT_NE(line.find(file), line.npos) << line;
    EXPECT_EQ(files_in(out), before);
  };
  for (const char* bad : {"", "{", "[]", "null", "3", "\"text\"", "\xff"}) {
    refused("distill.json", bad);
  }
  std::ofstream(out / "distill.json", std::ios::binary) << manifest;
  const std::string shard = read_file(out / "tokens-00000.safetensors");
  refused("tokens-00000.safetensors", shard.substr(0, shard.size() - 1));
}

TEST_F(DistillFolder, OfSomethingElseIsRefusedAndLeftAsItIs) {
  std::filesystem::create_directories(out);
  std::ofstream(out / "model.safetensors") << "weights of a drafter";
  const auto before = files_in(out);
  const std::string line = complaint<UsageError>(chatty(), kPrompts, out, options(0.0));
  for (const char* word : {"model.safetensors", "--out"}) {
    EXPECT_NE(line.find(word), line.npos) << line;
  }
  EXPECT_EQ(files_in(out), before);
  std::filesystem::remove(out / "model.safetensors");
  std::ofstream(out / "distill.json.tmp-77-0") << "{";  // killed while it began
  EXPECT_EQ(distill(chatty(), kPrompts, out.string(), options(0.0)).added, kPrompts.size());
}

TEST_F(DistillFolder, ServesOneProcess) {
  const DistillOptions o = options(0.0);
  std::string line;
  DistillListener listener;
  listener.go_on = [&] {
    if (line.empty()) line = complaint<FormatError>(chatty(), kPrompts, out, o);
    return true;
  };
  EXPECT_EQ(distill(chatty(), kPrompts, out.string(), o, listener).added, kPrompts.size());
  EXPECT_NE(line.find("another process writes answers into it"), line.npos) << line;
  EXPECT_EQ(documents_in(out).size(), kPrompts.size());
}

TEST_F(DistillFolder, ThatCannotBeMadeIsNamed) {
  const auto file = folder.write("file", "text");
  for (const auto& bad : {file, file / "answers", std::filesystem::path("/proc/none/answers")}) {
    const std::string line = complaint<FormatError>(chatty(), kPrompts, bad, options(0.0));
    EXPECT_NE(line.find(bad.string()), line.npos) << line;
  }
  EXPECT_EQ(read_file(file), "text");
}

// What cannot work is said before there is a folder that would stand in the way of the next call.
TEST_F(DistillFolder, IsNotMadeForRequestsThatCannotBeMet) {
  const Model silent =
      Model::load(FORERUN_SOURCE_DIR "/tests/data/tiny/llama_plain", Precision::kF32);
  EXPECT_NE(complaint<UsageError>(silent, kPrompts, out, options(0.0)).find("chat template"),
            std::string::npos);
  DistillOptions o = options(-1.0);
  EXPECT_NE(complaint<UsageError>(chatty(), kPrompts, out, o), "");
  o = options(0.7);
  o.generate.sampling.top_p = 1.5;
  EXPECT_NE(complaint<UsageError>(chatty(), kPrompts, out, o), "");
  o = options(0.7);
  o.shard = 0;
  EXPECT_NE(complaint<UsageError>(chatty(), kPrompts, out, o), "");
  EXPECT_NE(complaint<UsageError>(chatty(), {}, out, options(0.7)).find("self-prompts"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(DistillFolder, SelfPromptsOfAVocabularyWithoutAMarkAreRefused) {
  const auto path = folder.path() / "model";
  testing::make_chat_model(path);
  std::filesystem::copy_file(FORERUN_SOURCE_DIR "/tests/data/tiny/llama_plain/tokenizer.json",
                             path / "tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing);
  DistillOptions o = options(0.7);
  o.self_prompts = 2;
  const Model model = Model::load(path.string(), Precision::kF32);
  const std::string line = complaint<UsageError>(model, {}, out, o);
  EXPECT_NE(line.find("self-prompts"), line.npos) << line;
  // Beside given prompts it is said before the first answer, and all of those are answered.
  std::size_t answered = 0, said_after = 99;
  DistillListener listener;
  listener.on_progress = [&](std::size_t, std::size_t, std::size_t tokens, double) {
    answered = tokens;
  };
  listener.on_note = [&](std::string_view note) {
    EXPECT_NE(note.find("self-prompts"), note.npos) << note;
    said_after = answered;
  };
  o.shard = 4;  // the last chunk holds given prompts and others
  EXPECT_EQ(distill(model, kPrompts, out.string(), o, listener).added, kPrompts.size());
  EXPECT_EQ(said_after, 0U);
}

}  // namespace
}  // namespace forerun
