// The parts of the loss: documents, blocks, slots; and the figures, computed by hand.
#include "forerun/train/dflash/dflash_objective.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <set>

#include "forerun/models/dflash/four_bit_dflash.h"
#include "tests/support/dflash_training.h"
#include "tests/support/same_gradients.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::ObjectiveParts;
using testing::shards_in;
using testing::small_network;
using testing::some_tokens;
using testing::TempFolder;

using Indices = std::vector<std::size_t>;
constexpr std::int64_t kVocab = 176;

// ---- by hand: a network that drafts the next larger token, always ----

// Tokens lie on a circle; the Markov head predicts the next one. All other parts are zero.
std::shared_ptr<DFlash> successor(const DecoderLm& target, bool predicts_next,
                                  const at::Tensor& drafted = {}) {
  DFlashConfig c = dflash_config_for(target.config, 1, 1, predicts_next ? 3 : 4);
  c.predicts_next = predicts_next;
  c.markov_rank = 2;
  if (drafted.defined()) c.draft_vocab = drafted.numel();
  auto m = std::make_shared<DFlash>(random_dflash(c, DFlashTarget(target), 1, drafted));
  const auto circle = [](const at::Tensor& ids) {
    const at::Tensor angle = ids * (2.0 * std::numbers::pi / kVocab);
    return at::stack({at::cos(angle), at::sin(angle)}, 1).to(at::kFloat);
  };
  const at::Tensor all = at::arange(kVocab, at::kDouble);
  m->norm.weight.zero_();
  m->markov_w1 = circle(all + 1.0);
  m->markov_w2 = circle(drafted.defined() ? drafted.to(at::kDouble) : all);
  return m;
}

// Anchors stand at positions 2 to 9. Drafts are right at 3, 4, 6, 8, 9 and 10, so the eight blocks
// keep 2, 1, 0, 1, 0, 3, 2, 1 of their (at most three) drafts.
const TokenDocument kCounted{
    .id = 0, .prompt = 2, .tokens = {9, 4, 10, 11, 12, 20, 21, 5, 6, 7, 8}};

double figure(const LossSum& sum, const std::string& name) {
  for (const Figure& f : sum.figures) {
    if (f.name == name) return f.value();
  }
  return -1.0;
}

class ByHand : public ::testing::TestWithParam<bool> {
 protected:
  LossSum loss(const TokenDocument& document, const at::Tensor& drafted = {}) {
    parts.model = successor(*parts.target, GetParam(), drafted);
    parts.data = {shards_in(folder.path() / "data", {{document}})};
    return parts.make().loss(Indices{0}, 1);
  }

  TempFolder folder;
  ObjectiveParts parts;
};

TEST_P(ByHand, FiguresAreThoseOfCountedDrafts) {
  const LossSum sum = loss(kCounted);
  EXPECT_DOUBLE_EQ(figure(sum, "first"), 6.0 / 8.0);
  EXPECT_DOUBLE_EQ(figure(sum, "tau"), (2 + 1 + 0 + 1 + 0 + 3 + 2 + 1 + 8) / 8.0);
}

TEST_P(ByHand, SlotsStopAtTheFirstTokenOutsideTheDraftVocabulary) {
  at::Tensor drafted = at::arange(kVocab, at::kLong);
  drafted = drafted.index_select(0, (drafted != 12).nonzero().squeeze(1));
  parts.options.gamma = 2.0;
  const LossSum sum = loss(kCounted, drafted);
  // Now position 4 is left out: it ends the block at 2 after one draft, the block at 3 after none:
  // 1, 0, 0, 1, 0, 3, 2, 1 are kept.
  EXPECT_DOUBLE_EQ(figure(sum, "first"), 5.0 / 8.0);
  EXPECT_DOUBLE_EQ(figure(sum, "tau"), (1 + 0 + 0 + 1 + 0 + 3 + 2 + 1 + 8) / 8.0);
  // First slots of 7 blocks; second ones where they are left: at 4 to 8; third ones at 4 to 7.
  EXPECT_NEAR(sum.weight, 7.0 + 5.0 * std::exp(-0.5) + 4.0 * std::exp(-1.0), 1e-5);
}

TEST_P(ByHand, WeightsDecayAlongTheBlockAndEndWithTheText) {
  parts.options.gamma = 2.0;
  EXPECT_NEAR(loss(kCounted).weight, 8.0 + 7.0 * std::exp(-0.5) + 6.0 * std::exp(-1.0), 1e-5);
}

TEST_P(ByHand, LossIsTheCrossEntropyOfTheTokensThatCame) {
  parts.options.gamma = 1e9;  // all count alike
  parts.options.distill = 0.0;
  const LossSum sum = loss(kCounted);
  const auto score = [](double steps) { return std::cos(2.0 * std::numbers::pi / kVocab * steps); };
  double norm = 0.0;
  for (int j = 0; j < kVocab; ++j) norm += std::exp(score(j));
  double expected = 0.0;
  for (std::size_t p = 2; p <= 9; ++p) {
    for (std::size_t at = p + 1; at <= std::min<std::size_t>(p + 3, 10); ++at) {
      expected += std::log(norm) - score(kCounted.tokens[at - 1] + 1 - kCounted.tokens[at]);
    }
  }
  EXPECT_NEAR(sum.loss.item<double>(), expected, 1e-4);
  EXPECT_NEAR(sum.weight, 21.0, 1e-5);
}

// The distance of two laws is at most 2. The target's is over its whole vocabulary and nearly flat:
// eleven draft tokens of 176 overlap with little of it, all of them with more.
TEST_P(ByHand, AsADistanceTheLossIsThatFromTheWholeLaw) {
  parts.options.distill = 1.0;
  const double entropy = loss(kCounted).loss.item<double>();
  parts.options.law_loss = "l1";
  const LossSum all = loss(kCounted);
  std::vector<std::int64_t> used(kCounted.tokens.begin(), kCounted.tokens.end());
  std::sort(used.begin(), used.end());
  const LossSum few = loss(kCounted, at::tensor(used, at::kLong));
  EXPECT_NE(all.loss.item<double>(), entropy);
  EXPECT_LT(all.loss.item<double>(), 1.6 * all.weight);
  EXPECT_GT(few.loss.item<double>(), 1.7 * few.weight);
  EXPECT_LT(few.loss.item<double>(), 2.0 * few.weight);
}

TEST_P(ByHand, BlocksOfWhichNothingCanBeDraftedCountAsBlocks) {
  const LossSum sum =
      loss({.id = 0, .prompt = 1, .tokens = {3, 5, 5, 5, 5}}, at::tensor({1, 2, 3, 40}, at::kLong));
  EXPECT_FALSE(sum.loss.defined());
  EXPECT_EQ(sum.weight, 0.0);
  EXPECT_EQ(sum.tokens, 5);
  ASSERT_EQ(sum.figures.size(), 2U);
  EXPECT_EQ(sum.figures[0].denominator, 3.0);
  EXPECT_DOUBLE_EQ(figure(sum, "first"), 0.0);
  EXPECT_DOUBLE_EQ(figure(sum, "tau"), 1.0);
}

INSTANTIATE_TEST_SUITE_P(DFlashFigures, ByHand, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "NextPosition" : "OwnPosition");
});

// The tiny target with one weight changed.
std::shared_ptr<const DecoderLm> another_target() {
  auto out = std::make_shared<DecoderLm>(*testing::tiny_target());
  out->layers[1].output.weight = out->layers[1].output.weight.clone();
  out->layers[1].output.weight[3][5] += 0.5;
  return out;
}

// In 4 bits the loss is that of the rounded network, and its gradients are those by the rounded
// weights.
TEST(DFlashObjective, LearnsWithTheWeightsOfItsPasses) {
  ObjectiveParts rounded, plain;
  const TempFolder folder;
  plain.target = rounded.target = testing::tiny_target("qwen3");
  rounded.data = {shards_in(folder.path() / "a", std::vector<TokenDocument>{kCounted})};
  plain.data = {shards_in(folder.path() / "b", std::vector<TokenDocument>{kCounted})};
  const auto network = [&] {
    auto m = small_network(*rounded.target);
    m->head = m->head.to(at::kFloat);
    return m;
  };
  rounded.model = network();
  rounded.model->config.weight_bits = 4;
  plain.model = std::make_shared<DFlash>(rounded_to_four_bits(*rounded.model));
  plain.model->config.weight_bits = 0;
  DFlashObjective learns = rounded.make(), reference = plain.make();
  const auto parameters = learns.parameters(), others = reference.parameters();
  const LossSum sum = learns.loss(Indices{0}, 1);
  const double loss = sum.loss.item<double>();
  testing::expect_same_gradients(sum, parameters, reference.loss(Indices{0}, 1), others);
  plain.model = network();
  const double unrounded = plain.make().loss(Indices{0}, 1).loss.item<double>();
  EXPECT_GT(std::abs(unrounded - loss), 1e-4 * unrounded);
  EXPECT_NE(learns.fingerprint(), reference.fingerprint());
}

// ---- documents ----

// Documents of `first` + id tokens, so that a document is known by its length.
std::vector<TokenDocument> numbered(std::size_t n, std::size_t first) {
  std::vector<TokenDocument> out;
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back({.id = static_cast<std::int64_t>(i),
                   .prompt = 1,
                   .tokens = some_tokens(first + i, static_cast<std::uint32_t>(i))});
  }
  return out;
}

class DFlashDocuments : public ::testing::Test {
 protected:
  DFlashDocuments() { parts.model = small_network(*parts.target); }
  void give(const std::string& name, const std::vector<TokenDocument>& documents) {
    parts.data.push_back(shards_in(folder.path() / name, documents));
  }

  TempFolder folder;
  ObjectiveParts parts;
};

// Greedy and sampled answers to one prompt lie in two folders under one id.
TEST_F(DFlashDocuments, AnswersToOnePromptAreAllTrainedOnOrAllHeldOut) {
  give("greedy", numbered(40, 4));
  give("sampled", numbered(40, 50));
  parts.options.held_out = 0.3;
  DFlashObjective objective = parts.make();
  std::multiset<std::int64_t> trained, held;
  const auto id = [](std::int64_t length) { return length < 50 ? length - 4 : length - 50; };
  for (std::size_t i = 0; i < objective.size(); ++i) {
    trained.insert(id(objective.loss(Indices{i}, 1).tokens));
  }
  for (std::size_t i = 0; i < objective.held_out(); ++i) {
    held.insert(id(objective.held_out_loss(Indices{i}).tokens));
  }
  EXPECT_EQ(trained.size() + held.size(), 80U);
  EXPECT_GT(held.size(), 8U);
  EXPECT_LT(held.size(), 44U);
  for (std::int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(trained.count(i) + held.count(i), 2U) << i;
    EXPECT_TRUE(trained.count(i) == 0 || held.count(i) == 0) << i;
  }
}

TEST_F(DFlashDocuments, WithoutTwoTokensOfAnAnswerAreLeftOut) {
  give("data", {{.id = 0, .prompt = 0, .tokens = {}},
                {.id = 1, .prompt = 3, .tokens = {1, 2, 3}},
                {.id = 2, .prompt = 2, .tokens = {1, 2, 3}},
                {.id = 3, .prompt = 2, .tokens = {1, 2, 3, 4}}});
  EXPECT_EQ(parts.make().size(), 1U);
}

TEST_F(DFlashDocuments, AreReadUpToTheLengthAndTheTargetsContext) {
  give("data", {{.id = 0, .prompt = 2, .tokens = some_tokens(300, 1)},
                {.id = 1, .prompt = 20, .tokens = some_tokens(30, 2)}});
  parts.options.anchors = 4;
  EXPECT_EQ(parts.make().loss(Indices{0}, 1).tokens, 256);
  parts.options.length = 20;
  EXPECT_EQ(parts.make().size(), 1U);  // of the other only its prompt is left
  EXPECT_EQ(parts.make().loss(Indices{0}, 1).tokens, 20);
}

TEST_F(DFlashDocuments, OfAnotherModelAreRefused) {
  for (const Token bad : {Token{176}, Token{-1}}) {
    parts.data.clear();
    give("data", {{.id = 5, .prompt = 1, .tokens = {1, 2, bad, 3}}});
    try {
      parts.make();
      FAIL() << bad;
    } catch (const std::invalid_argument& e) {
      const std::string line = e.what();
      EXPECT_NE(line.find("document 5 holds token " + std::to_string(bad)), line.npos) << line;
    }
  }
}

TEST_F(DFlashDocuments, ThatAreNoneAreSaid) {
  EXPECT_THROW(parts.make(), std::invalid_argument);
  give("data", {});
  EXPECT_THROW(parts.make(), std::invalid_argument);
}

// ---- randomness ----

class DFlashAnchors : public DFlashDocuments {
 protected:
  DFlashAnchors() {
    give("data", numbered(4, 40));
    parts.options.anchors = 3;
  }
};

TEST_F(DFlashAnchors, DependOnSeedAndDocumentAlone) {
  DFlashObjective objective = parts.make();
  const auto loss = [&](const Indices& i, std::uint64_t seed) {
    return objective.loss(i, seed).loss.item<double>();
  };
  const double both = loss({0, 1}, 5);
  EXPECT_EQ(both, loss({0, 1}, 5));
  EXPECT_NE(both, loss({0, 1}, 6));
  EXPECT_NEAR(both, loss({0}, 5) + loss({1}, 5), 1e-5 * both);
  EXPECT_NEAR(both, loss({1, 0}, 5), 1e-5 * both);
}

TEST_F(DFlashAnchors, AreAsManyAsRequestedAndCoverEveryPosition) {
  DFlashObjective objective = parts.make();
  std::set<double> losses;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const LossSum sum = objective.loss(Indices{0}, seed);
    EXPECT_EQ(sum.figures.at(0).denominator, 3.0);
    losses.insert(sum.loss.item<double>());
  }
  EXPECT_GT(losses.size(), 18U);
  parts.options.anchors = 1000;
  EXPECT_EQ(parts.make().loss(Indices{0}, 1).figures.at(0).denominator, 38.0);
}

TEST_F(DFlashAnchors, OfHeldOutDocumentsAreAlwaysTheSame) {
  parts.data = {shards_in(folder.path() / "more", numbered(20, 20))};
  parts.options.held_out = 0.3;
  DFlashObjective objective = parts.make();
  ASSERT_GT(objective.held_out(), 0U);
  Indices all(objective.held_out());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const at::NoGradGuard no_autograd;
  const double before = objective.held_out_loss(all).loss.item<double>();
  objective.loss(Indices{0}, 3);
  EXPECT_EQ(objective.held_out_loss(all).loss.item<double>(), before);
}

// ---- the state store ----

TEST_F(DFlashAnchors, AStateStoreChangesTheLossByItsRoundingAndEpochsByNothing) {
  const double plain = parts.make().loss(Indices{0, 1, 2, 3}, 1).loss.item<double>();
  parts.options.state_store = (folder.path() / "states").string();
  const auto stored = [&] { return parts.make().loss(Indices{0, 1, 2, 3}, 1).loss.item<double>(); };
  const double first = stored();
  EXPECT_NE(first, plain);
  EXPECT_NEAR(first, plain, 0.02 * plain);
  EXPECT_EQ(stored(), first);
  DFlashObjective objective = parts.make();
  objective.loss(Indices{2}, 9);
  EXPECT_EQ(objective.loss(Indices{0, 1, 2, 3}, 1).loss.item<double>(), first);
}

TEST_F(DFlashAnchors, AStateStoreOfOtherDocumentsOrLayersIsReplaced) {
  const auto with_store = [&](ObjectiveParts p, const std::string& name) {
    p.options.state_store = (folder.path() / name).string();
    return p.make().loss(Indices{0}, 1).loss.item<double>();
  };
  ObjectiveParts other = parts;
  other.data = {shards_in(folder.path() / "other", numbered(4, 41))};
  ObjectiveParts swapped = parts;
  swapped.model = std::make_shared<DFlash>(*parts.model);
  swapped.model->config.feature_layers = {1, 0};
  // The same tokens, cut into documents elsewhere.
  ObjectiveParts cut = parts;
  auto documents = numbered(4, 40);
  documents[1].tokens.insert(documents[1].tokens.begin(), documents[0].tokens.back());
  documents[0].tokens.pop_back();
  cut.data = {shards_in(folder.path() / "cut", documents)};
  ObjectiveParts target = parts;
  target.target = another_target();
  target.target_hash = "b";
  std::set<double> losses;
  int fresh = 0;
  for (const ObjectiveParts* p : {&parts, &other, &swapped, &parts, &cut, &target}) {
    const double loss = with_store(*p, "shared");
    EXPECT_EQ(loss, with_store(*p, "fresh" + std::to_string(fresh++)));
    losses.insert(loss);
  }
  EXPECT_EQ(losses.size(), 5U);  // previous content would have been seen
}

TEST_F(DFlashAnchors, WhatARunMustKeepIsInTheFingerprint) {
  std::set<std::string> seen = {parts.make().fingerprint()};
  EXPECT_TRUE(seen.contains(parts.make().fingerprint()));
  const auto differs = [&](const std::function<void(ObjectiveParts&)>& change) {
    ObjectiveParts other = parts;
    change(other);
    const std::string text = other.make().fingerprint();
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_EQ(text.find('\n'), text.npos);
  };
  differs([](ObjectiveParts& p) { p.options.gamma = 5.0; });
  differs([](ObjectiveParts& p) { p.options.distill = 0.25; });
  differs([](ObjectiveParts& p) { p.options.anchors = 4; });
  differs([](ObjectiveParts& p) { p.options.confidence = 0.5; });
  differs([](ObjectiveParts& p) { p.options.length = 42; });
  differs([&](ObjectiveParts& p) { p.data.push_back(p.data[0]); });
  differs(
      [&](ObjectiveParts& p) { p.data = {shards_in(folder.path() / "longer", numbered(4, 41))}; });
  differs([&](ObjectiveParts& p) {  // one token in place of another
    auto documents = numbered(4, 40);
    documents[3].tokens[30] ^= 1;
    p.data = {shards_in(folder.path() / "token", documents)};
  });
  differs([&](ObjectiveParts& p) {
    auto documents = numbered(4, 40);
    documents[2].prompt = 2;
    p.data = {shards_in(folder.path() / "prompt", documents)};
  });
  differs([](ObjectiveParts& p) { p.target_hash = "b"; });
  differs([](ObjectiveParts& p) {
    const std::string tiny = kTiny + "llama_plain";
    p.target = std::make_shared<const DecoderLm>(
        load_decoder(load_hf_config(tiny), load_safetensors(tiny), tiny, Precision::kBF16));
  });
  differs([&](ObjectiveParts& p) { p.options.state_store = (folder.path() / "states").string(); });
  differs([&](ObjectiveParts& p) {
    p.model = small_network(*p.target);
    add_convolutions(*p.model);
  });
  differs([&](ObjectiveParts& p) {
    p.model = small_network(*p.target);
    p.model->config.markov_gated = true;
  });
  for (const std::int64_t rank : {3, 4}) {
    differs([&](ObjectiveParts& p) {
      p.model = small_network(*p.target);
      p.model->config.markov_rank = 0;
      p.model->config.selector_rank = rank;
    });
  }
  for (const int first : {0, 1}) {  // the same number of draft tokens, but others
    differs([&](ObjectiveParts& p) {
      p.model = small_network(*p.target, at::arange(first, kVocab, 20, at::kLong));
    });
  }
}

}  // namespace
}  // namespace forerun
