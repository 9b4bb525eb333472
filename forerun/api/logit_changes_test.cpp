// Bias and penalties as part of the target's law, on tiny random models: texts, batches,
// certificates.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "forerun/api/certify_traced.h"
#include "tests/support/tiny_prompts.h"

namespace forerun {
namespace {

using testing::kTiny;
using testing::near_copy;
using testing::options;
using testing::prompt;
using testing::tiny;

LogitChanges some() {
  return {.bias = {{12, 1.5F}, {40, -3.0F}, {41, 2.0F}},
          .repetition_penalty = 1.2,
          .frequency_penalty = 0.2,
          .presence_penalty = 0.4};
}

GenerateOptions changed(Rule rule, double temperature, std::uint32_t n = 60) {
  GenerateOptions o = options(rule, temperature, n);
  o.changes = some();
  return o;
}

std::vector<Drafter> changed_drafters(const Model& model) {
  std::vector<Drafter> out = {near_copy()};
  for (const char* name : {"lookup", "sam", "auto"}) out.push_back(Drafter::load(name, model));
  return out;
}

TEST(LogitChangesOfTexts, TheTextIsThePlainOneWhateverTheDrafts) {
  for (const double temperature : {0.0, 0.8}) {
    const GenerateOptions o = changed(Rule::kSharedNoise, temperature);
    const Generated plain = generate(tiny(), Drafter(), prompt(20), o);
    EXPECT_NE(
        plain.tokens,
        generate(tiny(), Drafter(), prompt(20), options(Rule::kSharedNoise, temperature)).tokens);
    std::uint64_t kept = 0;
    for (const Drafter& d : changed_drafters(tiny())) {
      const Generated drafted = generate(tiny(), d, prompt(20), o);
      EXPECT_EQ(drafted.tokens, plain.tokens) << d.name() << " at " << temperature;
      EXPECT_GT(drafted.statistics.drafted, 0U) << d.name();
      kept += drafted.statistics.kept();
    }
    EXPECT_GT(kept, 40U);
  }
}

// Greedy passes in int8 leave rows out by logits that nothing changes: one that is forbidden may
// not decide that.
TEST(LogitChangesOfTexts, AForbiddenTokenExcludesNoRow) {
  if (!machine().int8) GTEST_SKIP() << "this processor has no AVX2";
  const Model model = Model::load(kTiny + "llama_plain", Precision::kInt8);
  GenerateOptions o = options(Rule::kSharedNoise, 0.0, 100);
  o.fixed_draft = true;
  std::uint64_t kept = 0;
  for (int i = 0; i < 6; ++i) {  // what the model says most is forbidden, and again
    const Generated plain = generate(model, Drafter(), prompt(20), o);
    for (const char* name : {"lookup", "sam", "auto"}) {
      const Generated drafted = generate(model, Drafter::load(name, model), prompt(20), o);
      EXPECT_EQ(drafted.tokens, plain.tokens) << name << " " << i;
      kept += drafted.statistics.kept();
    }
    std::map<Token, int> counts;
    for (const Token t : plain.tokens) ++counts[t];
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    o.changes.bias.emplace_back(most->first, -1e4F);
  }
  EXPECT_GT(kept, 100U);
}

// Every output forbids itself from then on: a row that did not count the drafts before it, in a
// chain or on its path in a tree, would keep a second one.
TEST(LogitChangesOfTexts, PenaltiesCountTheDraftsBeforeARow) {
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock, Rule::kMatch, Rule::kSharedNoise}) {
    GenerateOptions o = options(rule, 1.0, 100);
    o.changes.presence_penalty = 1e4;
    for (const Drafter& d : changed_drafters(tiny())) {
      const std::vector<Token> tokens = generate(tiny(), d, prompt(20), o).tokens;
      EXPECT_EQ(std::set<Token>(tokens.begin(), tokens.end()).size(), tokens.size())
          << d.name() << " " << name_of(rule);
    }
  }
}

TEST(LogitChangesOfTexts, ABiasForbidsAndForces) {
  GenerateOptions o = options(Rule::kMaximal, 1.0, 40);
  for (Token t = 0; t < static_cast<Token>(tiny().vocab()); t += 2) {
    o.changes.bias.emplace_back(t, -1e4F);
  }
  for (const Drafter& d : changed_drafters(tiny())) {
    const Generated g = generate(tiny(), d, prompt(20), o);
    EXPECT_TRUE(std::all_of(g.tokens.begin(), g.tokens.end(), [](Token t) { return t % 2 == 1; }));
  }
  o.changes.bias = {{77, 1e4F}};
  const Generated forced = generate(tiny(), near_copy(), prompt(20), o);
  EXPECT_EQ(forced.tokens, std::vector<Token>(40, 77));
  EXPECT_GT(forced.statistics.tau(), 5.0);  // the drafter's law is changed alike
}

TEST(LogitChangesOfTexts, TextsOfABatchAreThoseOfSingleRuns) {
  const Model model =
      Model::load(kTiny + "llama_plain", machine().int8 ? Precision::kInt8 : Precision::kF32);
  const Drafter automatic = Drafter::load("auto", model);
  const std::vector<std::vector<Token>> prompts = {prompt(9), prompt(20, 2), prompt(33)};
  const GenerateOptions o = changed(Rule::kSharedNoise, 0.9, 40);
  const auto batch = generate_batch(model, automatic, prompts, o);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GenerateOptions one = o;
    one.request = static_cast<std::uint32_t>(i);
    EXPECT_EQ(batch[i].tokens, generate(model, Drafter(), prompts[i], one).tokens);
  }
}

TEST(LogitChangesOfTexts, CertificatesJudgeByTheChangedLaw) {
  const std::vector<std::vector<Token>> prompts = {prompt(30), prompt(30, 3)};
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
    const Certificate c = certify(tiny(), near_copy(), prompts, 600, 150, changed(rule, 1.0, 150));
    EXPECT_TRUE(c.passed()) << name_of(rule) << " z " << c.report.z << " p " << c.report.ks_p;
    EXPECT_GT(c.report.drafted, 300U);
  }
  for (const double temperature : {0.0, 0.9}) {
    GenerateOptions o = changed(Rule::kSharedNoise, temperature);
    o.sampling.top_p = temperature > 0.0 ? 0.9 : 1.0;
    for (const Drafter& d : changed_drafters(tiny())) {
      EXPECT_EQ(certify(tiny(), d, prompts, 120, 60, o).verdict(), "identical") << d.name();
    }
  }
}

// Texts made with changes are not ones of the unchanged law, nor the other way round.
TEST(LogitChangesOfTexts, ACertificateOfAnotherLawFails) {
  for (const bool made_with : {true, false}) {
    GenerateOptions o = options(Rule::kMaximal, 1.0, 200);
    if (made_with) o.changes = some();
    const TracedText t = traced(tiny(), near_copy(), prompt(20), o);
    EXPECT_TRUE(certify_traced(tiny(), near_copy(), prompt(20), t, o).passed());
    o.changes = made_with ? LogitChanges() : some();
    EXPECT_FALSE(certify_traced(tiny(), near_copy(), prompt(20), t, o).passed());
  }
}

TEST(LogitChangesOfTexts, WrongOnesAreRefused) {
  for (const LogitChanges& wrong :
       {LogitChanges{.repetition_penalty = -1.0},
        LogitChanges{.bias = {{static_cast<Token>(tiny().vocab()), 1.0F}}}}) {
    GenerateOptions o = options(Rule::kMaximal, 1.0);
    o.changes = wrong;
    EXPECT_THROW(generate(tiny(), Drafter(), prompt(20), o), UsageError);
  }
}

}  // namespace
}  // namespace forerun
