// A folder of answers: what `generate` says, whoever runs beside it, however often it was stopped.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "forerun/formats/token_shards.h"
#include "forerun/text.h"
#include "forerun/train.h"
#include "tests/support/chat_model.h"

namespace forerun {
namespace {

using testing::read_file;
using testing::TempFolder;

const Model& chatty() {
  static const TempFolder folder;
  static const Model model = Model::load(testing::make_chat_model(folder.path() / "model"));
  return model;
}

using Documents = std::map<std::int64_t, std::pair<std::int64_t, std::vector<Token>>>;

Documents documents_in(const std::filesystem::path& folder) {
  const TokenShards shards = TokenShards::load(folder);
  Documents out;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto tokens = shards.tokens(i);
    const auto value =
        std::pair(shards.prompt(i), std::vector<Token>(tokens.begin(), tokens.end()));
    EXPECT_TRUE(out.emplace(shards.id(i), value).second) << "twice: " << shards.id(i);
  }
  return out;
}

// Every file of a folder and what is in it.
std::map<std::string, std::string> files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    out[entry.path().filename().string()] = read_file(entry.path());
  }
  return out;
}

const std::vector<std::string> kPrompts = {"hello", "what is a sequence?", "a b a b", "hell",
                                           "why?",  "one two three"};

DistillOptions options(double temperature) {
  DistillOptions o;
  o.generate.sampling.temperature = temperature;
  o.generate.max_tokens = 16;
  o.generate.seed = 3;
  o.generate.batch_size = 4;
  return o;
}

// What `distill` says; "" if it works.
template <class Failure>
std::string complaint(const Model& model, const std::vector<std::string>& prompts,
                      const std::filesystem::path& folder, const DistillOptions& o) {
  try {
    distill(model, prompts, folder.string(), o);
  } catch (const Failure& e) {
    const std::string line = e.what();
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    return line;
  }
  return "";
}

class Distill : public ::testing::TestWithParam<double> {
 protected:
  TempFolder folder;
  std::filesystem::path out = folder.path() / "answers";
};

TEST_P(Distill, AnswersEqualGenerate) {
  DistillOptions o = options(GetParam());
  o.generate.max_tokens = 5;
  const Distilled d = distill(chatty(), kPrompts, out.string(), o);
  EXPECT_EQ(d.documents, kPrompts.size());
  EXPECT_EQ(d.added, kPrompts.size());
  EXPECT_EQ(d.dropped, 0U);
  const Documents documents = documents_in(out);
  ASSERT_EQ(documents.size(), kPrompts.size());
  std::size_t tokens = 0, ended = 0;
  for (std::size_t i = 0; i < kPrompts.size(); ++i) {
    const Message turn{"user", kPrompts[i]};
    std::vector<Token> whole = chatty().encode_chat({&turn, 1});
    GenerateOptions one = o.generate;
    one.request = static_cast<std::uint32_t>(i);
    const Generated answer = generate(chatty(), Drafter(), whole, one);
    const auto& [prompt, text] = documents.at(static_cast<std::int64_t>(i));
    EXPECT_EQ(prompt, static_cast<std::int64_t>(whole.size()));
    whole.insert(whole.end(), answer.tokens.begin(), answer.tokens.end());
    EXPECT_EQ(text, whole) << i;
    tokens += answer.tokens.size();
    ended += answer.finish == Finish::kEndToken;
  }
  EXPECT_EQ(d.answer_tokens, tokens);
  EXPECT_EQ(d.added_tokens, tokens);
  if (GetParam() > 0.0) {  // both ends occur, so neither is assumed
    EXPECT_GT(ended, 0U);
    EXPECT_LT(ended, kPrompts.size());
  }
}

TEST_P(Distill, ManySequencesAnswerAsOneDoes) {
  DistillOptions o = options(GetParam());
  o.self_prompts = 8;
  distill(chatty(), kPrompts, out.string(), o);
  for (const std::uint32_t sequences : {1U, 3U, 100U}) {
    o.generate.batch_size = sequences;
    o.shard = sequences == 3 ? 5 : 512;
    const auto other = folder.path() / std::to_string(sequences);
    distill(chatty(), kPrompts, other.string(), o);
    EXPECT_EQ(documents_in(other), documents_in(out)) << sequences;
  }
}

TEST_P(Distill, InterruptedAndResumedGivesTheSameDocuments) {
  DistillOptions o = options(GetParam());
  o.self_prompts = 6;
  o.shard = 4;
  distill(chatty(), kPrompts, out.string(), o);
  const auto stopped = folder.path() / "stopped";
  int calls = 0;
  for (bool interrupted = true; interrupted; ++calls) {
    ASSERT_LT(calls, 100);
    DistillListener listener;
    int rounds = 0;
    const int most = 9 + calls * 4;  // enough to get somewhere, never the same place
    listener.go_on = [&] { return rounds++ < most; };
    interrupted = distill(chatty(), kPrompts, stopped.string(), o, listener).interrupted;
  }
  EXPECT_GT(calls, 3);
  EXPECT_EQ(documents_in(stopped), documents_in(out));
}

INSTANTIATE_TEST_SUITE_P(AtTemperature, Distill, ::testing::Values(0.0, 0.7), [](const auto& test) {
  return std::string(test.param > 0.0 ? "Sampled" : "Greedy");
});

class DistillFolder : public ::testing::Test {
 protected:
  TempFolder folder;
  std::filesystem::path out = folder.path() / "answers";
};

TEST_F(DistillFolder, ThatIsCompleteIsLeftAsItIs) {
  DistillOptions o = options(0.7);
  o.self_prompts = 12;
  const Distilled first = distill(chatty(), kPrompts, out.string(), o);
  EXPECT_GT(first.dropped, 0U);                 // some self-prompts do not end in time
  EXPECT_GT(first.documents, kPrompts.size());  // and some do
  EXPECT_EQ(first.documents + first.dropped, 18U);
  const auto before = files_in(out);
  DistillListener listener;
  int asked = 0;
  listener.go_on = [&] { return ++asked > 0; };
  const Distilled again = distill(chatty(), kPrompts, out.string(), o, listener);
  EXPECT_EQ(asked, 0) << "the model was run again";
  EXPECT_EQ(again.added, 0U);
  EXPECT_EQ(again.documents, first.documents);
  EXPECT_EQ(again.dropped, first.dropped);
  EXPECT_EQ(again.answer_tokens, first.answer_tokens);
  EXPECT_EQ(again.looping, first.looping);
  EXPECT_EQ(files_in(out), before);
}

TEST_F(DistillFolder, TakesFurtherSelfPrompts) {
  DistillOptions o = options(0.7);
  o.self_prompts = 10;
  distill(chatty(), {}, out.string(), o);
  const auto grown = folder.path() / "grown";
  for (const std::size_t n : {3U, 7U, 10U}) {
    o.self_prompts = n;
    distill(chatty(), {}, grown.string(), o);
  }
  EXPECT_EQ(documents_in(grown), documents_in(out));
}

TEST_F(DistillFolder, SelfPromptsAreTurnsOfTheChatFormat) {
  DistillOptions o = options(0.7);
  o.self_prompts = 12;
  distill(chatty(), {}, out.string(), o);
  std::vector<std::string> prompts;
  for (const auto& [id, document] : documents_in(out)) {
    const auto& [prompt, tokens] = document;
    if (tokens.empty()) continue;
    const std::string text = chatty().decode(std::span(tokens).first(std::size_t(prompt)));
    EXPECT_EQ(text.find("<|im_start|>user\n"), 0U) << text;
    const std::string end = "<|im_end|>\n<|im_start|>assistant\n";
    ASSERT_GT(text.size(), end.size());
    EXPECT_EQ(text.substr(text.size() - end.size()), end);
    prompts.push_back(text);
  }
  // They differ, but for the shortest.
  const std::set<std::string> distinct(prompts.begin(), prompts.end());
  EXPECT_GT(distinct.size(), 3U) << ::testing::PrintToString(prompts);
}

TEST_F(DistillFolder, KeepsPromptsWithoutRoomAsDropped) {
  std::vector<std::string> prompts = kPrompts;
  prompts[1] = std::string(300, 'x');  // beyond the context of 256
  prompts[4] = "";
  const Distilled d = distill(chatty(), prompts, out.string(), options(0.7));
  EXPECT_EQ(d.dropped, 2U);
  EXPECT_EQ(d.documents, 4U);
  const Documents documents = documents_in(out);
  EXPECT_TRUE(documents.at(1).second.empty());
  EXPECT_TRUE(documents.at(4).second.empty());
  const auto all = folder.path() / "nothing else";
  EXPECT_EQ(distill(chatty(), {{prompts[1], prompts[1]}}, all.string(), options(0.0)).dropped, 2U);
}

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
  distill(Model::load(model_in("a").string()), kPrompts, out.string(), o);
  const auto before = files_in(out);
  const std::string line =
      complaint<UsageError>(Model::load(model_in("b").string()), kPrompts, out, o);
  EXPECT_NE(line.find("target_hash = \"xxh3:"), line.npos) << line;
  EXPECT_EQ(
      complaint<UsageError>(Model::load((folder.path() / "renamed").string()), kPrompts, out, o),
      "")
      << "the same weights";
  EXPECT_EQ(files_in(out), before);
}

TEST_F(DistillFolder, OfAnEarlierVersionIsGoneOnWithAndThatIsSaid) {
  const DistillOptions o = options(0.0);
  distill(chatty(), kPrompts, out.string(), o);
  auto manifest = nlohmann::json::parse(read_file(out / "distill.json"));
  manifest["format"] = "forerun distill 1";
  manifest["prompts_digest"] = "1aa48c4cbee4ee2b";
  for (const char* added : {"target_hash", "prompts_hash"}) EXPECT_EQ(manifest.erase(added), 1U);
  std::ofstream(out / "distill.json", std::ios::binary) << manifest.dump();
  std::vector<std::string> notes;
  DistillListener listener;
  listener.on_note = [&](std::string_view line) { notes.emplace_back(line); };
  EXPECT_EQ(distill(chatty(), kPrompts, out.string(), o, listener).added, 0U);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("earlier version"), std::string::npos) << notes[0];
  EXPECT_NE(complaint<UsageError>(chatty(), kPrompts, out, options(0.7)).find("temperature"),
            std::string::npos);
}

// A shard that was taken away is made again, and no other one is written over.
TEST_F(DistillFolder, MakesALostShardAgain) {
  DistillOptions o = options(0.7);
  o.shard = 2;
  distill(chatty(), kPrompts, out.string(), o);
  const Documents before = documents_in(out);
  std::filesystem::remove(out / "tokens-00001.safetensors");
  EXPECT_EQ(documents_in(out).size(), 4U);
  EXPECT_EQ(distill(chatty(), kPrompts, out.string(), o).added, 2U);
  EXPECT_EQ(documents_in(out), before);
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
  const Model silent = Model::load(FORERUN_SOURCE_DIR "/tests/data/tiny/llama_plain");
  EXPECT_NE(complaint<UsageError>(silent, kPrompts, out, options(0.0)).find("chat template"),
            std::string::npos);
  DistillOptions o = options(-1.0);
  EXPECT_NE(complaint<UsageError>(chatty(), kPrompts, out, o), "");
  o = options(0.7);
  o.generate.sampling.top_p = 0.0;
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
  const Model model = Model::load(path.string());
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

TEST(EndsInLoop, SeesThreeCopiesOfThirtyTokensOrMore) {
  const auto tokens = [](std::size_t head, std::size_t period, std::size_t n) {
    std::vector<Token> out;
    for (std::size_t i = 0; i < head; ++i) out.push_back(static_cast<Token>(1000 + i));
    for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<Token>(i % period));
    return out;
  };
  EXPECT_FALSE(ends_in_loop({}));
  EXPECT_FALSE(ends_in_loop(tokens(50, 1, 29)));
  EXPECT_TRUE(ends_in_loop(tokens(50, 1, 30)));
  EXPECT_TRUE(ends_in_loop(tokens(0, 7, 30)));
  EXPECT_FALSE(ends_in_loop(tokens(9, 20, 59)));
  EXPECT_TRUE(ends_in_loop(tokens(9, 20, 60)));
  EXPECT_FALSE(ends_in_loop(tokens(100, 1000, 1000)));
  std::vector<Token> over = tokens(5, 4, 40);
  over.push_back(77);  // it went on
  EXPECT_FALSE(ends_in_loop(over));
}

}  // namespace
}  // namespace forerun
