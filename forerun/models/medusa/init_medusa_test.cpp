// Heads to train begin with the closest product of their width to the target's.
#include "forerun/models/medusa/init_medusa.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/random_medusa.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

DecoderLm begun_from(const std::string& name) {
  const std::string folder = kTiny + name;
  return load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kF32);
}

MedusaConfig begun_config(const DecoderLm& target, std::int64_t width) {
  MedusaConfig c = small_medusa();
  c.hidden = target.config.hidden;
  c.vocab = c.draft_vocab = target.config.vocab;
  c.target_layers = target.config.layers;
  c.feature_layers = {0, 1};
  c.width = width;
  c.markov_rank = 5;
  return c;
}

// [vocab, hidden]: what the target multiplies a normed state with. The norm makes sqrt(hidden) of
// the one channel that a row of the identity has.
at::Tensor output_rows(const DecoderLm& target) {
  const auto hidden = static_cast<double>(target.config.hidden);
  const at::Tensor states = at::eye(target.config.hidden) * std::sqrt(hidden);
  return head_logits(target, target.final_norm(states)).t() / std::sqrt(hidden);
}

// A product does not change if its rows and the states are rotated: their inner products tell.
double products_apart(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide_a = a.to(at::kDouble), wide_b = b.to(at::kDouble);
  const at::Tensor want = at::matmul(wide_b, wide_b.t());
  return distance(at::matmul(wide_a, wide_a.t()), want) / want.abs().max().item<double>();
}

// The closest matrix of this rank.
at::Tensor of_rank(const at::Tensor& rows, std::int64_t rank) {
  const auto [u, s, v] = at::linalg_svd(rows.to(at::kDouble), /*full_matrices=*/false);
  return at::matmul(u.narrow(1, 0, rank) * s.narrow(0, 0, rank), v.narrow(0, 0, rank));
}

TEST(InitMedusa, TheProductOfTheTargetsWidthIsTheTargets) {
  for (const char* name : {"llama_plain", "qwen3", "gemma3"}) {
    const DecoderLm target = begun_from(name);
    const Medusa m = medusa_from_target(begun_config(target, target.config.hidden), target, 1, {});
    EXPECT_EQ(m.head.sizes(), (at::IntArrayRef{target.config.vocab, target.config.hidden}));
    EXPECT_LT(products_apart(m.head, output_rows(target)), 1e-4) << name;
    EXPECT_TRUE(at::equal(m.embedding, target.embedding)) << name;
  }
}

TEST(InitMedusa, ANarrowerProductIsTheClosestOfItsRank) {
  for (const char* name : {"llama_plain", "qwen3", "gemma3"}) {
    const DecoderLm target = begun_from(name);
    const at::Tensor rows = output_rows(target);
    const Medusa m = medusa_from_target(begun_config(target, 16), target, 1, {});
    EXPECT_EQ(m.head.size(1), 16);
    EXPECT_LT(products_apart(m.head, of_rank(rows, 16)), 1e-4) << name;
    EXPECT_GT(products_apart(m.head, rows), 1e-2) << name;
  }
}

// The rest of a wider one is free: zero at first.
TEST(InitMedusa, AWiderProductIsTheTargetsAndLearnsInAllItsWidth) {
  const DecoderLm target = begun_from("llama_plain");
  Medusa m = medusa_from_target(begun_config(target, 64), target, 1, {});
  EXPECT_EQ(m.head.size(1), 64);
  EXPECT_LT(products_apart(m.head, output_rows(target)), 1e-4);
  EXPECT_EQ(m.head.narrow(1, 48, 16).abs().max().item<double>(), 0.0);
  m.head.requires_grad_();
  const at::Tensor features = random_features(m.config, 7, at::kFloat, 5);
  const at::Tensor states = head_states(m, features, at::arange(7, at::kLong)).flatten(0, 1);
  at::log_softmax(head_logits(m, states), -1).select(1, 3).sum().backward();
  EXPECT_GT(m.head.grad().abs().sum(0).min().item<double>(), 0.0);
}

TEST(InitMedusa, AReducedVocabularyHasItsOwnClosestProduct) {
  const DecoderLm target = begun_from("llama_plain");
  const at::Tensor drafted = at::arange(5, 165, 7, at::kLong);  // fewer than channels
  const at::Tensor rows = output_rows(target).index_select(0, drafted);
  for (const std::int64_t width : {16, 32, 48}) {
    MedusaConfig c = begun_config(target, width);
    c.draft_vocab = drafted.numel();
    const Medusa m = medusa_from_target(c, target, 1, drafted);
    EXPECT_TRUE(at::equal(m.draft_to_target, drafted));
    const at::Tensor want = width < drafted.numel() ? of_rank(rows, width) : rows;
    EXPECT_LT(products_apart(m.head, want), 1e-4) << width;
    EXPECT_TRUE(at::isfinite(m.head).all().item<bool>());
  }
}

// Of every target, whatever the size of its rows.
TEST(InitMedusa, TheFirstLawsAreNearTheUniformOne) {
  for (const char* name : {"llama_plain", "qwen3", "gemma3"}) {
    const DecoderLm target = begun_from(name);
    const Medusa m = medusa_from_target(begun_config(target, 32), target, 1, {});
    const at::Tensor features = random_features(m.config, 20, at::kFloat, 5);
    const at::Tensor states = head_states(m, features, at::arange(20, at::kLong)).flatten(0, 1);
    const at::Tensor law = at::log_softmax(head_logits(m, states), -1);
    const double uniform = std::log(static_cast<double>(target.config.vocab));
    EXPECT_LT(-law.mean().item<double>(), uniform + 0.5) << name;
    EXPECT_GT(law.std(1).mean().item<double>(), 0.1) << name;
  }
}

TEST(InitMedusa, TheRestIsRandomAndOfTheSizesThatAreAskedFor) {
  const DecoderLm target = begun_from("llama_plain");
  Medusa m = medusa_from_target(begun_config(target, 96), target, 1, {});
  for (const ModelWeight& w : weights(m)) {
    EXPECT_EQ(w.tensor->sizes(), at::IntArrayRef(w.shape)) << w.name;
    EXPECT_EQ(w.tensor->scalar_type(), at::kFloat) << w.name;
    EXPECT_TRUE(w.tensor->is_contiguous()) << w.name;
    // The last norms have another size, by which the first logits are small.
    if (w.shape.size() == 1 && !w.name.starts_with("head_norms.")) {
      EXPECT_TRUE(at::equal(*w.tensor, at::ones(w.shape))) << w.name;
    }
  }
  const auto gain = [](const at::Tensor& weight) {
    return weight.std().item<double>() * std::sqrt(static_cast<double>(weight.size(1)));
  };
  EXPECT_NEAR(gain(m.fc.weight), 1.0, 0.05);
  EXPECT_NEAR(gain(m.gate.weight), 1.0, 0.05);
  EXPECT_NEAR(gain(m.up.weight), 1.0, 0.05);
  EXPECT_NEAR(gain(m.down.weight), 0.5, 0.03);
  EXPECT_NEAR(gain(m.heads.weight), 0.5, 0.03);
  EXPECT_GT(gain(m.markov_w1), 0.5);
  EXPECT_EQ(markov_bias(m, at::arange(9, at::kLong)).abs().max().item<double>(), 0.0);
}

TEST(InitMedusa, TheSeedDecides) {
  const DecoderLm target = begun_from("llama_plain");
  const MedusaConfig c = begun_config(target, 16);
  Medusa a = medusa_from_target(c, target, 1, {}), same = medusa_from_target(c, target, 1, {}),
         other = medusa_from_target(c, target, 2, {});
  const auto all = weights(a), again = weights(same), others = weights(other);
  int random = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(at::equal(*all[i].tensor, *again[i].tensor)) << all[i].name;
    random += at::equal(*all[i].tensor, *others[i].tensor) ? 0 : 1;
  }
  EXPECT_EQ(random, 6);  // fc, three of the MLP, the heads, the Markov head's tokens before
}

TEST(InitMedusa, WithoutAMarkovHeadHasNone) {
  const DecoderLm target = begun_from("llama_plain");
  MedusaConfig c = begun_config(target, 16);
  c.markov_rank = 0;
  const Medusa m = medusa_from_target(c, target, 1, {});
  EXPECT_FALSE(m.markov_w1.defined());
  EXPECT_FALSE(m.markov_w2.defined());
}

TEST(InitMedusa, SizesThatDoNotMatchAreRefused) {
  const DecoderLm target = begun_from("llama_plain");
  const at::Tensor drafted = at::tensor({2, 9, 100}, at::kLong);
  const auto refuses = [&](const at::Tensor& tokens,
                           const std::function<void(MedusaConfig&)>& change) {
    MedusaConfig c = begun_config(target, 16);
    if (tokens.defined()) c.draft_vocab = tokens.numel();
    EXPECT_NO_THROW(medusa_from_target(c, target, 1, tokens));
    change(c);
    EXPECT_THROW(medusa_from_target(c, target, 1, tokens), std::invalid_argument);
  };
  refuses({}, [](MedusaConfig& c) { c.hidden = 32; });
  refuses({}, [](MedusaConfig& c) { c.vocab = c.draft_vocab = 177; });
  refuses({}, [](MedusaConfig& c) { c.target_layers = 4; });
  refuses({}, [](MedusaConfig& c) { c.draft_vocab = 3; });
  refuses(drafted, [](MedusaConfig& c) { c.draft_vocab = 4; });
  refuses(drafted, [](MedusaConfig& c) { c.draft_vocab = 176; });
}

}  // namespace
}  // namespace forerun
