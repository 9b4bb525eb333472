// A folder of answers: what `generate` says, whoever runs beside it, however often it was stopped.
#include "tests/support/distill.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace forerun {
namespace {

using testing::chatty;
using testing::complaint;
using testing::DistillFolder;
using testing::Documents;
using testing::documents_in;
using testing::files_in;
using testing::kPrompts;
using testing::options;
using testing::read_file;
using testing::TempFolder;

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
