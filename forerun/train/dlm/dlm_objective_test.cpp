// The parts of the loss against passes of the network and of the target, one block at a time; which
// places count, and how much.
#include "forerun/train/dlm/dlm_objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "forerun/models/diffusion_lm/diffusion_passes.h"
#include "tests/support/dflash_training.h"
#include "tests/support/same_gradients.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_diffusion.h"

namespace forerun {
namespace {

using testing::shards_in;
using testing::TempFolder;

using Indices = std::vector<std::size_t>;

struct DlmParts {
  std::shared_ptr<const DecoderLm> target = testing::tiny_target();
  std::shared_ptr<DiffusionLm> model = std::make_shared<DiffusionLm>(tiny_diffusion("llama_plain"));
  DlmLossOptions options;
  TempFolder folder;

  explicit DlmParts(bool reduced = false) {
    if (reduced) model = std::make_shared<DiffusionLm>(tiny_diffusion("llama_plain", true));
    options.held_out = 0.0;
    options.anchors = 1000;
  }
  DlmObjective of(const std::vector<TokenDocument>& documents) const {
    return DlmObjective(target, model, {shards_in(folder.path() / "data", documents)},
                        testing::head_of(*target, model->output_tokens), options, "a");
  }
};

TokenDocument document(std::int64_t id, std::size_t n, std::uint32_t salt) {
  return {.id = id, .prompt = 3, .tokens = testing::some_tokens(n, salt)};
}

double by_name(const LossSum& sum, const std::string& name) {
  for (const Figure& f : sum.figures) {
    if (f.name == name) return f.value();
  }
  return -1.0;
}

// Every block is run as it is when drafting; the target's law is that of plain decoding.
TEST(DlmObjective, LossIsThatOfTheDraftingPasses) {
  for (const auto& [reduced, bidirectional] :
       {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
    DlmParts parts(reduced);
    if (bidirectional) *parts.model = tiny_bidirectional("llama_plain", reduced);
    parts.options.distill = 0.3;
    parts.options.gamma = 2.0;
    const TokenDocument d = document(0, 16, 4);
    const LossSum sum = parts.of({d}).loss(Indices{0}, 1);
    const DiffusionPasses passes(*parts.model);
    KvCache cache = parts.target->make_cache();
    const at::NoGradGuard no_autograd;
    const at::Tensor all = pass(*parts.target, cache, d.tokens);
    const at::Tensor drafted =
        reduced ? parts.model->output_tokens : at::arange(all.size(1), at::kLong);
    const at::Tensor laws = at::softmax(all.index_select(1, drafted), 1);
    double loss = 0.0, weight = 0.0, first = 0.0, kept = 0.0;
    for (std::int64_t p = 3; p < 15; ++p) {
      DiffusionText text = passes.begin();
      const std::vector<Token> places(5, kMaskedToken);
      const MaskedSpan span{.text = &text,
                            .tokens = std::span(d.tokens).first(static_cast<std::size_t>(p) + 1),
                            .places = places};
      const at::Tensor log_q = at::log_softmax(passes.forward({&span, 1}), 1);
      bool alive = true;
      for (std::int64_t k = 0; k < 5 && p + 1 + k < 16; ++k) {
        const Token token = d.tokens[static_cast<std::size_t>(p + 1 + k)];
        const at::Tensor place = drafted.eq(token).nonzero();
        if (place.numel() == 0) break;
        const auto label = place.item<std::int64_t>();
        const double w = std::exp(-static_cast<double>(k) / 2.0);
        const double hard = -log_q[k][label].item<double>();
        const double soft = -(laws[p + k] * log_q[k]).sum().item<double>();
        loss += w * (0.7 * hard + 0.3 * soft);
        weight += w;
        alive = alive && log_q[k].argmax().item<std::int64_t>() == label;
        first += k == 0 && alive ? 1.0 : 0.0;
        kept += alive ? 1.0 : 0.0;
      }
    }
    EXPECT_NEAR(sum.loss.item<double>(), loss, 1e-3 * loss);
    EXPECT_NEAR(sum.weight, weight, 1e-4);
    EXPECT_DOUBLE_EQ(by_name(sum, "first"), first / 12.0);
    EXPECT_DOUBLE_EQ(by_name(sum, "tau"), 1.0 + kept / 12.0);
  }
}

// In 4 bits the loss is that of the rounded network, and its gradients are those by the rounded
// weights.
TEST(DlmObjective, LearnsWithTheWeightsOfItsPasses) {
  DlmParts rounded, plain;
  plain.target = rounded.target = testing::tiny_target("qwen3");
  DiffusionLm made = tiny_diffusion("qwen3");
  made.config.weight_bits = 4;
  *rounded.model = made;
  *plain.model = rounded_to_four_bits(made);
  plain.model->config.weight_bits = 0;
  const TokenDocument d{.id = 0, .prompt = 3, .tokens = testing::some_tokens(16, 4, 150)};
  DlmObjective learns = rounded.of({d}), reference = plain.of({d});
  const auto parameters = learns.parameters(), others = reference.parameters();
  const LossSum sum = learns.loss(Indices{0}, 1);
  const double loss = sum.loss.item<double>();
  testing::expect_same_gradients(sum, parameters, reference.loss(Indices{0}, 1), others);
  plain.model = std::make_shared<DiffusionLm>(tiny_diffusion("qwen3"));
  const double unrounded = plain.of({d}).loss(Indices{0}, 1).loss.item<double>();
  EXPECT_GT(std::abs(unrounded - loss), 1e-4 * unrounded);
  EXPECT_NE(learns.fingerprint(), reference.fingerprint());
}

TEST(DlmObjective, FirstDraftsOfAllPositionsWeighAsThoseOfTheBlocks) {
  DlmParts parts;
  parts.options.anchors = 4;
  parts.options.gamma = 1e-6;  // first drafts alone
  const LossSum sum = parts.of({document(0, 40, 1)}).loss(Indices{0}, 1);
  EXPECT_NEAR(sum.weight, 4.0, 1e-4);
  ASSERT_EQ(sum.figures.size(), 4U);
  EXPECT_EQ(sum.figures[0].denominator, 4.0);
}

TEST(DlmObjective, AMicroBatchIsTheSumOfItsDocuments) {
  DlmParts parts;
  parts.options.anchors = 5;
  DlmObjective objective = parts.of({document(0, 21, 1), document(1, 6, 2), document(2, 33, 3)});
  const LossSum all = objective.loss(Indices{0, 1, 2}, 9);
  double loss = 0.0, weight = 0.0;
  for (const std::size_t i : {0, 1, 2}) {
    const LossSum one = objective.loss(Indices{i}, 9);
    loss += one.loss.item<double>();
    weight += one.weight;
  }
  EXPECT_NEAR(all.loss.item<double>(), loss, 1e-4 * loss);
  EXPECT_NEAR(all.weight, weight, 1e-4);
  EXPECT_EQ(all.tokens, 60);
}

TEST(DlmObjective, EveryWeightLearns) {
  DlmParts parts;
  DlmObjective objective = parts.of({document(0, 24, 7)});
  const std::vector<Parameter> parameters = objective.parameters();
  objective.loss(Indices{0}, 1).loss.backward();
  for (const Parameter& p : parameters) {
    ASSERT_TRUE(p.value.grad().defined()) << p.name;
    EXPECT_GT(p.value.grad().abs().max().item<double>(), 0.0) << p.name;
  }
  EXPECT_FALSE(parts.model->embedding.requires_grad());
  EXPECT_FALSE(parts.model->body.embedding.requires_grad());
}

TEST(DlmObjective, TheBlocksAreThoseOfTheSeed) {
  DlmParts parts;
  parts.options.anchors = 3;
  DlmObjective objective = parts.of({document(0, 60, 5)});
  const auto loss = [&](std::uint64_t seed) {
    return objective.loss(Indices{0}, seed).loss.item<double>();
  };
  EXPECT_EQ(loss(1), loss(1));
  EXPECT_NE(loss(1), loss(2));
}

TEST(DlmObjective, BlocksOfWhichNothingCanBeDraftedCountAsBlocks) {
  DlmParts parts(true);  // outputs 1, 4, 7, ...
  const LossSum sum =
      parts.of({{.id = 0, .prompt = 1, .tokens = {3, 5, 5, 5, 5}}}).loss(Indices{0}, 1);
  EXPECT_FALSE(sum.loss.defined());
  EXPECT_EQ(sum.weight, 0.0);
  EXPECT_EQ(sum.figures[0].denominator, 3.0);
  EXPECT_DOUBLE_EQ(by_name(sum, "tau"), 1.0);
}

TEST(DlmObjective, TheFingerprintNamesWhatMustBeTheSame) {
  DlmParts parts;
  const auto before = parts.of({document(0, 20, 1)}).fingerprint();
  EXPECT_EQ(before, parts.of({document(0, 20, 1)}).fingerprint());
  EXPECT_NE(before, parts.of({document(0, 20, 2)}).fingerprint());
  parts.options.anchors = 7;
  EXPECT_NE(before, parts.of({document(0, 20, 1)}).fingerprint());
}

}  // namespace
}  // namespace forerun
