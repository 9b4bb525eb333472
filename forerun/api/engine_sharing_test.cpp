// Requests that begin alike and come at the same time: what is read once, and that no text changes.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "forerun/engine.h"
#include "forerun/text.h"
#include "tests/support/engine_texts.h"

namespace forerun {
namespace {

using testing::drafters;
using testing::Ended;
using testing::engine_target;
using testing::finish;
using testing::prompt;
using testing::take;

class SharedBeginnings : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine().int8) GTEST_SKIP() << "float rounding depends on company";
  }
};

GenerateOptions request_options(std::uint32_t request) {
  GenerateOptions o;
  o.sampling.temperature = 0.8;
  o.max_tokens = 12;
  o.ignore_end = true;
  o.request = request;
  return o;
}

// A beginning of 200 tokens, or a part of it, then each request's own.
std::vector<std::vector<Token>> alike(std::initializer_list<std::size_t> lengths) {
  std::mt19937 random(11);
  const auto system = prompt(random, 200);
  std::vector<std::vector<Token>> out;
  for (const std::size_t n : lengths) {
    auto& own = out.emplace_back(system.begin(), system.begin() + static_cast<std::ptrdiff_t>(n));
    // Different from each other at once.
    own.push_back(static_cast<Token>(30 + out.size()));
    const auto rest = prompt(random, 5);
    own.insert(own.end(), rest.begin(), rest.end());
  }
  return out;
}

// Submits them together; with `beside`, next to a text that runs, so that prompts are read in
// pieces.
std::vector<std::size_t> together(const Drafter& drafter,
                                  const std::vector<std::vector<Token>>& prompts, bool beside,
                                  std::size_t prefixes) {
  Engine engine({.max_prefixes = prefixes});
  RequestId other = 0;
  if (beside) {
    GenerateOptions o = request_options(99);
    o.max_tokens = 1000;
    other = engine.submit(engine_target(), Drafter(), std::vector<Token>{15, 11, 19}, o);
    for (int i = 0; i < 3; ++i) engine.step();
  }
  std::vector<RequestId> ids;
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    ids.push_back(engine.submit(engine_target(), drafter, prompts[i], request_options(i)));
  }
  Ended ended;
  while (ended.texts.size() < prompts.size() && engine.busy()) take(engine.step(), ended);
  if (beside) engine.cancel(other);
  finish(engine, ended);
  std::vector<std::size_t> out;
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    out.push_back(ended.texts.at(ids[i]).shared_tokens);
    EXPECT_EQ(ended.texts.at(ids[i]).tokens,
              generate(engine_target(), drafter, prompts[i], request_options(i)).tokens)
        << drafter.name() << " " << i;
  }
  return out;
}

TEST_F(SharedBeginnings, AreReadOnceByRequestsThatComeTogether) {
  const auto prompts = alike({200, 200, 200, 200, 200});
  for (const Drafter& drafter : drafters()) {
    for (const bool beside : {false, true}) {
      const auto shared = together(drafter, prompts, beside, 64);
      EXPECT_EQ(shared[0], 0U);
      std::size_t rows = 0;
      for (std::size_t i = 0; i < prompts.size(); ++i) rows += prompts[i].size() - shared[i];
      // Beside the beginning its own rows of each, and what is not a whole page of 64 positions.
      EXPECT_LE(rows, 200 + 5 * 6 + 4 * 8) << drafter.name();
    }
  }
}

TEST_F(SharedBeginnings, AreReadByEachIfNothingIsKept) {
  for (const std::size_t n : together(Drafter(), alike({200, 200, 200}), true, 0)) EXPECT_EQ(n, 0U);
}

// The third begins like the second, which itself waits for the first.
TEST_F(SharedBeginnings, AreTakenFromTheTextThatHasMost) {
  const auto shared = together(drafters()[3], alike({70, 150, 200, 20}), true, 64);
  EXPECT_EQ(shared[0], 0U);
  EXPECT_GE(shared[1], 64U);
  EXPECT_LE(shared[1], 70U);
  EXPECT_GE(shared[2], 128U);
  EXPECT_LE(shared[2], 150U);
  EXPECT_LE(shared[3], 20U);
}

// The text that reads for the others is cancelled on its way, or at once.
TEST_F(SharedBeginnings, OfACancelledTextServeTheOthersAsFarAsTheyWereRead) {
  const auto prompts = alike({200, 200, 200});
  for (const Drafter& drafter : drafters()) {
    for (const int rounds : {0, 1, 4}) {
      Engine engine;
      const RequestId other = engine.submit(engine_target(), Drafter(),
                                            std::vector<Token>{15, 11, 19}, request_options(99));
      for (int i = 0; i < 3; ++i) engine.step();
      std::map<RequestId, std::uint32_t> ids;
      std::vector<RequestId> order;
      for (std::uint32_t i = 0; i < prompts.size(); ++i) {
        order.push_back(engine.submit(engine_target(), drafter, prompts[i], request_options(i)));
        ids[order.back()] = i;
      }
      Ended ended;
      for (int i = 0; i < rounds; ++i) take(engine.step(), ended);
      engine.cancel(order[0]);
      finish(engine, ended);
      EXPECT_TRUE(ended.failures.empty());
      EXPECT_TRUE(ended.texts.contains(other));
      for (const std::size_t i : {1, 2}) {
        EXPECT_EQ(
            ended.texts.at(order[i]).tokens,
            generate(engine_target(), drafter, prompts[i], request_options(ids[order[i]])).tokens)
            << drafter.name() << " " << i;
      }
      EXPECT_GE(ended.texts.at(order[2]).shared_tokens, 192U);
    }
  }
}

// A pool in which not all of them fit: some wait for memory, some for pages of others.
TEST_F(SharedBeginnings, InAFullPoolNobodyWaitsForever) {
  const auto prompts = alike({200, 200, 130, 200, 70, 200});
  std::size_t one = 0;
  {
    Engine engine({.max_prefixes = 0});
    engine.submit(engine_target(), Drafter(), prompts[0], request_options(0));
    while (engine.busy()) {
      engine.step();
      one = std::max(one, engine.memory(engine_target()).used);
    }
  }
  Engine engine({.kv_bytes = 2 * one});
  std::vector<RequestId> ids;
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    ids.push_back(engine.submit(engine_target(), drafters()[i], prompts[i], request_options(i)));
  }
  Ended ended;
  while (engine.busy()) {
    take(engine.step(), ended);
    EXPECT_LE(engine.memory(engine_target()).used, 2 * one);
  }
  EXPECT_TRUE(ended.failures.empty());
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(ended.texts.at(ids[i]).tokens,
              generate(engine_target(), drafters()[i], prompts[i], request_options(i)).tokens)
        << i;
  }
}

}  // namespace
}  // namespace forerun
