// Passes in int8 and in 4 bits against the float32 ones, and independence of a text's output from
// its pass; what passes know of tokens.
#include "forerun/models/medusa/medusa_passes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forerun/models/medusa/four_bit_medusa.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/tensor/cpu/int8_matrix.h"
#include "forerun/tensor/four_bit_weights.h"
#include "tests/support/random_medusa.h"

namespace forerun {
namespace {

struct MedusaKind {
  const char* name;
  bool reduced = false, markov = false;
  std::int64_t bits = 0;  // of weights
};

Medusa medusa_of(const MedusaKind& kind) {
  MedusaConfig c = small_medusa();
  c.hidden = 64;
  c.width = 96;
  c.intermediate = 192;
  c.heads = 4;
  c.vocab = 90;
  c.draft_vocab = kind.reduced ? 48 : 90;
  c.markov_rank = kind.markov ? 32 : 0;
  c.weight_bits = kind.bits;
  Medusa m = noisy_medusa(c, at::kFloat, 5);
  if (kind.reduced) m.draft_to_target = at::cat({at::arange(2, 32), at::arange(60, 78)});
  return m;
}

double cosine_of(const at::Tensor& a, const at::Tensor& b) {
  return ((a * b).sum() / (a.norm() * b.norm())).item<double>();
}

constexpr std::int64_t kMedusaTexts = 5;

class MedusaPrecisions : public ::testing::TestWithParam<MedusaKind> {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  }
  MedusaInput input(std::int64_t text) const {
    return {.features = features.const_data_ptr<float>() + text * features.size(1),
            .newest = static_cast<Token>((17 * text + 89) % 90)};
  }
  std::vector<MedusaInput> inputs(const std::vector<std::int64_t>& texts) const {
    std::vector<MedusaInput> out;
    for (const std::int64_t text : texts) out.push_back(input(text));
    return out;
  }
  at::Tensor forward(const MedusaPasses& passes, const std::vector<std::int64_t>& texts) const {
    return passes.forward(inputs(texts));
  }

  const Medusa model = medusa_of(GetParam());
  const at::Tensor features = random_features(model.config, kMedusaTexts, at::kFloat, 6);
  const std::vector<std::int64_t> all = {0, 1, 2, 3, 4};
};

TEST_P(MedusaPrecisions, Int8IsNearTheTensors) {
  const auto exact = MedusaPasses::make(model, Precision::kF32),
             fast = MedusaPasses::make(model, Precision::kInt8);
  const at::Tensor want = forward(*exact, all), have = forward(*fast, all);
  ASSERT_EQ(have.sizes(), (at::IntArrayRef{kMedusaTexts * 4, model.config.draft_vocab}));
  ASSERT_EQ(want.sizes(), have.sizes());
  EXPECT_EQ(have.scalar_type(), at::kFloat);
  EXPECT_TRUE(have.is_contiguous());
  for (std::int64_t row = 0; row < have.size(0); ++row) {
    EXPECT_GT(cosine_of(have[row], want[row]), 0.995) << row;
    const at::Tensor other = want[(row + 1) % have.size(0)];
    EXPECT_LT(cosine_of(have[row], other), 0.9) << row;  // another head's, or text's
  }
  EXPECT_FALSE(at::equal(have, want)) << "the tensors were used";
}

TEST_P(MedusaPrecisions, FourBitsAreReadWhereTheyAreLearned) {
  Medusa other = model;
  other.config.weight_bits = 4 - model.config.weight_bits;
  const auto bytes = [](const Medusa& m) {
    return static_cast<double>(MedusaPasses::make(m, Precision::kInt8)->weight_bytes());
  };
  const bool is_four = model.config.weight_bits == 4;
  const double four = bytes(is_four ? model : other), eight = bytes(is_four ? other : model);
  EXPECT_LT(four, 0.65 * eight);  // 5 bits a weight with the groups' scales
  EXPECT_GT(four, 0.60 * eight);
}

// Float passes of weights that were trained for 4 bits have these rounded.
TEST_P(MedusaPrecisions, FourBitPassesAreThoseOfRoundedWeights) {
  if (model.config.weight_bits != 4) GTEST_SKIP();
  Medusa rounded = rounded_to_four_bits(model), plain = model;
  rounded.config.weight_bits = plain.config.weight_bits = 0;
  const at::Tensor want = forward(*MedusaPasses::make(rounded, Precision::kF32), all),
                   unrounded = forward(*MedusaPasses::make(plain, Precision::kF32), all);
  EXPECT_TRUE(at::equal(forward(*MedusaPasses::make(model, Precision::kF32), all), want));
  const at::Tensor four = forward(*MedusaPasses::make(model, Precision::kInt8), all);
  EXPECT_GT(cosine_of(four, want), 0.999);
  EXPECT_LT(cosine_of(four, unrounded), 0.998);
}

// Weights that a scale of float16 cannot reach stay in 8 bits, all of them.
TEST_P(MedusaPrecisions, TooLargeWeightsAreNotPackedInFourBits) {
  if (model.config.weight_bits != 4) GTEST_SKIP();
  Medusa large = model;
  large.gate.weight = large.gate.weight * 1e8;
  Medusa eight = large;
  eight.config.weight_bits = 0;
  const auto have = MedusaPasses::make(large, Precision::kInt8),
             want = MedusaPasses::make(eight, Precision::kInt8);
  EXPECT_EQ(have->weight_bytes(), want->weight_bytes());
  EXPECT_TRUE(at::equal(forward(*have, all), forward(*want, all)));
  const auto exact = MedusaPasses::make(large, Precision::kF32);
  EXPECT_TRUE(forward(*exact, all).isfinite().all().item<bool>());
  EXPECT_TRUE(
      at::equal(forward(*exact, all), forward(*MedusaPasses::make(eight, Precision::kF32), all)));
}

// Alone, or with other texts in any order: bit for bit the same.
TEST_P(MedusaPrecisions, Int8DoesNotDependOnCompany) {
  const auto net = MedusaPasses::make(model, Precision::kInt8);
  std::vector<at::Tensor> alone, kept;
  for (const std::int64_t text : all) {
    alone.push_back(forward(*net, {text}));
    kept.push_back(alone.back().clone());
  }
  EXPECT_FALSE(at::equal(alone[0], alone[1]));
  for (const std::vector<std::int64_t>& texts : std::vector<std::vector<std::int64_t>>{
           {0, 1}, {4, 0, 2}, {3, 3, 1, 2}, {4, 3, 2, 1, 0}, {2}}) {
    const at::Tensor have = forward(*net, texts);
    ASSERT_EQ(have.size(0), static_cast<std::int64_t>(texts.size()) * 4);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_TRUE(at::equal(have.narrow(0, static_cast<std::int64_t>(i) * 4, 4),
                            kept[static_cast<std::size_t>(texts[i])]))
          << "text " << texts[i] << " of " << texts.size();
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(at::equal(alone[i], kept[i])) << "a later pass wrote over an earlier one's result";
  }
}

TEST_P(MedusaPrecisions, Int8DoesNotDependOnThreads) {
  const int before = at::get_num_threads();
  const auto net = MedusaPasses::make(model, Precision::kInt8);
  at::set_num_threads(1);
  const at::Tensor one = forward(*net, {2}), want = forward(*net, all);
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (int again = 0; again < 5; ++again) {
      EXPECT_TRUE(at::equal(forward(*net, {2}), one)) << threads << " threads";
      EXPECT_TRUE(at::equal(forward(*net, all), want)) << threads << " threads";
    }
  }
  at::set_num_threads(before);
}

// A text whose states are not numbers has no logits; those of the others stay what they are.
TEST_P(MedusaPrecisions, StatesThatAreNoNumbersStayTheirTexts) {
  std::vector<float> broken(input(1).features, input(1).features + features.size(1));
  broken[70] = std::numeric_limits<float>::quiet_NaN();
  for (const Precision precision : {Precision::kF32, Precision::kInt8}) {
    const auto net = MedusaPasses::make(model, precision);
    std::vector<MedusaInput> three = inputs({0, 1, 2});
    const at::Tensor want = net->forward(three);
    three[1].features = broken.data();
    const at::Tensor have = net->forward(three);
    EXPECT_TRUE(have.narrow(0, 4, 4).isnan().all().item<bool>());
    EXPECT_TRUE(at::equal(have.narrow(0, 0, 4), want.narrow(0, 0, 4)));
    EXPECT_TRUE(at::equal(have.narrow(0, 8, 4), want.narrow(0, 8, 4)));
  }
}

// What the token before adds to some draft ids; w2 as files have it, and with more digits.
TEST_P(MedusaPrecisions, TheTokenBeforeChangesLogits) {
  for (const bool as_files : {false, true}) {
    Medusa m = model;
    if (as_files && m.markov_w2.defined()) {
      m.markov_w2 = m.markov_w2.to(at::kBFloat16).to(at::kFloat);
    }
    for (const Precision precision : {Precision::kF32, Precision::kInt8}) {
      const auto net = MedusaPasses::make(m, precision);
      EXPECT_EQ(net->conditioned(), GetParam().markov);
      for (const Token previous : {0, 11, 89}) {
        const std::vector<std::int32_t> ids = {7, 2, 47, 0, 7};
        std::vector<float> logits = {0.5F, -1.0F, 0.0F, 2.0F, 0.5F};
        const std::vector<float> before = logits;
        net->condition(previous, ids, logits);
        if (!GetParam().markov) {
          EXPECT_EQ(logits, before);
          continue;
        }
        const at::Tensor bias =
            markov_bias(m, at::tensor({std::int64_t{previous}}, at::kLong)).view(-1);
        ASSERT_EQ(bias.numel(), m.config.draft_vocab);
        for (std::size_t i = 0; i < ids.size(); ++i) {
          EXPECT_NEAR(logits[i] - before[i], bias[ids[i]].item<float>(), 1e-5) << previous;
        }
        EXPECT_NE(logits[0], before[0]);
      }
    }
  }
}

TEST_P(MedusaPrecisions, DraftIdsAreTokensOfTheTarget) {
  for (const Precision precision : {Precision::kF32, Precision::kInt8}) {
    const auto net = MedusaPasses::make(model, precision);
    for (std::int64_t i = 0; i < model.config.draft_vocab; ++i) {
      const std::int64_t want = !GetParam().reduced ? i : i < 30 ? i + 2 : i + 30;
      EXPECT_EQ(net->token(i), want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Medusa, MedusaPrecisions,
                         ::testing::Values(MedusaKind{"Whole"}, MedusaKind{"Reduced", true, false},
                                           MedusaKind{"Markov", false, true},
                                           MedusaKind{"ReducedMarkov", true, true},
                                           MedusaKind{"FourBits", false, false, 4},
                                           MedusaKind{"FourBitsMarkov", true, true, 4}),
                         [](const auto& kind) { return std::string(kind.param.name); });

// Products of bytes take so many inputs at most: other heads are computed in float32.
TEST(MedusaPasses, WiderRowsThanTheEngineTakesAreComputedInFloats) {
  MedusaConfig small = small_medusa();
  small.hidden = small.width = small.intermediate = 16;
  small.heads = 1;
  small.vocab = small.draft_vocab = 8;
  MedusaConfig wide_inputs = small, wide_mlp = small;
  wide_inputs.hidden = Int8Matrix::kMostInputs / 4 + 1;
  wide_mlp.intermediate = Int8Matrix::kMostInputs + 1;
  for (const MedusaConfig& c : {wide_inputs, wide_mlp}) {
    const Medusa m = noisy_medusa(c, at::kFloat, 7);
    const at::Tensor x = random_features(c, 1, at::kFloat, 8);
    const MedusaInput input{.features = x.const_data_ptr<float>(), .newest = 7};
    const auto wide = MedusaPasses::make(m, Precision::kInt8),
               floats = MedusaPasses::make(m, Precision::kF32);
    EXPECT_TRUE(at::equal(wide->forward({&input, 1}), floats->forward({&input, 1})));
    EXPECT_EQ(wide->weight_bytes(), floats->weight_bytes());
  }
}

// ---- which weights are rounded ----

Medusa medusa_of_four_bits() { return medusa_of({"", true, true, 4}); }

TEST(FourBitMedusa, RoundsTheMatricesThatAPassReadsWhole) {
  Medusa model = medusa_of_four_bits(), out = rounded_to_four_bits(model);
  const auto before = weights(model), after = weights(out);
  ASSERT_EQ(before.size(), after.size());
  int rounded = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor &was = *before[i].tensor, &is = *after[i].tensor;
    if (was.dim() == 1 || before[i].name.starts_with("markov_head.")) {
      EXPECT_TRUE(at::equal(is, was)) << before[i].name;
      continue;
    }
    ++rounded;
    EXPECT_FALSE(at::equal(is, was)) << before[i].name;
    const at::Tensor stored = four_bit_weights(was)->unpacked();
    EXPECT_LT((is - stored).abs().max().item<double>(), 1e-6) << before[i].name;
  }
  EXPECT_EQ(rounded, 6);
  EXPECT_TRUE(at::equal(out.embedding, model.embedding));
}

TEST(FourBitMedusa, GradientsPassThroughTheRounding) {
  Medusa model = medusa_of_four_bits();
  std::vector<at::Tensor> leaves;
  for (const ModelWeight& w : weights(model)) leaves.push_back(w.tensor->requires_grad_());
  Medusa out = rounded_to_four_bits(model);
  at::Tensor sum = at::zeros({});
  const auto factor = [](const at::Tensor& w) { return at::cos(at::arange(w.numel())).view_as(w); };
  for (const ModelWeight& w : weights(out)) sum = sum + (*w.tensor * factor(*w.tensor)).sum();
  sum.backward();
  for (const at::Tensor& leaf : leaves) {
    ASSERT_TRUE(leaf.grad().defined());
    EXPECT_TRUE(at::equal(leaf.grad(), factor(leaf)));
  }
}

TEST(FourBitMedusa, KnowsWeightsThatFloat16DoesNotReach) {
  Medusa model = medusa_of_four_bits();
  EXPECT_TRUE(fits_four_bits(model));
  model.head = model.head.clone();
  model.head[3][4] = -1e5;
  EXPECT_FALSE(fits_four_bits(model));
}

}  // namespace
}  // namespace forerun
