// A fixed draft length promises a text of sampled drafts too: it depends on neither what rounds
// take nor what other texts taught the drafter.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "forerun/api/make_drafter.h"
#include "tests/support/engine_texts.h"
#include "tests/support/tiny_tidar.h"

namespace forerun {
namespace {

using testing::engine_target;

// Tells a drafter other times than those measured.
class Clocked final : public TextDrafter {
 public:
  /// @param drafting  seconds, where a pass takes one
  Clocked(std::shared_ptr<TextDrafter> drafter, double drafting)
      : drafter_(std::move(drafter)), drafting_(drafting) {}

  std::span<const std::int64_t> features() const override { return drafter_->features(); }
  std::int64_t state_width() const override { return drafter_->state_width(); }
  std::int64_t unreached_logits() const override { return drafter_->unreached_logits(); }
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::size_t other_rows) override {
    return drafter_->propose(sequences, other_rows);
  }
  std::span<const CompanionRows> companions() const override { return drafter_->companions(); }
  void read(const TokenSequence& sequence, const HiddenStates& states) override {
    drafter_->read(sequence, states);
  }
  void observe(const TextRound& round) override { drafter_->observe(round); }
  void learn(const TextRound& round, const Timings&, std::size_t other_rows) override {
    drafter_->learn(round, {.drafter = drafting_, .target = 1.0, .rest = 0.01}, other_rows);
  }
  void forget(SequenceId id) override { drafter_->forget(id); }
  bool share(SequenceId from, SequenceId to, std::int64_t positions) override {
    return drafter_->share(from, to, positions);
  }

 private:
  std::shared_ptr<TextDrafter> drafter_;
  double drafting_;
};

struct Setting {
  Rule rule = Rule::kMaximal;
  bool fixed = true;
  double drafting = 0.1;
  bool company = false;  // other texts of the drafter, before and beside it
};

std::vector<Token> text(const Drafter& drafter, const Setting& setting) {
  GenerateOptions o;
  o.rule = setting.rule;
  o.sampling.temperature = 0.9;
  o.max_draft = 6;
  o.fixed_draft = setting.fixed;
  o.ignore_end = true;
  o.max_tokens = 80;
  o.seed = 3;
  const auto shared = std::make_shared<Clocked>(make_drafter(engine_target(), drafter.fresh(), o),
                                                setting.drafting);
  TextRunner runner(text_model(engine_target()), {});
  std::mt19937 random(5);
  const std::vector<Token> own = testing::prompt(random, 60);
  std::vector<Event> events;
  const auto add = [&](RequestId id, std::vector<Token> prompt) {
    o.request = static_cast<std::uint32_t>(id);
    TextRequest request = text_request(prompt, o);
    request.drafter = shared;
    submit(runner, id, std::move(request));
  };
  if (setting.company) {
    for (RequestId id = 1; id < 4; ++id) add(id, testing::prompt(random, 40));
    for (int i = 0; i < 10; ++i) runner.step(events);
  }
  add(9, own);
  while (runner.busy()) runner.step(events);
  for (const Event& event : events) {
    if (const auto* done = std::get_if<TextFinished>(&event); done != nullptr && done->id == 9) {
      return done->result.tokens;
    }
  }
  return {};
}

class FixedDraft : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine().int8) GTEST_SKIP() << "float rounding depends on company";
  }
};

TEST_F(FixedDraft, OfSampledDraftsGivesATextThatNoClockAndNoCompanyChanges) {
  const std::string network = "dflash:" + testing::tiny_dflash_path();
  for (const std::string& name : {network, network + "+lookup+recycling",
                                  "tidar:" + testing::tiny_tidar_path(4) + "+lookup"}) {
    const Drafter drafter = Drafter::load(name, engine_target());
    for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
      const auto expected = text(drafter, {.rule = rule});
      ASSERT_EQ(expected.size(), 80U);
      EXPECT_EQ(text(drafter, {.rule = rule, .drafting = 50.0}), expected) << name;
      EXPECT_EQ(text(drafter, {.rule = rule, .company = true}), expected) << name;
    }
  }
}

// Negative control: an adaptive length reads the clock, and the text shows it.
TEST_F(FixedDraft, TextsOfAnAdaptiveLengthDependOnTheClock) {
  const Drafter drafter =
      Drafter::load("dflash:" + testing::tiny_dflash_path() + "+lookup", engine_target());
  EXPECT_NE(text(drafter, {.fixed = false, .drafting = 0.001}),
            text(drafter, {.fixed = false, .drafting = 50.0}));
}

}  // namespace
}  // namespace forerun
