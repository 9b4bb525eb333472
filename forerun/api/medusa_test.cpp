// Medusa heads through the public API, on a chat target: what speculation must keep to with any
// network, here random ones, whose drafts are often rejected.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "forerun/api/access.h"
#include "forerun/api/make_drafter.h"
#include "forerun/api/model_impl.h"
#include "forerun/common.h"
#include "forerun/engine.h"
#include "forerun/method.h"
#include "forerun/methods/medusa/medusa_source.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/models/medusa/medusa_file.h"
#include "forerun/text.h"
#include "tests/support/engine_texts.h"
#include "tests/support/random_medusa.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_dflash.h"
#include "tests/support/tiny_prompts.h"

namespace forerun {
namespace {

using testing::chat_model;

struct HeadsShape {
  const char* name;
  bool reduced = false, markov = false;
  std::int64_t heads = 3;
};

MedusaConfig config_for_chat(const HeadsShape& shape) {
  const DecoderConfig& target = impl_of(chat_model()).lm.config;
  MedusaConfig c = small_medusa();
  c.hidden = target.hidden;
  c.vocab = target.vocab;
  c.target_layers = target.layers;
  c.feature_layers = {0, 1};
  c.heads = shape.heads;
  c.draft_vocab = shape.reduced ? 100 : target.vocab;
  c.markov_rank = shape.markov ? 8 : 0;
  return c;
}

// A folder of random heads.
class HeadsFolder {
 public:
  explicit HeadsFolder(const HeadsShape& shape) : HeadsFolder(config_for_chat(shape)) {}
  explicit HeadsFolder(const MedusaConfig& config) {
    Medusa m = noisy_medusa(config, at::kFloat, 9);
    m.head.mul_(0.5);  // laws as flat as the target's
    if (config.draft_vocab < config.vocab) {
      m.draft_to_target = at::arange(5, 5 + config.draft_vocab, at::kLong);
    }
    save_medusa(folder_.path(), m);
  }
  std::string path() const { return folder_.path().string(); }
  Drafter drafter(const std::string& suffix = "", const Model& target = chat_model(),
                  PrecisionRequest precision = kAutoPrecision) const {
    return Drafter::load("medusa:" + path() + suffix, target, precision);
  }

 private:
  testing::TempFolder folder_;
};

// With each of them chosen drafts give the text of plain decoding.
struct RuleAt {
  Rule rule;
  double temperature;
};
const std::vector<RuleAt>& exact_rules() {
  static const std::vector<RuleAt> all = {{Rule::kMaximal, 0.0}, {Rule::kSharedNoise, 0.0},
                                          {Rule::kMaximal, 0.9}, {Rule::kBlock, 0.9},
                                          {Rule::kMatch, 0.9},   {Rule::kSharedNoise, 0.8}};
  return all;
}

class MedusaTexts : public ::testing::TestWithParam<HeadsShape> {
 protected:
  const HeadsFolder folder{GetParam()};
};

TEST_P(MedusaTexts, AreThePlainOnesWhateverTheRule) {
  std::uint64_t kept = 0;
  for (const std::string suffix : {"", "+lookup"}) {
    const Drafter drafter = folder.drafter(suffix);
    EXPECT_FALSE(drafter.has_laws());
    EXPECT_TRUE(drafter.keeps_law());
    for (const RuleAt& s : exact_rules()) {
      GenerateOptions o = testing::options(s.rule, s.temperature, 40);
      const Generated plain = generate(chat_model(), Drafter(), testing::prompt(20), o);
      for (const bool fixed : {true, false}) {
        o.fixed_draft = fixed;
        const Generated g = generate(chat_model(), drafter, testing::prompt(20), o);
        EXPECT_EQ(g.tokens, plain.tokens)
            << suffix << " " << name_of(s.rule) << s.temperature << (fixed ? " fixed" : "");
        EXPECT_TRUE(g.exact);
        if (!fixed) continue;
        EXPECT_GT(g.statistics.drafted, 0U);
        if (suffix.empty()) kept += g.statistics.kept();
      }
    }
  }
  EXPECT_GT(kept, 0U) << "every draft was rejected";
}

TEST_P(MedusaTexts, AreThePlainOnesWhateverThePrompt) {
  for (const std::size_t length : {1U, 2U, 3U, 90U}) {
    for (const RuleAt& s : {RuleAt{Rule::kMaximal, 0.0}, RuleAt{Rule::kSharedNoise, 0.8}}) {
      const GenerateOptions o = testing::options(s.rule, s.temperature, 40);
      const auto p = testing::prompt(length);
      const Generated plain = generate(chat_model(), Drafter(), p, o);
      for (const std::string suffix : {"", "+lookup"}) {
        const Generated g = generate(chat_model(), folder.drafter(suffix), p, o);
        EXPECT_EQ(g.tokens, plain.tokens) << suffix << length;
        EXPECT_GT(g.statistics.drafted, 0U);
      }
    }
  }
}

TEST_P(MedusaTexts, AreThePlainOnesWhateverTheDraftLength) {
  GenerateOptions o = testing::options(Rule::kSharedNoise, 0.8);
  const Generated plain = generate(chat_model(), Drafter(), testing::prompt(20), o);
  const Drafter drafter = folder.drafter();
  for (const std::uint32_t most : {0U, 1U, 2U, 31U}) {
    o.max_draft = most;
    const Generated g = generate(chat_model(), drafter, testing::prompt(20), o);
    EXPECT_EQ(g.tokens, plain.tokens) << most;
    EXPECT_EQ(g.statistics.drafted > 0, most > 0);
    // No output lies deeper in a tree than there are heads.
    EXPECT_LE(g.statistics.accepted.size(), static_cast<std::size_t>(GetParam().heads)) << most;
  }
}

TEST_P(MedusaTexts, WithBiasAndPenaltiesAreThePlainOnes) {
  GenerateOptions o = testing::options(Rule::kSharedNoise, 0.8);
  o.changes = {.bias = {{12, 2.0F}}, .repetition_penalty = 1.2, .presence_penalty = 0.5};
  const Generated plain = generate(chat_model(), Drafter(), testing::prompt(20), o);
  for (const std::string suffix : {"", "+lookup"}) {
    EXPECT_EQ(generate(chat_model(), folder.drafter(suffix), testing::prompt(20), o).tokens,
              plain.tokens)
        << suffix;
  }
}

TEST_P(MedusaTexts, OfABatchAreThePlainOnes) {
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 5; ++i) {
    prompts.push_back(testing::prompt(static_cast<std::size_t>(7 + 9 * i), i));
  }
  for (const std::string suffix : {"", "+lookup"}) {
    const Drafter drafter = folder.drafter(suffix);
    for (const RuleAt& s : {RuleAt{Rule::kMaximal, 0.0}, RuleAt{Rule::kSharedNoise, 0.8}}) {
      for (const bool fixed : {true, false}) {
        GenerateOptions o = testing::options(s.rule, s.temperature, 30);
        o.fixed_draft = fixed;
        o.batch_size = 3;  // sequences end and others begin between rounds
        const auto batch = generate_batch(chat_model(), drafter, prompts, o);
        ASSERT_EQ(batch.size(), prompts.size());
        for (std::size_t i = 0; i < prompts.size(); ++i) {
          GenerateOptions one = o;
          one.request = static_cast<std::uint32_t>(i);
          EXPECT_EQ(batch[i].tokens, generate(chat_model(), Drafter(), prompts[i], one).tokens)
              << suffix << i;
          if (fixed) {
            EXPECT_GT(batch[i].statistics.drafted, 0U);
          }
        }
      }
    }
  }
}

// What a text of chains came to, without the public API, which chains for inexact rules alone.
struct Chained {
  std::vector<Token> tokens;
  std::size_t drafted = 0, trees = 0, longest = 0;  // drafts
};

Chained chained(const std::string& path, const GenerateOptions& o) {
  const std::shared_ptr<const MedusaPasses> network =
      MedusaPasses::make(load_medusa(path, impl_of(chat_model()).lm), Precision::kF32);
  TextRequest request = text_request(testing::prompt(20), o);
  request.drafter = std::make_shared<TreeDrafter>(
      std::vector<std::unique_ptr<TreeSource>>(), std::make_unique<MedusaSource>(network),
      DraftLength({.adaptive = !o.fixed_draft}), o.max_draft, TreeDrafter::Shape::kChain);
  Chained out;
  request.observer = [&](const TextRound& round, std::size_t i) {
    out.drafted += round.drafts[i].size();
    out.trees += round.drafts[i].tree() ? 1 : 0;
    out.longest = std::max(out.longest, round.drafts[i].size());
  };
  TextRunner runner(text_model(chat_model()), {});
  forerun::submit(runner, 1, std::move(request));
  std::vector<Event> events;
  while (runner.busy()) runner.step(events);
  for (const Event& event : events) {
    if (const auto* done = std::get_if<TextFinished>(&event)) out.tokens = done->result.tokens;
  }
  return out;
}

TEST_P(MedusaTexts, OfChainsAreThePlainOnes) {
  for (const RuleAt& s : exact_rules()) {
    for (const bool fixed : {true, false}) {
      GenerateOptions o = testing::options(s.rule, s.temperature, 40);
      o.fixed_draft = fixed;
      const Chained have = chained(folder.path(), o);
      EXPECT_EQ(have.tokens, generate(chat_model(), Drafter(), testing::prompt(20), o).tokens)
          << name_of(s.rule) << s.temperature << (fixed ? " fixed" : "");
      EXPECT_EQ(have.trees, 0U);
      if (!fixed) continue;
      EXPECT_GT(have.drafted, 0U);
      EXPECT_EQ(have.longest, static_cast<std::size_t>(GetParam().heads));
    }
  }
}

// Rules that are not exact take chains.
TEST_P(MedusaTexts, AreDraftedInTreesWhereTheRuleTakesThem) {
  const auto branches = [&](Rule rule) {
    GenerateOptions o = testing::options(rule, 0.8, 40);
    o.trace = true;
    const Generated g = generate(chat_model(), folder.drafter(), testing::prompt(20), o);
    EXPECT_EQ(g.exact, rule == Rule::kMatch);
    EXPECT_GT(g.statistics.drafted, 0U);
    std::size_t out = 0;
    for (const RoundTrace& round : g.trace.value().rounds) {
      for (std::size_t i = 0; i < round.parents.size(); ++i) {
        out += round.parents[i] != static_cast<std::int32_t>(i) - 1 ? 1 : 0;
      }
    }
    return out;
  };
  EXPECT_GT(branches(Rule::kMatch), 0U);
  EXPECT_EQ(branches(Rule::kTypical), 0U);
}

TEST_P(MedusaTexts, HaveCertificates) {
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 6; ++i) prompts.push_back(testing::prompt(30, i));
  for (const std::string suffix : {"", "+lookup"}) {
    for (const Rule rule : {Rule::kMaximal, Rule::kMatch, Rule::kSharedNoise}) {
      GenerateOptions o = testing::options(rule, 1.0);
      o.fixed_draft = true;  // random heads alone are not worth a draft
      const Certificate c = certify(chat_model(), folder.drafter(suffix), prompts, 300, 50, o);
      EXPECT_TRUE(c.passed()) << suffix << " " << name_of(rule) << " z " << c.report.z;
      EXPECT_TRUE(c.deterministic);
      EXPECT_GT(c.drafted, 20U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Medusa, MedusaTexts,
                         ::testing::Values(HeadsShape{"Plain"}, HeadsShape{"Reduced", true, false},
                                           HeadsShape{"Markov", false, true},
                                           HeadsShape{"ReducedMarkov", true, true, 5},
                                           HeadsShape{"OneHead", false, true, 1}),
                         [](const auto& shape) { return std::string(shape.param.name); });

TEST(MedusaDrafter, IsListedWithItsArgument) {
  std::size_t found = 0;
  for (const DrafterInfo& info : registered_drafters()) {
    found += info.usage() == "medusa:FOLDER" ? 1 : 0;
  }
  EXPECT_EQ(found, 1U);
  const HeadsFolder folder(HeadsShape{""});
  EXPECT_EQ(folder.drafter("+lookup").parts(),
            (std::vector<std::string>{"medusa:" + folder.path(), "lookup"}));
}

TEST(MedusaDrafter, AnyPrecisionGivesThePlainText) {
  const HeadsFolder folder(HeadsShape{"", true, true});
  const GenerateOptions o = testing::options(Rule::kSharedNoise, 0.8);
  const Generated plain = generate(chat_model(), Drafter(), testing::prompt(20), o);
  std::vector<PrecisionRequest> precisions = {kAutoPrecision, Precision::kF32};
  if (machine().int8) precisions.emplace_back(Precision::kInt8);
  for (const PrecisionRequest& precision : precisions) {
    const Drafter drafter = folder.drafter("", chat_model(), precision);
    EXPECT_EQ(generate(chat_model(), drafter, testing::prompt(20), o).tokens, plain.tokens);
  }
}

TEST(MedusaDrafter, ATextEndsAtItsLength) {
  const HeadsFolder folder(HeadsShape{"", false, true});
  const Drafter drafter = folder.drafter();
  const Generated plain = generate(chat_model(), Drafter(), testing::prompt(20),
                                   testing::options(Rule::kSharedNoise, 0.8));
  for (std::uint32_t n = 1; n < 12; ++n) {
    const Generated g = generate(chat_model(), drafter, testing::prompt(20),
                                 testing::options(Rule::kSharedNoise, 0.8, n));
    EXPECT_EQ(g.tokens, std::vector<Token>(plain.tokens.begin(), plain.tokens.begin() + n));
  }
  GenerateOptions o = testing::options(Rule::kSharedNoise, 0.0);
  o.max_tokens = 100000;  // to the end of the context
  EXPECT_EQ(generate(chat_model(), drafter, testing::prompt(20), o).tokens,
            generate(chat_model(), Drafter(), testing::prompt(20), o).tokens);
}

// The target's states in int8, beside texts of other drafters, and after a beginning that another
// text has read.
TEST(MedusaDrafter, TextsOfAnEngineAreThoseAlone) {
  if (!machine().int8) GTEST_SKIP() << "float rounding depends on company";
  const Model& target = testing::engine_target();
  const HeadsFolder folder(HeadsShape{"", true, true});
  const std::vector<Drafter> all = {folder.drafter("", target), Drafter(),
                                    folder.drafter("+lookup", target),
                                    Drafter::load("lookup", target)};
  std::mt19937 random(3);
  const std::vector<Token> beginning = testing::prompt(random, 150);
  Engine engine({.max_prefixes = 16});
  std::map<RequestId, std::vector<Token>> want;
  std::vector<RequestId> alike;
  for (std::uint32_t i = 0; i < 12; ++i) {
    std::vector<Token> p(beginning.begin(), beginning.begin() + (i % 2 == 0 ? 150 : 10 + i));
    p.push_back(static_cast<Token>(30 + i));
    GenerateOptions o = testing::options(Rule::kSharedNoise, i % 3 == 0 ? 0.0 : 0.8, 30);
    o.request = i;
    o.fixed_draft = i % 4 != 2;
    const RequestId id = engine.submit(target, all[i % all.size()], p, o);
    if (i % all.size() == 0) alike.push_back(id);
    want[id] = generate(target, Drafter(), p, o).tokens;
  }
  testing::Ended ended;
  testing::finish(engine, ended);
  EXPECT_TRUE(ended.failures.empty());
  ASSERT_EQ(ended.texts.size(), want.size());
  for (const auto& [id, tokens] : want) EXPECT_EQ(ended.texts.at(id).tokens, tokens) << id;
  ASSERT_EQ(alike.size(), 3U);
  EXPECT_GE(ended.texts.at(alike[1]).shared_tokens, 64U);
  EXPECT_GT(ended.texts.at(alike[1]).statistics.drafted, 0U);
}

// Nothing of a prompt has to be read for it: a beginning that plain texts have read will do.
TEST(MedusaDrafter, TakesOverWhatTextsWithoutItHaveRead) {
  const Model& target = testing::engine_target();
  const HeadsFolder folder(HeadsShape{"", true, true});
  std::mt19937 random(4);
  std::vector<Token> prompt = testing::prompt(random, 150);
  Engine engine({.max_prefixes = 16});
  GenerateOptions o = testing::options(Rule::kSharedNoise, 0.0, 12);
  testing::Ended ended;
  engine.submit(target, Drafter(), prompt, o);
  testing::finish(engine, ended);
  prompt.push_back(7);
  const RequestId id = engine.submit(target, folder.drafter("", target), prompt, o);
  testing::finish(engine, ended);
  EXPECT_GE(ended.texts.at(id).shared_tokens, 64U);
  EXPECT_GT(ended.texts.at(id).statistics.drafted, 0U);
  if (machine().int8) {
    EXPECT_EQ(ended.texts.at(id).tokens, generate(target, Drafter(), prompt, o).tokens);
  }
}

// @param says  a part of the one line that is thrown
template <class Thrown>
void expect_heads_refused(const std::string& spec, const std::string& says,
                          const Model& target = chat_model()) {
  try {
    Drafter::load(spec, target);
    ADD_FAILURE() << spec << " was accepted";
  } catch (const Thrown& e) {
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << "one line: " << e.what();
  }
}

TEST(MedusaDrafter, RefusesWhatIsNoFolder) {
  expect_heads_refused<UsageError>("medusa", "give medusa:FOLDER");
  expect_heads_refused<UsageError>("medusa:", "give medusa:FOLDER");
  expect_heads_refused<UsageError>("medusa:/no/such/folder",
                                   "no drafter at '/no/such/folder': give a folder of forerun "
                                   "train medusa");
  const HeadsFolder folder(HeadsShape{""});
  expect_heads_refused<UsageError>("medusa:" + folder.path() + "/config.json", "no drafter at");
  expect_heads_refused<UsageError>("medusa:" + folder.path() + "+lookup+lookup",
                                   "'lookup' is named twice");
}

TEST(MedusaDrafter, RefusesFoldersOfAnotherKind) {
  const std::string says = "does not describe Medusa heads";
  expect_heads_refused<FormatError>("medusa:" + testing::chat_model_path(), says);
  expect_heads_refused<FormatError>("medusa:" FORERUN_SOURCE_DIR "/tests/data/dflash/zlab_full",
                                    says);
  const HeadsFolder folder(HeadsShape{""});
  expect_heads_refused<FormatError>("dflash:" + folder.path(), folder.path());
  const testing::TempFolder empty;
  expect_heads_refused<FormatError>("medusa:" + empty.path().string(), empty.path().string());
}

TEST(MedusaDrafter, RefusesHeadsOfAnotherTarget) {
  expect_heads_refused<FormatError>("medusa:" FORERUN_SOURCE_DIR "/tests/data/medusa/markov",
                                    "made for a target of 9 layers, this one has 3");
  MedusaConfig wider = config_for_chat({""});
  wider.hidden = 64;
  expect_heads_refused<FormatError>("medusa:" + HeadsFolder(wider).path(),
                                    "made for a target of hidden size 64 and vocabulary 176, this "
                                    "one has 48 and 176");
  const HeadsFolder folder(HeadsShape{""});
  const auto load = [](const char* name) {
    return Model::load(FORERUN_SOURCE_DIR "/tests/data/tiny/" + std::string(name), Precision::kF32);
  };
  expect_heads_refused<FormatError>("medusa:" + folder.path(),
                                    "made for a target of 3 layers, this one has 2", load("llama"));
  expect_heads_refused<FormatError>("medusa:" + folder.path(),
                                    "made for a target of hidden size 48 and vocabulary 176, this "
                                    "one has 48 and 160",
                                    load("qwen2"));
}

TEST(MedusaDrafter, RefusesHalfAFolder) {
  const HeadsFolder folder(HeadsShape{""});
  const auto file = std::filesystem::path(folder.path()) / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  expect_heads_refused<FormatError>("medusa:" + folder.path(), "model.safetensors");
  std::filesystem::remove(file);
  expect_heads_refused<FormatError>("medusa:" + folder.path(), "its weights are missing");
}

TEST(MedusaDrafter, HasNoLawsForARuleThatReadsThem) {
  const HeadsFolder folder(HeadsShape{""});
  EXPECT_THROW(generate(chat_model(), folder.drafter(), testing::prompt(20),
                        testing::options(Rule::kRatioOnSearch, 0.8)),
               UsageError);
}

}  // namespace
}  // namespace forerun
