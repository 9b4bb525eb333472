// One training pass over many blocks against the decoding pass of each; and no block sees what it
// must predict.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "forerun/models/dflash/dflash.h"
#include "tests/support/distance.h"
#include "tests/support/random_dflash.h"

namespace forerun {
namespace {

// Two documents and one without blocks between them; anchors closer than a block, at the first row
// and at the last.
BlockBatch small_batch(const DFlashConfig& c, at::ScalarType type) {
  return {.features = random_features(c, 31, type, 21),
          .lengths = {12, 4, 15},
          .anchors = {{0, 3, 5, 11}, {}, {14, 7, 8}},
          .anchor_tokens = at::tensor({3, 14, 15, 9, 2, 6, 5}, at::kLong)};
}

at::Tensor block_by_block(const DFlash& model, const BlockBatch& batch) {
  std::vector<at::Tensor> out;
  std::int64_t row = 0;
  for (std::size_t d = 0; d < batch.lengths.size(); ++d) {
    for (const std::int64_t p : batch.anchors[d]) {
      DFlashCache cache(model);
      cache.append(model, batch.features.narrow(0, row, p));
      const auto anchor = static_cast<Token>(
          batch.anchor_tokens[static_cast<std::int64_t>(out.size())].item<std::int64_t>());
      out.push_back(block_hidden(model, cache, masked_block(model, anchor), p));
    }
    row += batch.lengths[d];
  }
  return at::stack(out);
}

struct Layers {
  const char* name;
  std::vector<LayerAttention> attention;
  bool slot_state = false;
  std::int64_t conv_taps = 0;
};

class EveryAttention : public ::testing::TestWithParam<Layers> {
 protected:
  DFlash model() const {
    DFlashConfig c = small_dflash(GetParam().attention);
    c.slot_state = GetParam().slot_state;
    c.conv_taps = GetParam().conv_taps;
    c.conv_group = 8;
    return noisy_dflash(c, at::kDouble, 20);
  }
};

TEST_P(EveryAttention, OnePassIsTheDecodingPassOfEveryBlock) {
  const DFlash m = model();
  const BlockBatch batch = small_batch(m.config, at::kDouble);
  EXPECT_LT(distance(training_blocks(m, batch), block_by_block(m, batch)), 1e-12);
}

// Features from the anchor on do not exist when the block is decoded.
TEST_P(EveryAttention, NoBlockSeesWhatItPredicts) {
  const DFlash m = model();
  const BlockBatch batch = small_batch(m.config, at::kDouble);
  const at::Tensor before = training_blocks(m, batch);
  std::int64_t row = 0, block = 0;
  for (std::size_t d = 0; d < batch.lengths.size(); row += batch.lengths[d], ++d) {
    for (const std::int64_t p : batch.anchors[d]) {
      BlockBatch changed = batch;
      changed.features = batch.features.clone();
      changed.features.narrow(0, row + p, batch.lengths[d] - p).add_(1.0);
      EXPECT_EQ(distance(training_blocks(m, changed)[block], before[block]), 0.0) << block;
      if (p > 0) {  // but it does see the last row before the anchor
        changed.features = batch.features.clone();
        changed.features[row + p - 1].add_(1.0);
        EXPECT_GT(distance(training_blocks(m, changed)[block], before[block]), 1e-6) << block;
      }
      ++block;
    }
  }
}

TEST_P(EveryAttention, NoBlockSeesAnother) {
  const DFlash m = model();
  const BlockBatch batch = small_batch(m.config, at::kDouble);
  const at::Tensor before = training_blocks(m, batch);
  for (std::int64_t j = 0; j < before.size(0); ++j) {
    BlockBatch changed = batch;
    changed.anchor_tokens = batch.anchor_tokens.clone();
    changed.anchor_tokens[j] = 40;
    const at::Tensor moved = (training_blocks(m, changed) - before).abs().amax({1, 2});
    for (std::int64_t i = 0; i < before.size(0); ++i) {
      if (i == j) {
        EXPECT_GT(moved[i].item<double>(), 1e-6);
      } else {
        EXPECT_EQ(moved[i].item<double>(), 0.0) << i << " sees " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryAttention,
                         ::testing::Values(Layers{"Full", {kFull, kFull}},
                                           Layers{"FullWithSlotState", {kFull, kFull}, true},
                                           Layers{"Mixed", {kCausalWindow, kFull}},
                                           Layers{"Convolved", {kFull, kCausalWindow}, true, 2},
                                           Layers{"ConvolvedOverTheBlock", {kFull}, false, 5},
                                           Layers{"NarrowBothWays", {kBothWaysWindow}},
                                           Layers{"CausalWindow", {kCausalWindow, kCausalWindow}}),
                         [](const auto& layers) { return std::string(layers.param.name); });

// In a causal layer a slot sees itself and what lies before it in its block: also through taps.
TEST(TrainingBlocks, ConvolutionsReachBackOnly) {
  DFlashConfig c = small_dflash({{.causal = true}});
  c.conv_taps = 2;
  c.conv_group = 4;
  DFlash m = noisy_dflash(c, at::kDouble, 25);
  m.mask_embedding = at::Tensor();
  m.config.mask_token = 30;  // the anchor's row, where it is the anchor
  DFlashCache cache(m);
  cache.append(m, random_features(c, 7, at::kDouble, 26));
  const at::Tensor before = block_hidden(m, cache, std::vector<Token>{3, 4, 5, 6, 7}, 7);
  const at::Tensor moved =
      (block_hidden(m, cache, std::vector<Token>{3, 4, 9, 6, 7}, 7) - before).abs().amax(1);
  EXPECT_EQ(moved.narrow(0, 0, 2).max().item<double>(), 0.0);
  for (std::int64_t slot = 2; slot < 5; ++slot) EXPECT_GT(moved[slot].item<double>(), 1e-6) << slot;
}

TEST(TrainingBlocks, ABatchWithoutBlocksIsEmpty) {
  const DFlash m = noisy_dflash(small_dflash({kFull}), at::kDouble, 22);
  const BlockBatch batch{.features = random_features(m.config, 6, at::kDouble, 23),
                         .lengths = {6},
                         .anchors = {{}},
                         .anchor_tokens = at::empty({0}, at::kLong)};
  EXPECT_EQ(training_blocks(m, batch).sizes(), (at::IntArrayRef{0, 5, 24}));
}

TEST(TrainingBlocks, RefusesSizesThatDoNotFit) {
  const DFlash m = noisy_dflash(small_dflash({kFull}), at::kDouble, 24);
  const auto refuses = [&](const std::function<void(BlockBatch&)>& change) {
    BlockBatch batch = small_batch(m.config, at::kDouble);
    change(batch);
    EXPECT_THROW(training_blocks(m, batch), std::invalid_argument);
  };
  refuses([](BlockBatch& b) { b.lengths[0] = 13; });
  refuses([](BlockBatch& b) { b.lengths.push_back(0); });
  refuses([](BlockBatch& b) { b.anchors[0][0] = 12; });
  refuses([](BlockBatch& b) { b.anchors[0][0] = -1; });
  refuses([](BlockBatch& b) { b.anchors[0].push_back(1); });
  refuses([](BlockBatch& b) { b.features = b.features.narrow(1, 0, 24); });
}

}  // namespace
}  // namespace forerun
