// What training a drafter refuses: in one line, and nothing is left behind that was not there.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "forerun/formats/safetensors_write.h"
#include "forerun/formats/token_shards.h"
#include "forerun/train.h"
#include "tests/support/tiny_drafter.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using testing::answers;
using testing::expect_plain_greedy_text;
using testing::files_in;
using testing::other_target;
using testing::quick;
using testing::read_file;
using testing::small;
using testing::target;
using testing::TrainDFlash;

class TrainDFlashRefuses : public TrainDFlash {
 protected:
  // What it says, in one line; nothing is left behind that was not there.
  std::string complaint(const std::vector<std::string>& data, const DFlashTraining& o,
                        const TrainOptions& t, const Model& model = target()) {
    const auto before = files_in(t.out);
    std::string line;
    try {
      train_dflash(model, data, o, t);
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
  static std::vector<TokenDocument> documents_of(const std::string& data) {
    const TokenShards shards = TokenShards::load(data);
    std::vector<TokenDocument> out;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto tokens = shards.tokens(i);
      out.push_back({shards.id(i), shards.prompt(i), {tokens.begin(), tokens.end()}});
    }
    return out;
  }
  std::string data_of(const std::string& name, const std::vector<TokenDocument>& documents) {
    const fs::path path = folder.path() / name;
    fs::create_directories(path);
    if (!documents.empty()) write_token_shard(path / "a.safetensors", documents);
    return path.string();
  }
};

TEST_F(TrainDFlashRefuses, DataOfAnotherModelOrNone) {
  const auto says = [&](const std::string& data, std::initializer_list<std::string> words) {
    for (const bool from_target : {true, false}) {
      DFlashTraining o = small();
      o.from_target = from_target;
      expect_says(complaint({data}, o, quick(out)), words);
    }
  };
  says(data_of("large", {{.id = 8, .prompt = 1, .tokens = {1, 2, 3, 176}}}),
       {"usage: ", "document 8", "token 176", "another model"});
  says(data_of("negative", {{.id = 9, .prompt = 1, .tokens = {1, -2, 3, 4}}}),
       {"usage: ", "document 9", "token -2"});
  says(data_of("empty", {}), {"usage: ", "forerun distill"});
  says(data_of("prompts", {{.id = 0, .prompt = 3, .tokens = {1, 2, 3}}}),
       {"usage: ", "forerun distill"});
  says(data_of("dropped", {{.id = 0}}), {"usage: ", "forerun distill"});
  says((folder.path() / "missing").string(), {"missing", "cannot be read"});
  expect_says(complaint({}, small(), quick(out)), {"usage: ", "no data"});
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(TrainDFlashRefuses, SizesOutOfRange) {
  const auto says = [&](const char* word, const std::function<void(DFlashTraining&)>& change) {
    DFlashTraining o = small();
    change(o);
    expect_says(complaint({answers()}, o, quick(out)), {"usage: ", word});
  };
  says("feature layer 2: name some of 0 to 1", [](auto& o) { o.features = {0, 2}; });
  says("feature layer -1", [](auto& o) { o.features = {-1}; });
  says("name the layers", [](auto& o) { o.features.clear(); });
  says("begin at random", [](auto& o) { o.layers = 4; });
  says("weight-bits: 0", [](auto& o) { o.weight_bits = 8; });
  says("not multiples of 32", [](auto& o) { o.weight_bits = 4; });
  for (const std::int64_t bad : {-1, 0, 257}) {
    says("layers", [&](auto& o) { o.layers = bad; });
    says("block", [&](auto& o) { o.block = bad; });
  }
  says("block", [](auto& o) { o.block = 1; });
  says("markov", [](auto& o) { o.markov_rank = -1; });
  says("markov-head", [](auto& o) { o.markov_head = "rnn"; });
  says("law-loss", [](auto& o) { o.loss.law_loss = "l2"; });
  says("selector", [](auto& o) { o.selector_rank = -1; });
  says("selector", [](auto& o) { o.selector_rank = 1 << 17; });
  says("draft-vocab", [](auto& o) { o.draft_vocab = -1; });
  says("anchors", [](auto& o) { o.loss.anchors = 0; });
  says("length", [](auto& o) { o.loss.length = 1; });
  says("distill", [](auto& o) { o.loss.distill = 1.5; });
  says("held-out", [](auto& o) { o.loss.held_out = 1.0; });
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    says("gamma", [&](auto& o) { o.loss.gamma = bad; });
  }
  says("confidence", [](auto& o) { o.loss.confidence = -1.0; });
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(TrainDFlashRefuses, TrainingOptionsOutOfRange) {
  TrainOptions t = quick(out);
  t.learning_rate = 0.0;
  expect_says(complaint({answers()}, small(), t), {"usage: ", "learning rate"});
  t = quick(out);
  t.batch = 0;
  expect_says(complaint({answers()}, small(), t), {"usage: ", "batch"});
  t = quick("");
  expect_says(complaint({answers()}, small(), t), {"usage: ", "folder"});
}

TEST_F(TrainDFlashRefuses, ATargetWhoseBlocksCannotServe) {
  const Model gemma = Model::load(FORERUN_SOURCE_DIR "/tests/data/tiny/gemma3", Precision::kF32);
  const std::string data = data_of("few", {{.id = 1, .prompt = 1, .tokens = {1, 2, 3, 4}}});
  expect_says(complaint({data}, small(), quick(out), gemma), {"usage: ", "begin at random"});
}

TEST_F(TrainDFlashRefuses, FoldersAndFilesThatCannotBeWritten) {
  const auto file = folder.write("file", "precious");
  for (const fs::path& bad : {file, file / "drafter"}) {
    const std::string line = complaint({answers()}, small(), quick(bad));
    expect_says(line, {bad.string()});
    EXPECT_EQ(read_file(file), "precious");
  }
  DFlashTraining o = small();
  o.loss.state_store = file.string();
  expect_says(complaint({answers()}, o, quick(out)), {file.string(), "--state-store"});
  EXPECT_EQ(read_file(file), "precious");
  o.loss.state_store = (folder.path() / "missing" / "states").string();
  expect_says(complaint({answers()}, o, quick(out)), {"missing", "--state-store"});
}

TEST_F(TrainDFlashRefuses, ToOverwriteAModelOfOtherMaking) {
  const fs::path model = folder.path() / "model";
  testing::make_chat_model(model);
  expect_says(complaint({answers()}, small(), quick(model)), {"usage: ", "another model", "--out"});
  fs::remove(model / "config.json");
  expect_says(complaint({answers()}, small(), quick(model)), {"another model"});
  // What it wrote itself, it may begin again.
  train_dflash(target(), {answers()}, small(), quick(out));
  fs::remove(out / "checkpoint.safetensors");
  EXPECT_EQ(train_dflash(target(), {answers()}, small(), quick(out)).resumed_from, 0);
  // But not a drafter that came without its run, such as one that ships.
  fs::remove(out / "checkpoint.safetensors");
  fs::remove(out / "log.jsonl");
  expect_says(complaint({answers()}, small(), quick(out)), {"usage: ", out.string(), "--out"});
}

// It would learn with its own head, and be saved without it.
TEST_F(TrainDFlashRefuses, InitWithASeparateHead) {
  train_dflash(target(), {answers()}, small(), quick(out));
  const Safetensors file = load_safetensors(out / "model.safetensors"),
                    numbers = load_safetensors(target().path());
  const auto theirs = numbers.find("model.embed_tokens.weight")->bytes;  // and the head: tied
  std::vector<std::byte> own(theirs.begin(), theirs.end());
  own[3] ^= std::byte{1};
  const auto with = [&](const char* name, std::int64_t rows, std::span<const std::byte> bytes,
                        const char* to) {
    std::vector<TensorView> tensors = file.tensors();
    const auto size = static_cast<std::size_t>(rows) * bytes.size() / 176;
    tensors.push_back({name, DType::kF32, {rows, 48}, bytes.first(size)});
    fs::create_directories(folder.path() / to);
    fs::copy_file(out / "config.json", folder.path() / to / "config.json");
    write_safetensors(folder.path() / to / "model.safetensors", tensors);
    DFlashTraining o = small();
    o.init = (folder.path() / to).string();
    return o;
  };
  for (const DFlashTraining& o : {with("lm_head.weight", 60, own, "head"),
                                  with("embed_tokens.weight", 176, own, "embedding")}) {
    expect_says(complaint({answers()}, o, quick(folder.path() / "on")),
                {"usage: ", o.init, "of its own"});
  }
  // A copy of the target's is the target's.
  const DFlashTraining o = with("embed_tokens.weight", 176, theirs, "copy");
  const TrainOptions on = quick(folder.path() / "on");
  train_dflash(target(), {answers()}, o, on);
  EXPECT_EQ(load_safetensors(fs::path(on.out) / "model.safetensors").find("embed_tokens.weight"),
            nullptr);
  expect_plain_greedy_text(on.out);
}

TEST_F(TrainDFlashRefuses, ResumingWithOtherOptions) {
  TrainOptions stopped = quick(out);
  stopped.time_limit = 1e-9;
  train_dflash(target(), {answers()}, small(), stopped);
  DFlashTraining other = small();
  other.loss.gamma = 5.0;
  expect_says(complaint({answers()}, other, quick(out)), {"usage: ", "gamma=4", "gamma=5"});
  other = small();
  other.block = 5;
  expect_says(complaint({answers()}, other, quick(out)), {"usage: ", "block=4", "block=5"});
  expect_says(complaint({answers(), answers()}, small(), quick(out)), {"usage: ", "examples"});
  other = small();
  other.loss.state_store = (folder.path() / "states").string();
  expect_says(complaint({answers()}, other, quick(out)),
              {"usage: ", "state_store=off (now state_store=on)"});
}

// A store takes hours to fill.
TEST_F(TrainDFlashRefuses, ResumingKeepsTheStateStore) {
  DFlashTraining o = small();
  o.loss.state_store = (folder.path() / "states").string();
  TrainOptions stopped = quick(out);
  stopped.time_limit = 1e-9;
  train_dflash(target(), {answers()}, o, stopped);
  const std::string states = read_file(o.loss.state_store);
  const Model other = Model::load(target().path(), Precision::kBF16);
  ASSERT_NE(other.precision(), target().precision());
  expect_says(complaint({answers()}, o, quick(out), other), {"usage: ", "precision=bf16"});
  EXPECT_EQ(read_file(o.loss.state_store), states);
  std::vector<TokenDocument> documents = documents_of(answers());
  documents[2].tokens.back() ^= 1;
  expect_says(complaint({data_of("changed", documents)}, o, quick(out)), {"usage: ", "data="});
  EXPECT_EQ(read_file(o.loss.state_store), states);
}

// Of equal shape, so that nothing but the numbers tells them apart.
TEST_F(TrainDFlashRefuses, ResumingWithAnotherTargetOrOtherAnswers) {
  TrainOptions stopped = quick(out);
  stopped.time_limit = 1e-9;
  train_dflash(target(), {answers()}, small(), stopped);
  const Model bf16 = Model::load(target().path(), Precision::kBF16);
  expect_says(complaint({answers()}, small(), quick(out), bf16),
              {"usage: ", "objective precision=f32 (now precision=bf16)"});
  const Model other = other_target(folder.path() / "model");
  expect_says(complaint({answers()}, small(), quick(out), other),
              {"usage: ", answers(), "answers of another model", "--target"});
  const std::string nameless = data_of("nameless", documents_of(answers()));
  expect_says(complaint({nameless}, small(), quick(out), other),
              {"usage: ", "objective target=", "(now target="});
  std::vector<TokenDocument> documents = documents_of(answers());
  std::swap(documents[0].tokens.back(), documents[1].tokens.back());
  documents[2].tokens.back() ^= 1;
  expect_says(complaint({data_of("changed", documents)}, small(), quick(out)),
              {"usage: ", "data="});
}

}  // namespace
}  // namespace forerun
