// Parity with the published implementations, dflash 0.1.0 and speculators 0.9.0, on small random
// checkpoints written by them (tests/data/dflash, made by tools/make_dflash_values.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "forerun/models/dflash/dflash.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/dflash/dflash_passes.h"
#include "tests/support/dflash_values.h"

namespace forerun {
namespace {

constexpr double kTolerance = 2e-5;

// The random kernels of a convolution enlarge the rounding of float32; float64 is compared below.
double tolerance_of(const DFlash& m) { return m.config.conv_taps > 0 ? 1e-4 : kTolerance; }

std::vector<float> values_of(const at::Tensor& row) {
  const at::Tensor own = row.contiguous();
  return {own.const_data_ptr<float>(), own.const_data_ptr<float>() + own.numel()};
}

// ---- z-lab checkpoints: decoding rounds ----

class ZLab : public ::testing::TestWithParam<std::string> {
 protected:
  DFlash model() const {
    return load_dflash(kDFlash + GetParam(), dflash_target(GetParam() == "zlab_hybrid" ? 7 : 9));
  }
  Safetensors expected() const { return dflash_expected(GetParam()); }
};

TEST_P(ZLab, FeatureLayersAreTheirs) {
  EXPECT_EQ(model().config.feature_layers, numbers_of(expected(), "feature_layers"));
}

TEST_P(ZLab, EveryRoundMatchesWithAndWithoutCachedContext) {
  const DFlash m = model();
  const Safetensors e = expected();
  const at::Tensor features = tensor_of(e, "features");
  const auto starts = numbers_of(e, "starts"), anchors = numbers_of(e, "anchors");
  DFlashCache cache(m);
  for (std::size_t r = 0; r < starts.size(); ++r) {
    cache.append(m, features.narrow(0, cache.length(), starts[r] - cache.length()));
    const auto block = masked_block(m, static_cast<Token>(anchors[r]));
    const at::Tensor cached = block_logits(m, block_hidden(m, cache, block, starts[r]));
    EXPECT_LT(distance(cached, tensor_of(e, "logits_" + std::to_string(r))), tolerance_of(m)) << r;
    DFlashCache fresh(m);
    fresh.append(m, features.narrow(0, 0, starts[r]));
    const at::Tensor whole = block_logits(m, block_hidden(m, fresh, block, starts[r]));
    EXPECT_LT(distance(whole, tensor_of(e, "whole_" + std::to_string(r))), tolerance_of(m)) << r;
  }
}

TEST_P(ZLab, RejectedRowsLeaveNoTrace) {
  const DFlash m = model();
  const Safetensors e = expected();
  const at::Tensor features = tensor_of(e, "features");
  const auto starts = numbers_of(e, "starts"), anchors = numbers_of(e, "anchors");
  DFlashCache cache(m);
  for (std::size_t r = 0; r < starts.size(); ++r) {
    const std::int64_t kept = cache.length();
    cache.append(m, features.flip(0).narrow(0, 0, 5));  // rows of a rejected draft
    cache.truncate(kept);
    cache.append(m, features.narrow(0, kept, starts[r] - kept));
    const auto block = masked_block(m, static_cast<Token>(anchors[r]));
    const at::Tensor logits = block_logits(m, block_hidden(m, cache, block, starts[r]));
    EXPECT_LT(distance(logits, tensor_of(e, "logits_" + std::to_string(r))), tolerance_of(m)) << r;
  }
}

TEST_P(ZLab, ATrainingPassMatchesTheirDecoding) {
  const DFlash m = model();
  const Safetensors e = expected();
  const BlockBatch batch{.features = tensor_of(e, "features"),
                         .lengths = {tensor_of(e, "features").size(0) + 1},
                         .anchors = {numbers_of(e, "starts")},
                         .anchor_tokens = at::tensor(numbers_of(e, "anchors"), at::kLong)};
  BlockBatch longer = batch;  // one more row, so that the last start lies inside
  longer.features = at::cat({batch.features, at::ones_like(batch.features.narrow(0, 0, 1))});
  const at::Tensor logits = block_logits(m, training_blocks(m, longer));
  for (std::int64_t r = 0; r < logits.size(0); ++r) {
    EXPECT_LT(distance(logits[r], tensor_of(e, "logits_" + std::to_string(r))), tolerance_of(m))
        << r;
  }
}

INSTANTIATE_TEST_SUITE_P(DFlash, ZLab,
                         ::testing::Values("zlab_full", "zlab_scaled", "zlab_hybrid",
                                           "zlab_both_ways", "zlab_dflash2"),
                         [](const auto& name) { return name.param; });

// ---- speculators checkpoints: their training forward ----

class Speculators : public ::testing::TestWithParam<std::string> {
 protected:
  DFlash model() const { return load_dflash(kDFlash + GetParam(), dflash_target()); }
  Safetensors expected() const { return dflash_expected(GetParam()); }

  // Logits as theirs: with the Markov head if there is one.
  static at::Tensor logits_of(const DFlash& m, const Safetensors& e, const at::Tensor& hidden) {
    at::Tensor out = block_logits(m, hidden);
    if (m.config.markov_rank == 0) return out;
    const at::Tensor previous = at::tensor(numbers_of(e, "previous"), at::kLong);
    return out + markov_bias(m, hidden.flatten(0, 1), previous).view(out.sizes());
  }
};

TEST_P(Speculators, ATrainingPassMatchesTheirs) {
  const DFlash m = model();
  const Safetensors e = expected();
  const at::Tensor hidden = training_blocks(m, batch_of(e));
  EXPECT_LT(distance(hidden, tensor_of(e, "hidden")), tolerance_of(m));
  EXPECT_LT(distance(logits_of(m, e, hidden), tensor_of(e, "logits")), tolerance_of(m));
}

TEST_P(Speculators, DecodingMatchesTheirs) {
  const DFlash m = model();
  const Safetensors e = expected();
  const BlockBatch batch = batch_of(e);
  const at::Tensor theirs = tensor_of(e, "hidden");
  std::int64_t row = 0, block = 0;
  for (std::size_t d = 0; d < batch.lengths.size(); row += batch.lengths[d], ++d) {
    for (const std::int64_t p : batch.anchors[d]) {
      DFlashCache cache(m);
      cache.append(m, batch.features.narrow(0, row, p));
      const auto anchor = static_cast<Token>(batch.anchor_tokens[block].item<std::int64_t>());
      EXPECT_LT(distance(block_hidden(m, cache, masked_block(m, anchor), p), theirs[block]),
                tolerance_of(m))
          << block;
      ++block;
    }
  }
}

TEST_P(Speculators, TheConfidenceHeadMatchesTheirs) {
  const DFlash m = model();
  const Safetensors e = expected();
  if (!m.config.confidence) return;
  const at::Tensor hidden = tensor_of(e, "hidden").flatten(0, 1);
  const at::Tensor previous = at::tensor(numbers_of(e, "previous"), at::kLong);
  EXPECT_LT(distance(confidence(m, hidden, previous), tensor_of(e, "confidence").flatten()),
            kTolerance);
}

TEST_P(Speculators, ConfigsSayWhatTheSlotsPredict) {
  const DFlashConfig c = model().config;
  EXPECT_EQ(c.feature_layers, (std::vector<std::int64_t>{1, 4, 6}));  // theirs: 2, 5, 7
  const bool next = GetParam() == "dspark" || GetParam() == "dspark_gated";
  EXPECT_EQ(c.predicts_next, next);
  EXPECT_EQ(c.drafts(), next ? 6 : 5);
  EXPECT_EQ(c.markov_gated, GetParam() == "dspark_gated");
  const bool reduced = GetParam().starts_with("dspark") || GetParam() == "speculators_reduced";
  EXPECT_EQ(c.draft_vocab, reduced ? 24 : 64);
  EXPECT_EQ(model().draft_to_target.defined(), reduced);
}

TEST(DFlash2, TheSelectorsScoresMatchSpeculators) {
  const DFlash m = load_dflash(kDFlash + "speculators_dflash2", dflash_target());
  const Safetensors e = dflash_expected("speculators_dflash2");
  EXPECT_EQ(m.config.conv_taps, 3);
  EXPECT_EQ(m.config.attention, (std::vector<LayerAttention>{{.window = 64}, {}}));
  const at::Tensor hidden = tensor_of(e, "hidden").flatten(0, 1);
  const at::Tensor candidates =
      at::tensor(numbers_of(e, "candidates"), at::kLong).view({hidden.size(0), 9});
  const at::Tensor previous = at::tensor(numbers_of(e, "previous"), at::kLong);
  const at::Tensor scores = block_logits(m, hidden).gather(1, candidates) +
                            transition_scores(m, hidden, previous, candidates);
  EXPECT_LT(distance(scores, tensor_of(e, "scores").flatten(0, 1)), tolerance_of(m));
  // And the same candidates, by the network that decodes.
  const auto passes = DFlashPasses::make(m, Precision::kF32);
  const at::Tensor logits = block_logits(m, hidden);
  for (std::int64_t row = 0; row < hidden.size(0); ++row) {
    const std::vector<std::int32_t> ours = passes->candidates(values_of(logits[row]));
    const at::Tensor theirs = std::get<0>(candidates[row].sort());
    EXPECT_TRUE(at::equal(at::tensor(ours, at::kInt).to(at::kLong), theirs)) << row;
  }
}

// Draft after draft: the law of every slot given the draft before it, as z-lab's decoding has it.
TEST(DFlash2, ARoundDraftsByTheLawsOfZLab) {
  const DFlash m = load_dflash(kDFlash + "zlab_dflash2", dflash_target());
  const Safetensors e = dflash_expected("zlab_dflash2");
  const auto passes = DFlashPasses::make(m, Precision::kF32);
  const at::Tensor features = tensor_of(e, "features");
  const auto starts = numbers_of(e, "starts"), anchors = numbers_of(e, "anchors");
  const auto context = passes->make_context();
  for (std::size_t r = 0; r < starts.size(); ++r) {
    const auto named = [&](const char* what) { return what + std::to_string(r); };
    const auto path = numbers_of(e, named("path_")), greedy = numbers_of(e, named("greedy_"));
    const auto candidates = numbers_of(e, named("candidates_"));
    const at::Tensor laws = tensor_of(e, named("laws_"));
    const std::int64_t length = context->length();
    const BlockSpan span{.context = context.get(),
                         .features = features.const_data_ptr<float>() + length * features.size(1),
                         .fresh = starts[r] - length,
                         .anchor = static_cast<Token>(anchors[r]),
                         .drafts = 5};
    const auto blocks = passes->forward({&span, 1});
    auto sampled = static_cast<Token>(anchors[r]), best = sampled;
    for (std::int64_t k = 0; k < 5; ++k) {
      std::vector<float> scores = values_of(blocks.logits[k]), after_best = scores;
      passes->condition(sampled, blocks.state(k), scores);
      const at::Tensor law = at::softmax(at::tensor(scores) / 1.3, 0);
      for (std::int64_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(law[candidates[static_cast<std::size_t>(5 * k + i)]].item<double>(),
                    laws[k][i].item<double>(), 1e-4)
            << r << " " << k;
      }
      EXPECT_EQ(law.count_nonzero().item<std::int64_t>(), 5);
      EXPECT_NEAR(law.sum().item<double>(), 1.0, 1e-6);
      passes->condition(best, blocks.state(k), after_best);
      best = static_cast<Token>(at::tensor(after_best).argmax().item<std::int64_t>());
      EXPECT_EQ(best, greedy[static_cast<std::size_t>(k)]) << r << " " << k;
      sampled = static_cast<Token>(path[static_cast<std::size_t>(k)]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DFlash, Speculators,
                         ::testing::Values("speculators_full", "speculators_reduced",
                                           "speculators_both_ways", "speculators_dflash2", "dspark",
                                           "dspark_from_mask", "dspark_gated"),
                         [](const auto& name) { return name.param; });

// ---- one network in both formats ----

TEST(DFlashFormats, OneNetworkInBothFormatsGivesTheSameLogits) {
  const DFlash zlab = load_dflash(kDFlash + "zlab_full", dflash_target());
  const DFlash theirs = load_dflash(kDFlash + "speculators_full", dflash_target());
  EXPECT_EQ(zlab.config.feature_layers, theirs.config.feature_layers);
  EXPECT_EQ(zlab.config.attention, theirs.config.attention);
  const at::Tensor features = tensor_of(dflash_expected("zlab_full"), "features");
  const auto logits = [&](const DFlash& m) {
    DFlashCache cache(m);
    cache.append(m, features);
    return block_logits(m, block_hidden(m, cache, masked_block(m, 9), features.size(0)));
  };
  EXPECT_EQ(distance(logits(zlab), logits(theirs)), 0.0);
}

// ---- gradients, against autograd of a plain PyTorch implementation ----

at::Tensor loss_of(const DFlash& m, const Safetensors& e, at::ScalarType type) {
  BlockBatch batch = batch_of(e);
  const at::Tensor hidden = training_blocks(m, batch).narrow(1, 1, 3).flatten(0, 1);
  const at::Tensor previous = at::tensor(numbers_of(e, "previous"), at::kLong);
  const bool selects = m.config.selector_rank > 0;
  const at::Tensor labels =
      at::tensor(numbers_of(e, selects ? "places_of_labels" : "labels"), at::kLong).unsqueeze(1);
  at::Tensor logits = block_logits(m, hidden);
  if (selects) {
    const at::Tensor candidates =
        at::tensor(numbers_of(e, "candidates"), at::kLong).view({hidden.size(0), -1});
    logits = logits.gather(1, candidates) + transition_scores(m, hidden, previous, candidates);
  } else {
    logits = logits + markov_bias(m, hidden, previous);
  }
  const at::Tensor entropy = -at::log_softmax(logits, -1).gather(1, labels).squeeze(1);
  const at::Tensor sure = confidence(m, hidden, previous);
  const at::Tensor accepted = tensor_of(e, "accepted").to(type).flatten();
  const at::Tensor doubt = at::softplus(sure) - accepted * sure;
  const at::Tensor weight = at::exp(-at::arange(3, type) / 2).repeat({batch.anchor_tokens.size(0)});
  return (weight * (entropy + doubt / 3)).sum() / weight.sum();
}

using GradientCase = std::tuple<const char*, at::ScalarType>;
class Gradients : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradients, OfEveryWeightMatchPyTorch) {
  const auto [name, type] = GetParam();
  const Safetensors e = dflash_expected(name);
  DFlashTarget target;
  target.embedding = tensor_of(e, "embedding");
  target.head = tensor_of(e, "head");
  target.vocab = 40;
  target.hidden = 24;
  target.layers = 9;
  DFlash m = load_dflash(kDFlash + name, target, type);
  for (const ModelWeight& w : weights(m)) w.tensor->requires_grad_(true);
  const at::Tensor loss = loss_of(m, e, type);
  loss.backward();
  const double tolerance = type == at::kDouble ? 1e-6 : 1e-5;
  EXPECT_NEAR(loss.item<double>(), tensor_of(e, "loss").item<double>(), tolerance);
  std::size_t compared = 0;
  for (const ModelWeight& w : weights(m)) {
    const at::Tensor theirs = tensor_of(e, "gradient." + w.name).to(type);
    ASSERT_TRUE(w.tensor->grad().defined()) << w.name;
    EXPECT_GT(theirs.abs().max().item<double>(), 1e-3) << w.name;  // not all zero
    EXPECT_LT(distance(w.tensor->grad(), theirs),
              tolerance * std::max(1.0, theirs.abs().max().item<double>()))
        << w.name;
    ++compared;
  }
  const std::size_t convolutions = m.config.conv_taps > 0 ? 2u * 4u : 0u;
  const std::size_t heads = m.config.selector_rank > 0 ? 3u : m.config.markov_gated ? 4u : 2u;
  EXPECT_EQ(compared, 3u + 2u * 11u + convolutions + 1u + heads + 2u);
}

INSTANTIATE_TEST_SUITE_P(DFlash, Gradients,
                         ::testing::Combine(::testing::Values("gradients", "gradients_dflash2",
                                                              "gradients_gated"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  at::toString(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace forerun
