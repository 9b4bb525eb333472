// The drafter `sam` with a corpus: texts stay those of plain decoding, other folders are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "forerun/formats/token_shards.h"
#include "forerun/method.h"
#include "tests/support/chat_model.h"
#include "tests/support/mutate.h"
#include "tests/support/tiny_dflash.h"
#include "tests/support/tiny_prompts.h"

namespace forerun {
namespace {

using testing::options;
using testing::prompt;
using testing::read_file;
using testing::TempFolder;
using testing::tiny;

// Greedy answers of `model`, and of another seed's law at temperature 0.8.
std::filesystem::path corpus_of(const Model& model, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::vector<TokenDocument> documents;
  for (Token i = 0; i < 12; ++i) {
    const auto p = prompt(20, i % 4);
    GenerateOptions o = options(Rule::kSharedNoise, i < 6 ? 0.0 : 0.8);
    o.seed = 100 + static_cast<std::uint64_t>(i);
    std::vector<Token> text = p;
    const Generated answer = generate(model, Drafter(), p, o);
    text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
    documents.push_back({.id = i, .prompt = 20, .tokens = std::move(text)});
  }
  write_token_shard(folder / "answers-0.safetensors", documents);
  return folder;
}

class SamCorpus : public ::testing::Test {
 protected:
  static std::string corpus() {
    static const TempFolder folder;
    static const std::string path = corpus_of(tiny(), folder.path() / "my+answers").string();
    return path;
  }
  TempFolder folder;
};

TEST_F(SamCorpus, TextsAreThePlainOnes) {
  for (const double temperature : {0.0, 0.8}) {
    for (const Rule rule : {Rule::kMaximal, Rule::kBlock, Rule::kMatch, Rule::kSharedNoise}) {
      GenerateOptions o = options(rule, temperature);
      const Generated plain = generate(tiny(), Drafter(), prompt(20), o);
      for (const std::string& name : {"sam:" + corpus(), "sam:" + corpus() + "+lookup+recycling",
                                      "lookup+sam:" + corpus() + "+lookahead",
                                      "dflash:" + testing::tiny_dflash_path() + "+sam:" + corpus() +
                                          "+lookup+recycling+lookahead"}) {
        const Drafter drafter = Drafter::load(name, tiny());
        if (drafter.has_laws() && temperature > 0.0 && rule != Rule::kMatch &&
            rule != Rule::kSharedNoise) {
          continue;  // sampled drafts: other numbers, the same law
        }
        for (const bool fixed : {true, false}) {
          o.fixed_draft = fixed;
          const Generated drafted = generate(tiny(), drafter, prompt(20), o);
          EXPECT_EQ(drafted.tokens, plain.tokens) << name << name_of(rule) << temperature;
        }
      }
    }
  }
}

// What the target wrote before is drafted from the first token on.
TEST_F(SamCorpus, DraftsWhatTheTargetAnsweredBefore) {
  const GenerateOptions o = options(Rule::kSharedNoise, 0.0);
  const Generated own = generate(tiny(), Drafter::load("sam", tiny()), prompt(20), o);
  const Generated known = generate(tiny(), Drafter::load("sam:" + corpus(), tiny()), prompt(20), o);
  EXPECT_EQ(known.tokens, own.tokens);
  EXPECT_GT(known.statistics.tau(), 5.0);
  EXPECT_GT(known.statistics.tau(), own.statistics.tau());
  EXPECT_TRUE(certify(tiny(), Drafter::load("sam:" + corpus(), tiny()),
                      std::vector<std::vector<Token>>{prompt(20)}, 60, 60,
                      options(Rule::kMaximal, 0.9))
                  .passed());
}

TEST_F(SamCorpus, NamesAreSplitAtSourcesAlone) {
  const std::string sam = "sam:" + corpus();  // its folder's name holds a plus
  EXPECT_EQ(drafter_parts(sam), std::vector<std::string>{sam});
  EXPECT_EQ(drafter_parts("dflash:a+b+" + sam + "+lookup"),
            (std::vector<std::string>{"dflash:a+b", sam, "lookup"}));
  EXPECT_EQ(drafter_parts("lookup+sam"), (std::vector<std::string>{"lookup", "sam"}));
  EXPECT_EQ(drafter_parts("draft-model:x+lookup+y"),
            std::vector<std::string>{"draft-model:x+lookup+y"});
  EXPECT_EQ(drafter_parts("dflash:a+tidar:b"), std::vector<std::string>{"dflash:a+tidar:b"});
  EXPECT_EQ(drafter_parts("+lookup"), (std::vector<std::string>{"", "lookup"}));
  EXPECT_EQ(drafter_parts(""), std::vector<std::string>{""});
  for (const auto& wrong :
       std::vector<std::string>{"sam:", "sam+" + sam, sam + "+sam", sam + "+" + sam, "none+" + sam,
                                "lookup:" + corpus(), "+" + sam, "lookup+sam:"}) {
    EXPECT_THROW(Drafter::load(wrong, tiny()), UsageError) << wrong;
  }
}

// What loading says; one line.
template <class Failure>
std::string refusal(const std::filesystem::path& folder) {
  try {
    Drafter::load("lookup+sam:" + folder.string(), tiny());
  } catch (const Failure& e) {
    const std::string line = e.what();
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    EXPECT_NE(line.find(folder.string()), line.npos) << line;
    return line;
  }
  ADD_FAILURE() << "loaded";
  return "";
}

TEST_F(SamCorpus, WithoutAnswersIsRefused) {
  EXPECT_NE(refusal<UsageError>(folder.path() / "gone").find("no corpus"), std::string::npos);
  EXPECT_NE(refusal<UsageError>(folder.write("file", "x")).find("no corpus"), std::string::npos);
  EXPECT_NE(refusal<UsageError>(folder.path()).find("no answers"), std::string::npos);
  write_token_shard(folder.path() / "a.safetensors",
                    std::vector<TokenDocument>{{.id = 1, .prompt = 0, .tokens = {}},
                                               {.id = 2, .prompt = 0, .tokens = {7}},
                                               {.id = 3, .prompt = 3, .tokens = {1, 2, 3}}});
  EXPECT_NE(refusal<UsageError>(folder.path()).find("no answers"), std::string::npos);
}

TEST_F(SamCorpus, OfAnotherVocabularyIsRefused) {
  const auto with = [&](const nlohmann::json& settings) {
    std::ofstream(folder.path() / "distill.json") << settings.dump();
  };
  std::filesystem::copy(corpus(), folder.path(), std::filesystem::copy_options::recursive);
  const nlohmann::json own = {
      {"target", "tiny\n"}, {"vocab", tiny().vocab()}, {"target_hash", tiny().hash()}};
  EXPECT_NO_THROW(Drafter::load("sam:" + folder.path().string(), tiny()));  // it does not tell
  with(own);
  EXPECT_NO_THROW(Drafter::load("sam:" + folder.path().string(), tiny()));
  for (const auto& [name, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"vocab", 7}, {"target_hash", "xxh3:0"}, {"vocabulary_hash", "0"}}) {
    nlohmann::json other = own;
    other[name] = value;
    with(other);
    EXPECT_NE(refusal<UsageError>(folder.path()).find("tiny"), std::string::npos) << name;
  }
  std::filesystem::remove(folder.path() / "distill.json");
  write_token_shard(folder.path() / "b.safetensors",
                    std::vector<TokenDocument>{
                        {.id = 9, .prompt = 1, .tokens = {1, static_cast<Token>(tiny().vocab())}}});
  EXPECT_NE(refusal<UsageError>(folder.path()).find("vocabulary"), std::string::npos);
}

// Answers of a model that shares the vocabulary serve too.
TEST_F(SamCorpus, FromDistillServesModelsOfOneVocabulary) {
  const Model chat =
      Model::load(testing::make_chat_model(folder.path() / "model"), Precision::kF32);
  const auto answers = folder.path() / "answers";
  DistillOptions o;
  o.generate.max_tokens = 12;
  distill(chat, testing::questions(3), answers.string(), o);
  auto settings = nlohmann::json::parse(testing::read_file(answers / "distill.json"));
  EXPECT_NO_THROW(Drafter::load("sam:" + answers.string(), chat));
  settings["target_hash"] = "xxh3:0";
  std::ofstream(answers / "distill.json") << settings.dump();
  EXPECT_NO_THROW(Drafter::load("sam:" + answers.string(), chat));
  settings.erase("vocabulary_hash");
  std::ofstream(answers / "distill.json") << settings.dump();
  EXPECT_THROW(Drafter::load("sam:" + answers.string(), chat), UsageError);
}

TEST_F(SamCorpus, DamagedShardsAreRefused) {
  const std::string whole =
      testing::read_file(std::filesystem::path(corpus()) / "answers-0.safetensors");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    folder.write("answers-0.safetensors", whole.substr(0, size));
    refusal<FormatError>(folder.path());
  }
}

// A model in a folder of its own, with room for answers beside it.
class AnswersBesideModel : public SamCorpus {
 protected:
  AnswersBesideModel() {
    std::filesystem::copy(kTiny + "llama_plain", folder.path() / "tiny.gguf.d");
  }
  Model model() const {
    return Model::load((folder.path() / "tiny.gguf.d").string(), Precision::kF32);
  }
  std::filesystem::path beside() const { return folder.path() / "tiny.gguf.d.answers"; }
  void put_answers(const nlohmann::json& settings) const {
    std::filesystem::copy(corpus(), beside(), std::filesystem::copy_options::recursive);
    std::ofstream(beside() / "distill.json") << settings.dump();
  }
  static nlohmann::json settings() {
    return {{"target", "tiny"}, {"vocab", tiny().vocab()}, {"target_hash", tiny().hash()}};
  }
};

TEST_F(AnswersBesideModel, AutoDraftsFromThem) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(answers_folder(model()), beside().string());
  EXPECT_EQ(Drafter::load("auto", model()).parts(), (Names{"lookup", "recycling"}));
  std::filesystem::create_directories(beside());
  EXPECT_EQ(Drafter::load("auto", model()).parts(), (Names{"lookup", "recycling"}));
  put_answers(settings());
  const Model target = model();
  const std::string found = "sam:" + beside().string();
  const Drafter drafter = Drafter::load("auto", target);
  EXPECT_EQ(drafter.name(), "auto");
  EXPECT_EQ(drafter.parts(), (Names{"lookup", "recycling", found}));
  EXPECT_EQ(Drafter::load("lookahead+auto", target).parts(),
            (Names{"lookahead", "lookup", "recycling", found}));
  // What is named goes before what is found, and a source without a folder is part of it.
  EXPECT_EQ(Drafter::load("auto+sam:" + corpus(), target).parts(),
            (Names{"lookup", "recycling", "sam:" + corpus()}));
  EXPECT_EQ(Drafter::load("sam+auto", target).parts(), (Names{"lookup", "recycling", found}));
  EXPECT_EQ(Drafter::load("lookup", target).parts(), Names{"lookup"});
  EXPECT_TRUE(Drafter().parts().empty());

  const GenerateOptions o = options(Rule::kSharedNoise, 0.0);
  const Generated plain = generate(target, Drafter(), prompt(20), o);
  const Generated drafted = generate(target, drafter, prompt(20), o);
  EXPECT_EQ(drafted.tokens, plain.tokens);
  const Generated without =
      generate(target, Drafter::load("lookup+recycling", target), prompt(20), o);
  EXPECT_GT(drafted.statistics.tau(), without.statistics.tau());

  // A model that has drafted from answers sees that they change.
  std::filesystem::remove_all(beside());
  EXPECT_EQ(Drafter::load("auto", target).parts(), (Names{"lookup", "recycling"}));
  EXPECT_THROW(Drafter::load(found, target), UsageError);
  put_answers(settings());
  EXPECT_EQ(Drafter::load("auto", target).parts(), (Names{"lookup", "recycling", found}));
}

// The user has named none of them: drafts are made of the rest, and why is told.
TEST_F(AnswersBesideModel, ThatCannotBeUsedAreLeftOut) {
  const auto expect_left_out = [&](const std::string& why) {
    const Drafter drafter = Drafter::load("auto", model());
    EXPECT_EQ(drafter.parts(), (std::vector<std::string>{"lookup", "recycling"})) << why;
    EXPECT_NE(drafter.left_out().find(why), std::string::npos) << drafter.left_out();
    EXPECT_EQ(drafter.left_out().empty(), why.empty());
    EXPECT_ANY_THROW(Drafter::load("sam:" + beside().string(), model())) << why;
  };
  nlohmann::json other = settings();
  other["target_hash"] = "xxh3:0";
  put_answers(other);
  expect_left_out("vocabulary");
  EXPECT_TRUE(Drafter::load("lookup", model()).left_out().empty());
  std::ofstream(beside() / "distill.json") << "{";
  expect_left_out("distill.json");
  std::ofstream(beside() / "distill.json") << settings().dump();
  EXPECT_TRUE(Drafter::load("auto", model()).left_out().empty());
  std::ofstream(beside() / "answers-1.safetensors") << "damaged";
  expect_left_out("answers-1.safetensors");
  std::filesystem::remove_all(beside());
  std::filesystem::create_directories(beside());
  std::ofstream(beside() / "distill.json") << settings().dump();
  write_token_shard(beside() / "a.safetensors",
                    std::vector<TokenDocument>{{.id = 1, .prompt = 0, .tokens = {}}});
  expect_left_out("");  // distill has kept no answer
}

TEST_F(AnswersBesideModel, TheirFolderHasTheNameOfTheModel) {
  const std::string path = (folder.path() / "tiny.gguf.d").string();
  for (const std::string& name : {path, path + "/", path + "/."}) {
    EXPECT_EQ(answers_folder(Model::load(name, Precision::kF32)), beside().string()) << name;
  }
  std::filesystem::copy(kTiny + "llama_plain/model.gguf", folder.path() / "m.gguf");
  EXPECT_EQ(answers_folder(Model::load((folder.path() / "m.gguf").string(), Precision::kF32)),
            (folder.path() / "m.answers").string());
}

// Of many answers: sorted once, then read from the file beside them, unless it is another's.
TEST_F(SamCorpus, TheirOrderIsKept) {
  constexpr std::size_t kTokens = 75000;
  std::mt19937 random(3);
  std::vector<Token> tokens(kTokens);
  for (Token& t : tokens) t = static_cast<Token>(random() % 50);
  const TokenDocument document{.id = 1, .prompt = 0, .tokens = tokens};
  write_token_shard(folder.path() / "a.safetensors", std::vector{document, document});
  const std::filesystem::path file = folder.path() / "answers.order";
  const auto load = [&] { Drafter::load("sam:" + folder.path().string(), tiny()); };
  load();
  const std::string sorted = read_file(file);
  ASSERT_GT(sorted.size(), 2 * sizeof(Token) * (kTokens - 1));

  // Both documents end alike at the same place: their order is free, and taken as it is.
  const std::size_t values = sorted.size() - 2 * sizeof(Token) * (kTokens - 1);
  std::string swapped = sorted;
  const std::size_t pair = values + 2 * sizeof(Token) * (kTokens / 2);
  std::rotate(swapped.begin() + static_cast<std::ptrdiff_t>(pair),
              swapped.begin() + static_cast<std::ptrdiff_t>(pair + sizeof(Token)),
              swapped.begin() + static_cast<std::ptrdiff_t>(pair + 2 * sizeof(Token)));
  ASSERT_NE(swapped, sorted);
  folder.write("answers.order", swapped);
  load();
  EXPECT_EQ(read_file(file), swapped);

  // A damaged one is made anew.
  for (const std::size_t at : {std::size_t{9}, values / 2, values + 4000, sorted.size() - 1}) {
    std::string damaged = sorted;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    folder.write("answers.order", damaged);
    load();
    EXPECT_EQ(read_file(file), sorted) << at;
  }
  folder.write("answers.order", sorted.substr(0, sorted.size() / 2));
  load();
  EXPECT_EQ(read_file(file), sorted);

  // So is that of other answers; a file that cannot be made costs time alone.
  write_token_shard(folder.path() / "b.safetensors", std::vector{document});
  load();
  EXPECT_GT(read_file(file).size(), sorted.size());
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_NO_THROW(load());
}

}  // namespace
}  // namespace forerun
