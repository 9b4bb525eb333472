// Which places Medusa heads learn from, figures by hand, and what a run keeps. The loss itself:
// medusa_objective_parity_test.cpp.
#include "forerun/train/medusa/medusa_objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "forerun/models/medusa/four_bit_medusa.h"
#include "forerun/models/medusa/medusa_file.h"
#include "tests/support/medusa_training.h"
#include "tests/support/same_gradients.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::copy_of;
using testing::heads_for;
using testing::MedusaParts;
using testing::shards_in;
using testing::some_tokens;
using testing::TempFolder;

using Examples = std::vector<std::size_t>;

// Documents of `first` + id tokens.
std::vector<TokenDocument> medusa_texts(std::size_t n, std::size_t first, Token vocab = 176) {
  std::vector<TokenDocument> out;
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back({.id = static_cast<std::int64_t>(i),
                   .prompt = 1,
                   .tokens = some_tokens(first + i, static_cast<std::uint32_t>(i), vocab)});
  }
  return out;
}

class MedusaDocuments : public ::testing::Test {
 protected:
  MedusaDocuments() { parts.model = heads_for(*parts.target); }
  void give(const std::string& name, const std::vector<TokenDocument>& documents) {
    parts.data = {shards_in(folder.path() / name, documents)};
  }
  static double loss_of(MedusaObjective& objective, const Examples& examples, std::uint64_t seed) {
    return objective.loss(examples, seed).loss.item<double>();
  }

  TempFolder folder;
  MedusaParts parts;
};

// ---- by hand ----

// Heads that draft the next larger token, always: tokens lie on a circle, the Markov head predicts
// the next one, all states are zero.
std::shared_ptr<Medusa> successor_heads(const DecoderLm& target, const at::Tensor& drafted = {}) {
  auto m = heads_for(target, drafted);
  for (RmsNorm& norm : m->head_norms) norm.weight.zero_();
  const auto circle = [&](const at::Tensor& ids) {
    const at::Tensor angle =
        ids * (2.0 * std::numbers::pi / static_cast<double>(target.config.vocab));
    return at::stack({at::cos(angle), at::sin(angle)}, 1).to(at::kFloat);
  };
  const at::Tensor all = at::arange(target.config.vocab, at::kDouble);
  m->config.markov_rank = 2;
  m->markov_w1 = circle(all + 1.0);
  m->markov_w2 = circle(drafted.defined() ? drafted.to(at::kDouble) : all);
  return m;
}

// Newest tokens stand at positions 1 to 8; of the three drafts there 2, 1, 0, 3, 3, 2, 1, 0 are
// kept.
const std::vector<TokenDocument> kFollowed = {
    {.id = 0, .prompt = 1, .tokens = {30, 31, 32, 33, 90, 91, 92, 93, 94, 7}}};

TEST_F(MedusaDocuments, FiguresAndWeightsAreThoseOfCountedDrafts) {
  parts.model = successor_heads(*parts.target);
  parts.options.gamma = 2.0;
  give("data", kFollowed);
  const LossSum sum = parts.make().loss(Examples{0}, 1);
  EXPECT_DOUBLE_EQ(sum.figures.at(0).value(), 6.0 / 8.0);
  EXPECT_DOUBLE_EQ(sum.figures.at(1).value(), (2 + 1 + 0 + 3 + 3 + 2 + 1 + 0 + 8) / 8.0);
  EXPECT_NEAR(sum.weight, 8.0 + 7.0 * std::exp(-0.5) + 6.0 * std::exp(-1.0), 1e-5);
  EXPECT_EQ(sum.tokens, 10);
}

TEST_F(MedusaDocuments, HeadsCountUntilATokenThatCannotBeDrafted) {
  at::Tensor drafted = at::arange(176, at::kLong);
  drafted = drafted.index_select(0, (drafted != 92).nonzero().squeeze(1));
  parts.model = successor_heads(*parts.target, drafted);
  parts.options.gamma = 2.0;
  give("data", kFollowed);
  const LossSum sum = parts.make().loss(Examples{0}, 1);
  // Token 92 ends the drafts at 3 to 5, where two, one and none are left.
  EXPECT_DOUBLE_EQ(sum.figures.at(0).value(), 5.0 / 8.0);
  EXPECT_DOUBLE_EQ(sum.figures.at(1).value(), (2 + 1 + 0 + 1 + 0 + 2 + 1 + 0 + 8) / 8.0);
  EXPECT_NEAR(sum.weight, 7.0 + 5.0 * std::exp(-0.5) + 3.0 * std::exp(-1.0), 1e-5);
}

TEST_F(MedusaDocuments, PlacesOfWhichNothingCanBeDraftedAreCounted) {
  parts.model = heads_for(*parts.target, at::tensor({1, 2, 40}, at::kLong));
  give("data", {{.id = 0, .prompt = 1, .tokens = {1, 5, 5, 5, 5}}});
  const LossSum sum = parts.make().loss(Examples{0}, 1);
  EXPECT_FALSE(sum.loss.defined());
  EXPECT_EQ(sum.weight, 0.0);
  EXPECT_EQ(sum.tokens, 5);
  ASSERT_EQ(sum.figures.size(), 2U);
  EXPECT_EQ(sum.figures[0].denominator, 3.0);
  EXPECT_EQ(sum.figures[0].value(), 0.0);
  EXPECT_EQ(sum.figures[1].value(), 1.0);
}

// ---- places ----

// The losses of single places tell which of them a sum is made of.
TEST_F(MedusaDocuments, AnchorsAreASubsetOfThePlacesThatTheSeedChooses) {
  const at::NoGradGuard no_autograd;
  give("data", medusa_texts(1, 9));
  parts.options.anchors = 1;
  MedusaObjective single = parts.make();
  std::vector<double> places;
  const auto same = [](double a, double b) { return std::abs(a - b) < 1e-5 * b; };
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const double loss = loss_of(single, {0}, seed);
    const auto known = [&](double place) { return same(place, loss); };
    if (std::none_of(places.begin(), places.end(), known)) places.push_back(loss);
  }
  ASSERT_EQ(places.size(), 7U);

  parts.options.anchors = 2;
  MedusaObjective two = parts.make();
  std::set<std::pair<std::size_t, std::size_t>> chosen;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const LossSum sum = two.loss(Examples{0}, seed);
    EXPECT_EQ(sum.figures.at(0).denominator, 2.0);
    const double loss = sum.loss.item<double>();
    EXPECT_EQ(loss, loss_of(two, {0}, seed));
    int pairs = 0;
    for (std::size_t a = 0; a < places.size(); ++a) {
      for (std::size_t b = a + 1; b < places.size(); ++b) {
        if (!same(places[a] + places[b], loss)) continue;
        ++pairs;
        chosen.insert({a, b});
      }
    }
    EXPECT_EQ(pairs, 1) << seed;
  }
  EXPECT_GT(chosen.size(), 8U);

  parts.options.anchors = 7;
  MedusaObjective all = parts.make();
  const double every = std::accumulate(places.begin(), places.end(), 0.0);
  EXPECT_NEAR(loss_of(all, {0}, 1), every, 1e-5 * every);
  EXPECT_EQ(loss_of(all, {0}, 1), loss_of(all, {0}, 2));
}

TEST_F(MedusaDocuments, OrderAndMicroBatchesDoNotChangeTheSum) {
  give("data", medusa_texts(4, 20));
  for (const std::int64_t anchors : {3, 1000}) {
    parts.options.anchors = anchors;
    MedusaObjective objective = parts.make();
    const double sum = loss_of(objective, {0, 1, 2, 3}, 5);
    EXPECT_EQ(sum, loss_of(objective, {0, 1, 2, 3}, 5));
    EXPECT_NEAR(sum, loss_of(objective, {2, 0, 3, 1}, 5), 1e-5 * sum);
    EXPECT_NEAR(sum, loss_of(objective, {1, 3}, 5) + loss_of(objective, {2, 0}, 5), 1e-5 * sum);
    double one_by_one = 0.0;
    for (const std::size_t i : {3, 1, 0, 2}) one_by_one += loss_of(objective, {i}, 5);
    EXPECT_NEAR(sum, one_by_one, 1e-5 * sum);
  }
}

// ---- weights ----

TEST_F(MedusaDocuments, MatricesThatMultiplyStatesDecayAndNothingElse) {
  give("data", medusa_texts(1, 9));
  const std::set<std::string> decaying = {"fc.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight",
                                          "mlp.down_proj.weight", "heads.weight"};
  const std::vector<Parameter> parameters = parts.make().parameters();
  const std::vector<ModelWeight> all = weights(*parts.model);
  ASSERT_EQ(parameters.size(), all.size());
  std::size_t found = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Parameter& p = parameters[i];
    EXPECT_EQ(p.name, all[i].name);
    EXPECT_EQ(p.decay, decaying.contains(p.name)) << p.name;
    EXPECT_TRUE(p.value.is_leaf() && p.value.requires_grad()) << p.name;
    EXPECT_EQ(p.value.const_data_ptr(), all[i].tensor->const_data_ptr()) << p.name;
    EXPECT_EQ(p.rate, 1.0);
    found += decaying.count(p.name);
  }
  EXPECT_EQ(found, decaying.size());
  EXPECT_FALSE(parts.model->embedding.requires_grad());
}

// In 4 bits the loss is that of the rounded heads, and its gradients by the rounded weights reach
// those that they were made of.
TEST_F(MedusaDocuments, FourBitsTrainWhatPassesCompute) {
  parts.target = testing::tiny_target("qwen3");
  give("data", medusa_texts(2, 12, 160));
  parts.model = heads_for(*parts.target);
  parts.model->config.weight_bits = 4;
  ASSERT_TRUE(parts.model->config.takes_four_bits());
  MedusaParts reference = parts, unrounded = parts;
  reference.model = copy_of(rounded_to_four_bits(*parts.model));
  unrounded.model = copy_of(*parts.model);
  reference.model->config.weight_bits = unrounded.model->config.weight_bits = 0;
  MedusaObjective learns = parts.make(), other = reference.make();
  const auto parameters = learns.parameters(), others = other.parameters();
  const LossSum sum = learns.loss(Examples{0, 1}, 1);
  const double loss = sum.loss.item<double>();
  testing::expect_same_gradients(sum, parameters, other.loss(Examples{0, 1}, 1), others);
  const double exact = unrounded.make().loss(Examples{0, 1}, 1).loss.item<double>();
  EXPECT_GT(std::abs(exact - loss), 1e-4 * exact);
}

TEST_F(MedusaDocuments, SavesTheValuesThatItIsGiven) {
  give("data", medusa_texts(1, 9));
  parts.model = heads_for(*parts.target, at::arange(3, 176, 2, at::kLong));
  MedusaObjective objective = parts.make();
  std::vector<at::Tensor> values;
  for (const Parameter& p : objective.parameters()) values.push_back(p.value.detach() * 2.0);
  objective.save(folder.path() / "heads", values, {{"step", 7}});
  Medusa saved = load_medusa(folder.path() / "heads", *parts.target);
  const std::vector<ModelWeight> all = weights(saved);
  ASSERT_EQ(all.size(), values.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(at::equal(*all[i].tensor, values[i].to(at::kBFloat16).to(at::kFloat)))
        << all[i].name;
  }
  EXPECT_TRUE(at::equal(saved.draft_to_target, parts.model->draft_to_target));
}

// ---- the state store ----

TEST_F(MedusaDocuments, AStateStoreChangesTheLossByItsRoundingAndEpochsByNothing) {
  give("data", medusa_texts(4, 20));
  const Examples all = {0, 1, 2, 3};
  MedusaObjective computed = parts.make();
  const double plain = loss_of(computed, all, 1);
  parts.options.state_store = (folder.path() / "states").string();
  MedusaObjective filling = parts.make();
  const double stored = loss_of(filling, all, 1);
  EXPECT_NE(stored, plain);
  EXPECT_NEAR(stored, plain, 0.002 * plain);
  EXPECT_EQ(loss_of(filling, all, 1), stored);
  MedusaObjective again = parts.make();
  loss_of(again, {2}, 9);
  EXPECT_EQ(loss_of(again, all, 1), stored);
}

TEST_F(MedusaDocuments, AStateStoreOfAnotherTargetOrOtherLayersIsNotRead) {
  give("data", medusa_texts(2, 20));
  MedusaParts swapped = parts, other = parts;
  swapped.model = copy_of(*parts.model);
  swapped.model->config.feature_layers = {1, 0};
  auto target = std::make_shared<DecoderLm>(*parts.target);
  target->layers[1].output.weight = target->layers[1].output.weight.clone();
  target->layers[1].output.weight.select(0, 3).add_(0.5);
  other.target = target;
  other.target_hash = "b";
  int fresh = 0;
  std::set<double> losses;
  for (MedusaParts* p : {&parts, &swapped, &parts, &other}) {
    p->options.state_store = (folder.path() / "shared").string();
    const double shared = p->make().loss(Examples{0, 1}, 1).loss.item<double>();
    p->options.state_store = (folder.path() / ("fresh" + std::to_string(fresh++))).string();
    EXPECT_EQ(shared, p->make().loss(Examples{0, 1}, 1).loss.item<double>()) << fresh;
    losses.insert(shared);
  }
  EXPECT_EQ(losses.size(), 3U);
}

// ---- what a run must keep ----

TEST_F(MedusaDocuments, WhatARunMustKeepIsInTheFingerprint) {
  give("data", medusa_texts(4, 20));
  std::set<std::string> seen = {parts.make().fingerprint()};
  EXPECT_EQ(seen.begin()->rfind("medusa ", 0), 0U);  // the method: expect_own_folder
  EXPECT_TRUE(seen.contains(parts.make().fingerprint()));
  const auto differs = [&](const std::function<void(MedusaParts&)>& change) {
    MedusaParts other = parts;
    other.model = copy_of(*parts.model);
    change(other);
    const std::string text = other.make().fingerprint();
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_EQ(text.find('\n'), text.npos);
  };
  differs([](MedusaParts& p) { p.options.gamma = 5.0; });
  differs([](MedusaParts& p) { p.options.distill = 0.25; });
  differs([](MedusaParts& p) { p.options.anchors = 4; });
  differs([](MedusaParts& p) { p.options.length = 21; });
  differs([&](MedusaParts& p) { p.options.state_store = (folder.path() / "states").string(); });
  differs([](MedusaParts& p) { p.data.push_back(p.data[0]); });
  differs([&](MedusaParts& p) {  // one token in place of another
    auto documents = medusa_texts(4, 20);
    documents[3].tokens[15] ^= 1;
    p.data = {shards_in(folder.path() / "token", documents)};
  });
  differs([&](MedusaParts& p) {
    auto documents = medusa_texts(4, 20);
    documents[2].prompt = 2;
    p.data = {shards_in(folder.path() / "prompt", documents)};
  });
  differs([](MedusaParts& p) { p.target_hash = "b"; });
  differs([](MedusaParts& p) {
    const std::string tiny = kTiny + "llama_plain";
    p.target = std::make_shared<const DecoderLm>(
        load_decoder(load_hf_config(tiny), load_safetensors(tiny), tiny, Precision::kBF16));
  });
  differs([](MedusaParts& p) { p.model->config.heads = 2; });
  differs([](MedusaParts& p) { p.model->config.width = 64; });
  differs([](MedusaParts& p) { p.model->config.intermediate = 32; });
  differs([](MedusaParts& p) { p.model->config.feature_layers = {1, 0}; });
  differs([](MedusaParts& p) { p.model->config.feature_layers = {1}; });
  differs([](MedusaParts& p) { p.model->config.markov_rank = 0; });
  differs([](MedusaParts& p) { p.model->config.weight_bits = 4; });
  for (const int first : {0, 1}) {  // the same number of draft tokens, but others
    differs([&](MedusaParts& p) {
      p.model = heads_for(*p.target, at::arange(first, 176, 20, at::kLong));
    });
  }
}

}  // namespace
}  // namespace forerun
