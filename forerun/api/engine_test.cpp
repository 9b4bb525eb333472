// The engine through the public API: requests that join and leave beside others.
#include "forerun/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "forerun/api/access.h"
#include "forerun/common.h"
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
using testing::take;

// All rules that promise the text, every drafter, temperatures, limits and lengths.
std::vector<Job> jobs(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Job> out;
  const std::vector<Token> system = prompt(random, 70);
  for (std::size_t i = 0; i < count; ++i) {
    Job job;
    if (i % 3 == 0) job.prompt = system;  // some begin alike
    const auto own = prompt(random, 1 + random() % (i % 10 == 9 ? 130 : 50));
    job.prompt.insert(job.prompt.end(), own.begin(), own.end());
    job.drafter = i % drafters().size();
    GenerateOptions& o = job.options;
    constexpr Rule kRules[] = {Rule::kMaximal, Rule::kSharedNoise, Rule::kMatch};
    o.rule = kRules[random() % 3];
    o.sampling.temperature =
        random() % 3 == 0 ? 0.0 : 0.5 + 0.1 * static_cast<double>(random() % 8);
    if (random() % 3 == 0) o.sampling.top_k = 20;
    if (random() % 3 == 0) o.sampling.top_p = 0.9;
    o.max_tokens = 1 + random() % 80;
    o.max_draft = 1 + random() % 7;
    // The text of sampled drafts depends on how many are drawn.
    o.fixed_draft = drafters()[job.drafter].has_laws() || random() % 2 == 0;
    o.ignore_end = random() % 2 == 0;
    o.seed = 5;
    o.request = static_cast<std::uint32_t>(i);
    out.push_back(std::move(job));
  }
  return out;
}

std::vector<Generated> alone(const std::vector<Job>& jobs) {
  std::vector<Generated> out;
  for (const Job& job : jobs) {
    out.push_back(generate(engine_target(), drafters()[job.drafter], job.prompt, job.options));
  }
  return out;
}

// Joins and cancels at random rounds.
void run_at_random(const std::vector<Job>& all, const std::vector<Generated>& expected,
                   const EngineOptions& options, unsigned seed) {
  std::mt19937 random(seed);
  Engine engine(options);
  Ended ended;
  std::map<RequestId, std::size_t> running;
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::map<RequestId, std::size_t> job_of;
  std::size_t cancelled = 0;
  while (!order.empty() || engine.busy()) {
    while (!order.empty() && random() % 3 == 0) {
      job_of[submit(engine, all[order.back()])] = order.back();
      order.pop_back();
    }
    if (!job_of.empty() && random() % 20 == 0) {
      auto one = job_of.begin();
      std::advance(one, random() % job_of.size());
      engine.cancel(one->first);
    }
    take(engine.step(), ended);
  }
  ASSERT_EQ(ended.texts.size(), all.size());
  EXPECT_TRUE(ended.failures.empty());
  for (const auto& [id, text] : ended.texts) {
    const std::size_t job = job_of.at(id);
    const Generated& own = expected[job];
    const std::string name = drafters()[all[job].drafter].name() + ", job " + std::to_string(job);
    if (text.finish == Finish::kInterrupted) {
      ++cancelled;
      ASSERT_LE(text.tokens.size(), own.tokens.size());
      EXPECT_TRUE(std::equal(text.tokens.begin(), text.tokens.end(), own.tokens.begin())) << name;
      continue;
    }
    EXPECT_EQ(text.tokens, own.tokens) << name;
    EXPECT_EQ(text.text, own.text) << name;
    EXPECT_EQ(text.finish, own.finish) << name;
    EXPECT_EQ(ended.pieces[id], own.text) << name;
  }
  EXPECT_GT(cancelled, 0U);
  EXPECT_LT(cancelled, all.size() / 2);
  EXPECT_EQ(engine.memory(engine_target()).active, 0U);
  if (options.max_prefixes == 0) {
    EXPECT_EQ(engine.memory(engine_target()).used, 0U);
  }
}

class InCompany : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine().int8) GTEST_SKIP() << "float rounding depends on company";
  }
};

TEST_F(InCompany, FortyRequestsGetTheTextsTheyGetAlone) {
  const std::vector<Job> all = jobs(40, 1);
  const std::vector<Generated> expected = alone(all);
  for (const bool keep : {false, true}) {
    for (const unsigned seed : {1U, 2U}) {
      run_at_random(all, expected, {.max_prefixes = keep ? std::size_t{64} : 0}, seed);
    }
  }
  run_at_random(all, expected, {.max_active = 3, .max_prefixes = 0}, 3);
}

TEST_F(InCompany, AFullPoolLetsTheNewestWaitAndChangesNoText) {
  const std::vector<Job> all = jobs(12, 2);
  const std::vector<Generated> expected = alone(all);
  Engine wide({.max_prefixes = 0});
  std::size_t most = 0, one = 0;
  for (const Job& job : all) {
    Engine single({.max_prefixes = 0});
    submit(single, job);
    while (single.busy()) {
      single.step();
      one = std::max(one, single.memory(engine_target()).used);
    }
    submit(wide, job);
  }
  while (wide.busy()) {
    wide.step();
    most = std::max(most, wide.memory(engine_target()).used);
  }
  for (const bool keep : {false, true}) {
    const EngineOptions options{.kv_bytes = one + (most - one) / 4,
                                .max_prefixes = keep ? std::size_t{64} : 0};
    Engine engine(options);
    Ended ended;
    std::map<RequestId, std::size_t> job_of;
    for (std::size_t i = 0; i < all.size(); ++i) job_of[submit(engine, all[i])] = i;
    while (engine.busy()) {
      take(engine.step(), ended);
      EXPECT_LE(engine.memory(engine_target()).used, options.kv_bytes);
    }
    EXPECT_GT(ended.waits, 0U);
    EXPECT_TRUE(ended.failures.empty());
    ASSERT_EQ(ended.texts.size(), all.size());
    for (const auto& [id, text] : ended.texts) {
      EXPECT_EQ(text.tokens, expected[job_of[id]].tokens) << job_of[id];
    }
  }
}

TEST_F(InCompany, TheNextTurnReadsOnlyWhatIsNew) {
  std::mt19937 random(3);
  for (const Drafter& drafter : drafters()) {
    Job job{.prompt = prompt(random, 150), .options = {}, .drafter = 0};
    job.options.max_tokens = 40;
    job.options.ignore_end = true;
    job.options.sampling.temperature = 0.0;
    Engine engine;
    Ended ended;
    const RequestId first = engine.submit(engine_target(), drafter, job.prompt, job.options);
    finish(engine, ended);
    std::vector<Token> next = job.prompt;
    const auto& answer = ended.texts[first].tokens;
    next.insert(next.end(), answer.begin(), answer.end());
    const auto turn = prompt(random, 20);
    next.insert(next.end(), turn.begin(), turn.end());
    const RequestId second = engine.submit(engine_target(), drafter, next, job.options);
    finish(engine, ended);
    // The newest token of the first turn was never read.
    EXPECT_EQ(ended.texts[first].shared_tokens, 0U);
    EXPECT_EQ(ended.texts[second].shared_tokens, job.prompt.size() + answer.size() - 1)
        << drafter.name();
    EXPECT_EQ(ended.texts[second].tokens,
              generate(engine_target(), drafter, next, job.options).tokens);
  }
}

// Rounds of a text put together are the text, by tokens and by bytes.
TEST(Engine, ReportsEveryRoundIfTheTraceIsWanted) {
  std::mt19937 random(5);
  for (const Drafter& drafter : drafters()) {
    Job job{.prompt = prompt(random, 40), .options = {}, .drafter = 0};
    job.options.max_tokens = 40;
    job.options.ignore_end = true;
    for (const bool trace : {false, true}) {
      job.options.trace = trace;
      Engine engine;
      engine.submit(engine_target(), drafter, job.prompt, job.options);
      std::vector<Token> tokens;
      std::size_t reports = 0, bytes = 0, kept = 0;
      TextResult result;
      while (engine.busy()) {
        for (const Event& event : engine.step()) {
          if (const auto* round = std::get_if<RoundReport>(&event)) {
            ++reports;
            kept += round->trace.kept.size();
            ASSERT_EQ(round->bytes.size(), round->trace.outputs.size());
            for (const std::size_t n : round->bytes) bytes += n;
            tokens.insert(tokens.end(), round->trace.outputs.begin(), round->trace.outputs.end());
          }
          if (const auto* end = std::get_if<TextFinished>(&event)) result = end->result;
        }
      }
      if (!trace) {
        EXPECT_EQ(reports, 0U);
        continue;
      }
      EXPECT_EQ(tokens, result.tokens) << drafter.name();
      EXPECT_EQ(reports, result.statistics.rounds);
      EXPECT_LE(result.text.size() - bytes, 3U);  // of a character that the end cuts
      std::uint64_t accepted = 0;
      for (const std::uint64_t n : result.statistics.accepted) accepted += n;
      EXPECT_EQ(kept, accepted);
    }
  }
}

// A server that names a drafter in every request makes one for each.
TEST(Engine, ForgetsDraftersThatNobodyHasAnyMore) {
  Engine engine;
  testing::Ended ended;
  std::mt19937 random(5);
  GenerateOptions o;
  o.max_tokens = 12;
  std::vector<std::weak_ptr<Drafter::Learned>> learned;
  Drafter kept = Drafter::load("lookup", engine_target());
  learned.emplace_back(Access::shared_learned(kept));
  engine.submit(engine_target(), kept, prompt(random, 9), o);
  for (int i = 0; i < 3; ++i) {
    const Drafter one = Drafter::load("lookup", engine_target());
    learned.emplace_back(Access::shared_learned(one));
    engine.submit(engine_target(), one, prompt(random, 9), o);
  }
  for (const auto& l : learned) EXPECT_FALSE(l.expired());  // their texts run
  testing::finish(engine, ended);
  engine.submit(engine_target(), kept, prompt(random, 9), o);
  EXPECT_FALSE(learned[0].expired());
  for (std::size_t i = 1; i < learned.size(); ++i) EXPECT_TRUE(learned[i].expired()) << i;
  testing::finish(engine, ended);
  EXPECT_EQ(ended.texts.size(), 5U);
}

TEST(Score, EqualsTheLogProbabilitiesOfTheEngine) {
  std::mt19937 random(6);
  Job job{.prompt = prompt(random, 90), .options = {}, .drafter = 0};
  job.options.max_tokens = 30;
  job.options.ignore_end = true;
  Engine engine;
  engine.submit(engine_target(), drafters()[1], job.prompt, job.options, 3);
  std::vector<TokenOutput> outputs;
  std::vector<Token> text = job.prompt;
  while (engine.busy()) {
    for (const Event& event : engine.step()) {
      if (const auto* token = std::get_if<TokenOutput>(&event)) outputs.push_back(*token);
    }
  }
  for (const TokenOutput& t : outputs) text.push_back(t.token);
  const auto scores = score(engine_target(), text, 3);
  ASSERT_EQ(scores.size(), text.size() - 1);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TokenScore& s = scores[job.prompt.size() - 1 + i];
    EXPECT_EQ(s.token, outputs[i].token);
    EXPECT_NEAR(s.log_probability, outputs[i].log_probability, 1e-4);
    EXPECT_EQ(s.top.size(), 3U);
    EXPECT_EQ(s.top.front().first, outputs[i].top.front().first);
  }
  EXPECT_TRUE(score(engine_target(), std::vector<Token>{1}).empty());
  EXPECT_THROW(score(engine_target(), std::vector<Token>{1, -1}), UsageError);
  EXPECT_THROW(score(engine_target(), std::vector<Token>(engine_target().context() + 1, 1)),
               UsageError);
  EXPECT_LT(score(engine_target(), text, 0, [n = 0]() mutable { return ++n < 2; }).size(),
            text.size() - 1);
}

// In float32 rows round as their number in a pass has it, so both read a text by the same passes.
TEST(Score, InFloat32IsThatOfTheLogitsToTheLastBits) {
  const Model model = Model::load(testing::chat_model_path(), Precision::kF32);
  std::mt19937 random(8);
  for (const std::size_t n : {2U, 5U, 64U, 65U, 150U}) {
    const std::vector<Token> text = prompt(random, n);
    const auto scores = score(model, text);
    const Logits rows = logits(model, text);
    ASSERT_EQ(rows.rows, n);
    ASSERT_EQ(scores.size(), n - 1);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const float* row = rows.values.data() + i * rows.vocab;
      double sum = 0.0;
      for (std::size_t t = 0; t < rows.vocab; ++t) sum += std::exp(static_cast<double>(row[t]));
      EXPECT_NEAR(scores[i].log_probability,
                  static_cast<double>(row[scores[i].token]) - std::log(sum), 1e-12);
    }
  }
}

}  // namespace
}  // namespace forerun
