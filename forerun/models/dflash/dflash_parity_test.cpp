// Parity with the published implementations, dflash 0.1.0 and speculators 0.9.0, on small random
// checkpoints written by them (tests/data/dflash, made by tools/make_dflash_values.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "forerun/models/dflash/dflash.h"
#include "forerun/models/dflash/dflash_file.h"
#include "tests/support/dflash_values.h"

namespace forerun {
namespace {

constexpr double kTolerance = 2e-5;

// ---- z-lab checkpoints: decoding rounds ----

class ZLab : public testing::TestWithParam<std::string> {
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
    EXPECT_LT(distance(cached, tensor_of(e, "logits_" + std::to_string(r))), kTolerance) << r;
    DFlashCache fresh(m);
    fresh.append(m, features.narrow(0, 0, starts[r]));
    const at::Tensor whole = block_logits(m, block_hidden(m, fresh, block, starts[r]));
    EXPECT_LT(distance(whole, tensor_of(e, "whole_" + std::to_string(r))), kTolerance) << r;
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
    EXPECT_LT(distance(logits, tensor_of(e, "logits_" + std::to_string(r))), kTolerance) << r;
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
    EXPECT_LT(distance(logits[r], tensor_of(e, "logits_" + std::to_string(r))), kTolerance) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(DFlash, ZLab,
                         testing::Values("zlab_full", "zlab_scaled", "zlab_hybrid",
                                         "zlab_both_ways"),
                         [](const auto& name) { return name.param; });

// ---- speculators checkpoints: their training forward ----

class Speculators : public testing::TestWithParam<std::string> {
 protected:
  DFlash model() const { return load_dflash(kDFlash + GetParam(), dflash_target()); }
  Safetensors expected() const { return dflash_expected(GetParam()); }

  // Logits as theirs: with the Markov head if there is one.
  static at::Tensor logits_of(const DFlash& m, const Safetensors& e, const at::Tensor& hidden) {
    at::Tensor out = block_logits(m, hidden);
    if (m.config.markov_rank == 0) return out;
    const at::Tensor previous = at::tensor(numbers_of(e, "previous"), at::kLong);
    return out + markov_bias(m, previous).view(out.sizes());
  }
};

TEST_P(Speculators, ATrainingPassMatchesTheirs) {
  const DFlash m = model();
  const Safetensors e = expected();
  const at::Tensor hidden = training_blocks(m, batch_of(e));
  EXPECT_LT(distance(hidden, tensor_of(e, "hidden")), kTolerance);
  EXPECT_LT(distance(logits_of(m, e, hidden), tensor_of(e, "logits")), kTolerance);
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
                kTolerance)
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
  EXPECT_EQ(c.predicts_next, GetParam() == "dspark");
  EXPECT_EQ(c.drafts(), GetParam() == "dspark" ? 6 : 5);
  const bool reduced = GetParam() != "speculators_full" && GetParam() != "speculators_both_ways";
  EXPECT_EQ(c.draft_vocab, reduced ? 24 : 64);
  EXPECT_EQ(model().draft_to_target.defined(), reduced);
}

INSTANTIATE_TEST_SUITE_P(DFlash, Speculators,
                         testing::Values("speculators_full", "speculators_reduced",
                                         "speculators_both_ways", "dspark", "dspark_from_mask"),
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
  const at::Tensor labels = at::tensor(numbers_of(e, "labels"), at::kLong).unsqueeze(1);
  const at::Tensor logits = block_logits(m, hidden) + markov_bias(m, previous);
  const at::Tensor entropy = -at::log_softmax(logits, -1).gather(1, labels).squeeze(1);
  const at::Tensor sure = confidence(m, hidden, previous);
  const at::Tensor accepted = tensor_of(e, "accepted").to(type).flatten();
  const at::Tensor doubt = at::softplus(sure) - accepted * sure;
  const at::Tensor weight = at::exp(-at::arange(3, type) / 2).repeat({batch.anchor_tokens.size(0)});
  return (weight * (entropy + doubt / 3)).sum() / weight.sum();
}

class Gradients : public testing::TestWithParam<at::ScalarType> {};

TEST_P(Gradients, OfEveryWeightMatchPyTorch) {
  const at::ScalarType type = GetParam();
  const Safetensors e = dflash_expected("gradients");
  DFlashTarget target;
  target.embedding = tensor_of(e, "embedding");
  target.head = tensor_of(e, "head");
  target.vocab = 40;
  target.hidden = 24;
  target.layers = 9;
  DFlash m = load_dflash(kDFlash + "gradients", target, type);
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
  EXPECT_EQ(compared, 3u + 2u * 11u + 1u + 2u + 2u);
}

INSTANTIATE_TEST_SUITE_P(DFlash, Gradients, testing::Values(at::kDouble, at::kFloat),
                         [](const auto& type) { return std::string(at::toString(type.param)); });

}  // namespace
}  // namespace forerun
