// The training pass is the decoding pass of every block at once; no block sees what it predicts;
// its gradients are those of the states.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <stdexcept>

#include "forerun/models/diffusion_lm/diffusion_passes.h"
#include "tests/support/tiny_diffusion.h"

namespace forerun {
namespace {

using Tokens = std::vector<Token>;

// Two documents with blocks and one without between them; anchors at both ends, closer than a
// block.
struct Documents {
  Tokens a = count_up(13, 150), b = count_up(4, 140), c = count_up(17, 130);
  MaskedBatch batch() const {
    return {.documents = {a, b, c}, .anchors = {{0, 3, 5, 12}, {}, {16, 7, 8}}};
  }
};

DiffusionLm in_float64(DiffusionLm m) {
  for (const ModelWeight& w : weights(m)) *w.tensor = w.tensor->to(at::kDouble);
  m.embedding = m.embedding.to(at::kDouble);
  return m;
}

class TrainingStates : public ::testing::TestWithParam<std::string> {};

TEST_P(TrainingStates, AreTheDecodingPassOfEveryBlock) {
  const DiffusionLm m = tiny_diffusion(GetParam());
  const DiffusionPasses passes(m);
  const Documents documents;
  const MaskedBatch batch = documents.batch();
  const MaskedStates out = training_states(m, batch);
  std::int64_t row = 0, block = 0;
  for (std::size_t d = 0; d < batch.documents.size(); ++d) {
    for (const std::int64_t p : batch.anchors[d]) {
      DiffusionText text = passes.begin();
      const Tokens places(5, kMaskedToken);
      const MaskedSpan span{.text = &text,
                            .tokens = batch.documents[d].first(static_cast<std::size_t>(p) + 1),
                            .places = places};
      const at::Tensor trained = at::cat({out.text.narrow(0, row + p, 1), out.masks[block++]});
      EXPECT_LT(distance(head_logits(m.body, trained), passes.forward({&span, 1})), 1e-4) << p;
    }
    row += static_cast<std::int64_t>(batch.documents[d].size());
  }
  EXPECT_EQ(out.text.size(0), row);
  EXPECT_EQ(out.masks.size(0), block);
}

TEST_P(TrainingStates, OfABidirectionalNetworkAreThePassOfEveryBlock) {
  const DiffusionLm m = tiny_bidirectional(GetParam());
  const DiffusionPasses passes(m);
  const Documents documents;
  const MaskedBatch batch = documents.batch();
  const MaskedStates out = training_states(m, batch);
  std::int64_t block = 0;
  for (std::size_t d = 0; d < batch.documents.size(); ++d) {
    for (const std::int64_t p : batch.anchors[d]) {
      DiffusionText text = passes.begin();
      const Tokens places(5, kMaskedToken);
      const MaskedSpan span{.text = &text,
                            .tokens = batch.documents[d].first(static_cast<std::size_t>(p) + 1),
                            .places = places};
      const at::Tensor trained = at::cat({out.text.narrow(0, block, 1), out.masks[block]});
      EXPECT_LT(distance(head_logits(m.body, trained), passes.forward({&span, 1})), 1e-4) << p;
      ++block;
    }
  }
  EXPECT_EQ(out.text.size(0), block);
  EXPECT_EQ(out.masks.size(0), block);
}

TEST_P(TrainingStates, NoBlockSeesWhatItPredicts) {
  const DiffusionLm m = in_float64(tiny_diffusion(GetParam()));
  Documents documents;
  const MaskedStates before = training_states(m, documents.batch());
  for (std::size_t i = 4; i < 7; ++i) documents.a[i] = 1;  // after anchors 0 and 3
  const MaskedStates after = training_states(m, documents.batch());
  const at::Tensor moved = (before.masks - after.masks).abs().amax({1, 2});
  for (const std::int64_t block : {0, 1, 4, 5, 6}) EXPECT_EQ(moved[block].item<double>(), 0.0);
  for (const std::int64_t block : {2, 3}) EXPECT_GT(moved[block].item<double>(), 1e-6);
}

TEST_P(TrainingStates, GradientsAreThoseOfTheStates) {
  DiffusionLm m = in_float64(tiny_diffusion(GetParam()));
  const Documents documents;
  const at::Tensor direction = at::randn({34 + 7 * 4, m.body.config.hidden}, at::kDouble);
  const auto value = [&] {
    const MaskedStates out = training_states(m, documents.batch());
    return (at::cat({out.text, out.masks.flatten(0, 1)}) * direction).sum();
  };
  for (const ModelWeight& w : weights(m)) w.tensor->requires_grad_();
  value().backward();
  for (const ModelWeight& w : weights(m)) {
    const at::Tensor step = at::randn(w.shape, at::kDouble);
    const double slope = (w.tensor->grad() * step).sum().item<double>();
    const at::Tensor kept = w.tensor->detach().clone();
    const auto moved = [&](double by) {
      const at::NoGradGuard no_autograd;
      w.tensor->copy_(kept + step * by);
      return value().item<double>();
    };
    constexpr double kStep = 1e-5;
    const double measured = (moved(kStep) - moved(-kStep)) / (2.0 * kStep);
    moved(0.0);
    EXPECT_NEAR(slope, measured, 1e-4 * std::max(1.0, std::abs(measured))) << w.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TrainingStates,
                         ::testing::Values("llama_plain", "qwen2", "qwen3"),
                         [](const auto& family) { return family.param; });

TEST(TrainingStates, ABatchOfABidirectionalNetworkWithoutBlocksIsEmpty) {
  const Tokens text = count_up(6, 150);
  const MaskedStates out =
      training_states(tiny_bidirectional("llama_plain"), {.documents = {text}, .anchors = {{}}});
  EXPECT_EQ(out.text.size(0), 0);
  EXPECT_EQ(out.masks.size(0), 0);
}

TEST(TrainingStates, ABatchWithoutBlocksIsItsText) {
  const DiffusionLm m = tiny_diffusion("llama_plain");
  const Tokens text = count_up(6, 150);
  const MaskedStates out = training_states(m, {.documents = {text}, .anchors = {{}}});
  EXPECT_EQ(out.text.size(0), 6);
  EXPECT_EQ(out.masks.size(0), 0);
}

TEST(TrainingStates, RefusesWhatDoesNotFit) {
  const DiffusionLm m = tiny_diffusion("llama_plain"), other = tiny_bidirectional("llama_plain");
  const auto refuses = [&](const std::function<void(MaskedBatch&)>& change) {
    const Documents documents;
    MaskedBatch batch = documents.batch();
    change(batch);
    EXPECT_THROW(training_states(m, batch), std::invalid_argument);
    EXPECT_THROW(training_states(other, batch), std::invalid_argument);
  };
  const Tokens unknown = {1, 4000};
  refuses([](MaskedBatch& b) { b.anchors[0][0] = 13; });
  refuses([](MaskedBatch& b) { b.anchors[0][0] = -1; });
  refuses([](MaskedBatch& b) { b.anchors.pop_back(); });
  refuses([](MaskedBatch& b) { b.documents[1] = {}; });
  refuses([&](MaskedBatch& b) { b.documents[1] = unknown; });
}

}  // namespace
}  // namespace forerun
