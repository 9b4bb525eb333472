// Requests to the engine that fail, that are empty, or that share what texts before them have read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "forerun/method.h"
#include "forerun/text.h"
#include "tests/support/engine_texts.h"

namespace forerun {
namespace {

using testing::drafters;
using testing::Ended;
using testing::engine_target;
using testing::finish;
using testing::Job;
using testing::prompt;
using testing::submit;

TEST(Engine, AFailingRequestLeavesTheOthersAlone) {
  std::mt19937 random(4);
  Engine engine;
  Job job{.prompt = prompt(random, 30), .options = {}, .drafter = 0};
  job.options.max_tokens = 30;
  job.options.ignore_end = true;
  const RequestId good = submit(engine, job);
  Job bad = job;
  bad.prompt.clear();
  EXPECT_THROW(submit(engine, bad), UsageError);
  bad.prompt = std::vector<Token>(engine_target().context(), 10);
  EXPECT_THROW(submit(engine, bad), UsageError);
  bad.prompt = {static_cast<Token>(engine_target().vocab())};
  EXPECT_THROW(submit(engine, bad), UsageError);
  bad = job;
  bad.options.sampling.temperature = -1.0;
  EXPECT_THROW(submit(engine, bad), UsageError);
  Ended ended;
  finish(engine, ended);
  EXPECT_EQ(ended.texts.size(), 1U);
  EXPECT_EQ(ended.texts[good].tokens.size(), 30U);
}

TEST(Engine, ATextThatCanNeverFitFailsAndSaysWhy) {
  std::mt19937 random(4);
  Engine engine({.kv_bytes = 4096});
  Job job{.prompt = prompt(random, 200), .options = {}, .drafter = 0};
  const RequestId id = submit(engine, job);
  Ended ended;
  finish(engine, ended);
  EXPECT_NE(ended.failures[id].find("limit"), std::string::npos) << ended.failures[id];
  EXPECT_TRUE(ended.failed_by_request.contains(id));
  EXPECT_FALSE(engine.busy());
}

// Proposes tokens that the model lacks, or throws, for texts of an odd length.
class Broken final : public DraftSource {
 public:
  explicit Broken(bool throws) : throws_(throws) {}
  std::vector<std::vector<Token>> propose(std::span<const DraftRequest> texts) override {
    if (throws_) throw std::runtime_error("no drafts today");
    std::vector<std::vector<Token>> out;
    for (const DraftRequest& t : texts) {
      out.emplace_back(2, t.text.size() % 2 == 1 ? 1 << 20 : t.text.back());
    }
    return out;
  }

 private:
  bool throws_;
};

TEST(Engine, ABrokenDrafterFailsItsOwnRequestsOnly) {
  register_drafter({.name = "broken", .argument = "HOW", .help = ""},
                   [](const Model&, const std::string& how) {
                     return std::make_unique<Broken>(how == "throws");
                   });
  for (const std::string how : {"tokens", "throws"}) {
    std::mt19937 random(7);
    Engine engine;
    GenerateOptions o;
    o.max_tokens = 20;
    o.ignore_end = true;
    o.fixed_draft = true;
    const auto p = prompt(random, 31);
    const RequestId plain = engine.submit(engine_target(), Drafter(), p, o);
    const Drafter broken = Drafter::load("broken:" + how, engine_target());
    const RequestId bad = engine.submit(engine_target(), broken, p, o);
    const RequestId other = engine.submit(engine_target(), drafters()[1], p, o);
    Ended ended;
    finish(engine, ended);
    ASSERT_EQ(ended.failures.size(), 1U);
    EXPECT_TRUE(ended.failed_by_request.empty());
    EXPECT_NE(ended.failures[bad].find(how == "throws" ? "no drafts today" : "vocabulary"),
              std::string::npos)
        << ended.failures[bad];
    EXPECT_EQ(ended.texts[plain].tokens, ended.texts[other].tokens);
    EXPECT_EQ(ended.texts[plain].tokens.size(), 20U);
  }
}

// Float caches are copied when they are shared: a full pool must make room for the copy.
TEST(Engine, FloatTextsShareBeginningsInAFullPool) {
  static const Model model = Model::load(testing::chat_model_path(), Precision::kF32);
  std::mt19937 random(8);
  const auto system = prompt(random, 60);
  GenerateOptions o;
  o.max_tokens = 20;
  o.ignore_end = true;
  std::size_t one = 0;
  {
    Engine engine({.max_prefixes = 0});
    engine.submit(model, Drafter(), system, o);
    while (engine.busy()) {
      engine.step();
      one = std::max(one, engine.memory(model).used);
    }
  }
  Engine engine({.kv_bytes = 2 * one});
  std::size_t shared = 0;
  for (std::uint32_t i = 0; i < 8; ++i) {
    auto p = system;
    p.push_back(static_cast<Token>(10 + i));
    o.request = i;
    const RequestId id = engine.submit(model, Drafter(), p, o);
    Ended ended;
    finish(engine, ended);
    ASSERT_TRUE(ended.failures.empty()) << ended.failures.begin()->second;
    EXPECT_EQ(ended.texts[id].tokens.size(), 20U);
    shared += ended.texts[id].shared_tokens;
  }
  EXPECT_GE(shared, system.size());
}

TEST(Engine, OldTurnsOfAConversationAreNotKept) {
  std::mt19937 random(9);
  Engine engine;
  GenerateOptions o;
  o.max_tokens = 4;
  o.ignore_end = true;
  auto text = prompt(random, 20);
  for (std::uint32_t turn = 0; turn < 5; ++turn) {
    o.request = turn;
    const RequestId id = engine.submit(engine_target(), drafters()[1], text, o);
    Ended ended;
    finish(engine, ended);
    const auto& answer = ended.texts[id].tokens;
    text.insert(text.end(), answer.begin(), answer.end());
    text.push_back(11);
    EXPECT_EQ(engine.memory(engine_target()).prefixes, 1U);
  }
}

TEST(Engine, NoTokensAreAnEmptyText) {
  Engine engine;
  GenerateOptions o;
  o.max_tokens = 0;
  std::mt19937 random(10);
  const RequestId id = engine.submit(engine_target(), Drafter(), prompt(random, 5), o);
  Ended ended;
  finish(engine, ended);
  EXPECT_TRUE(ended.texts.at(id).tokens.empty());
  EXPECT_EQ(ended.texts.at(id).finish, Finish::kLength);
}

TEST(Engine, LogProbabilitiesAreThoseOfPlainPasses) {
  std::mt19937 random(5);
  Job job{.prompt = prompt(random, 30), .options = {}, .drafter = 1};
  job.options.max_tokens = 12;
  job.options.ignore_end = true;
  job.options.sampling = {.temperature = 0.8, .top_k = 5};
  Engine engine;
  engine.submit(engine_target(), drafters()[1], job.prompt, job.options, 3);
  std::vector<TokenOutput> outputs;
  TextResult result;
  while (engine.busy()) {
    for (const Event& event : engine.step()) {
      if (const auto* token = std::get_if<TokenOutput>(&event)) outputs.push_back(*token);
      if (const auto* done = std::get_if<TextFinished>(&event)) result = done->result;
    }
  }
  ASSERT_EQ(outputs.size(), 12U);
  std::vector<Token> text = job.prompt;
  text.insert(text.end(), result.tokens.begin(), result.tokens.end());
  const Logits scores = logits(engine_target(), text);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].token, result.tokens[i]);
    const float* row = scores.values.data() + (job.prompt.size() + i - 1) * scores.vocab;
    double sum = 0.0;
    for (std::size_t t = 0; t < scores.vocab; ++t) sum += std::exp(static_cast<double>(row[t]));
    EXPECT_NEAR(outputs[i].log_probability,
                static_cast<double>(row[outputs[i].token]) - std::log(sum), 1e-4);
    ASSERT_EQ(outputs[i].top.size(), 3U);
    EXPECT_EQ(outputs[i].top[0].first,
              static_cast<Token>(std::max_element(row, row + scores.vocab) - row));
    EXPECT_GE(outputs[i].top[0].second, outputs[i].top[1].second);
  }
}

}  // namespace
}  // namespace forerun
