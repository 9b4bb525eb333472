// A decoder in training computes what it computes when it generates; its gradients are those of the
// loss; what is saved is what was trained.
#include "forerun/models/decoder_training.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "forerun/models/save_decoder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

DecoderLm load(const std::filesystem::path& folder, Precision precision = Precision::kF32) {
  return load_decoder(load_hf_config(folder), load_safetensors(folder), folder, precision);
}

// The tiny model with leaves of its own.
DecoderLm trainable(const std::string& name, at::ScalarType type = at::kFloat) {
  DecoderLm model = load(kTiny + name);
  for (const ModelWeight& w : weights(model)) {
    *w.tensor = w.tensor->to(type, false, true).requires_grad_();
  }
  return model;
}

constexpr std::size_t kLengths[] = {9, 1, 14};

using Tokens = std::vector<Token>;

Tokens some_tokens(std::int64_t vocab) {
  Tokens out;
  for (std::int64_t i = 0; i < 24; ++i) out.push_back(static_cast<Token>(i * 37 % vocab));
  return out;
}

std::vector<std::span<const Token>> split(const Tokens& tokens) {
  std::vector<std::span<const Token>> out;
  std::size_t row = 0;
  for (const std::size_t n : kLengths) {
    out.push_back(std::span(tokens).subspan(row, n));
    row += n;
  }
  return out;
}

at::Tensor logits(const DecoderLm& model, const Tokens& tokens) {
  return head_logits(model, training_hidden(model, split(tokens)));
}
at::Tensor logits(const DecoderLm& model) { return logits(model, some_tokens(model.config.vocab)); }

// Mean cross-entropy of the next row's token.
at::Tensor loss_of(const DecoderLm& model) {
  const Tokens tokens = some_tokens(model.config.vocab);
  const at::Tensor next =
      at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()), at::kLong).roll(-1);
  return -at::log_softmax(logits(model), -1).gather(1, next.unsqueeze(1)).mean();
}

// Numbers that decide alone: they have no gradient.
bool chooses(const ModelWeight& w) { return w.name.ends_with("e_score_correction_bias"); }

class Trained : public ::testing::TestWithParam<std::string> {};

// Largest difference to the logits of inference, document by document.
double apart(const DecoderLm& model) {
  const at::NoGradGuard no_autograd;
  const Tokens tokens = some_tokens(model.config.vocab);
  const at::Tensor all = logits(model, tokens);
  std::int64_t row = 0;
  double most = 0.0;
  for (const std::span<const Token> document : split(tokens)) {
    KvCache cache = model.make_cache();
    const at::Tensor own = pass(model, cache, document);
    most = std::max(most, distance(own, all.narrow(0, row, own.size(0))));
    row += own.size(0);
  }
  return most;
}

TEST_P(Trained, LogitsAreThoseOfInference) {
  DecoderLm model = load(kTiny + GetParam());
  EXPECT_LT(apart(model), 1e-4);
  model.config.attention_softcap = 0.5;
  EXPECT_LT(apart(model), 1e-4);
}

TEST_P(Trained, GradientsAreFiniteDifferences) {  // of each weight, along a random direction
  DecoderLm model = trainable(GetParam(), at::kDouble);
  model.config.clamp.limit = 1e3;  // differences across an edge are no slopes
  loss_of(model).backward();
  for (const ModelWeight& w : weights(model)) {
    if (chooses(w)) continue;
    const at::NoGradGuard no_autograd;
    const at::Tensor direction = at::randn(w.shape, at::kDouble);
    const double slope = (w.tensor->grad() * direction).sum().item<double>();
    constexpr double kStep = 1e-5;
    const auto moved = [&](double by) {
      w.tensor->add_(direction, by);
      return loss_of(model).item<double>();
    };
    const double up = moved(kStep), down = moved(-2.0 * kStep);
    w.tensor->add_(direction, kStep);
    EXPECT_NEAR((up - down) / (2.0 * kStep), slope, 1e-6 + 1e-5 * std::abs(slope)) << w.name;
    EXPECT_NE(slope, 0.0) << w.name;
  }
}

TEST_P(Trained, StepsReduceTheLossAndSurviveTheFile) {
  DecoderLm model = trainable(GetParam());
  const double before = loss_of(model).item<double>();
  for (int step = 0; step < 20; ++step) {
    loss_of(model).backward();
    const at::NoGradGuard no_autograd;
    for (const ModelWeight& w : weights(model)) {
      const bool unused =
          w.name.find(".experts.") != std::string::npos && !w.tensor->grad().defined();
      if (chooses(w) || unused) continue;
      w.tensor->sub_(0.02 * w.tensor->grad().sign());
      w.tensor->mutable_grad() = at::Tensor();
    }
  }
  const at::NoGradGuard no_autograd;
  EXPECT_LT(loss_of(model).item<double>(), 0.7 * before);
  // Gemma's norms below 0.5 may change in their last bits.
  if (model.config.gemma()) {
    for (const ModelWeight& w : weights(model)) {
      if (w.name.ends_with("norm.weight")) w.tensor->sub_(1.0).add_(1.0);
    }
  }
  const testing::TempFolder folder;
  if (!can_be_saved(model.config)) return;
  save_decoder(folder.path() / "saved", model, {{"steps", 20}});
  const DecoderLm read = load(folder.path() / "saved");
  EXPECT_TRUE(at::equal(logits(read), logits(model)));
  EXPECT_EQ(read.head().is_alias_of(read.embedding), model.config.tied_head);
  EXPECT_EQ(read.config.sliding, model.config.sliding);
  EXPECT_EQ(inverse_frequencies(read.config, true), inverse_frequencies(model.config, true));
}

TEST_P(Trained, ALoadedModelIsSavedAsItIs) {
  for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
    const DecoderLm model = load(kTiny + GetParam(), precision);
    const testing::TempFolder folder;
    if (!can_be_saved(model.config)) {
      EXPECT_TRUE(GetParam() == "gpt_oss" || GetParam() == "granite_moe");
      EXPECT_THROW(save_decoder(folder.path() / "saved", model), std::invalid_argument);
      EXPECT_FALSE(std::filesystem::exists(folder.path() / "saved"));
      continue;
    }
    save_decoder(folder.path() / "saved", model);
    const DecoderLm read = load(folder.path() / "saved", precision);
    const Tokens tokens = {3, 14, 15, 92, 65};
    KvCache a = model.make_cache(), b = read.make_cache();
    EXPECT_TRUE(at::equal(pass(read, b, tokens), pass(model, a, tokens)));
  }
}

TEST_P(Trained, UnderAutocastStaysClose) {
  DecoderLm model = trainable(GetParam());
  const at::Tensor exact = logits(model).detach();
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor out = logits(model);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  const at::Tensor error = out.detach().to(at::kFloat) - exact;
  EXPECT_GT(error.abs().max().item<double>(), 0.0);
  // Of rows: where two experts are as likely rounding may choose the other.
  const at::Tensor rows = error.square().mean(1).sqrt();
  const at::Tensor typical = model.config.experts > 0 ? rows.median() : rows.square().mean().sqrt();
  EXPECT_LT(typical.item<double>(), 0.06 * exact.square().mean().sqrt().item<double>());
  out.sum().backward();
  for (const ModelWeight& w : weights(model)) {
    if (chooses(w)) continue;
    EXPECT_EQ(w.tensor->grad().scalar_type(), at::kFloat) << w.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, Trained,
                         ::testing::Values("llama", "llama_plain", "qwen2", "qwen3", "gemma3",
                                           "gemma3_softcap", "mistral", "mixtral", "smollm3",
                                           "gemma2", "phi3", "phi3_window", "granite", "olmo2",
                                           "olmo3", "glm4", "gpt_oss", "qwen2_moe", "olmoe",
                                           "glm4_moe", "glm4_moe_groups", "granite_moe", "ernie"),
                         [](const auto& family) { return family.param; });

// The logits of a document must not depend on the others of its batch, nor on what follows.
TEST(TrainedDecoder, RowsSeeTheirDocumentUpToThemselves) {
  const DecoderLm model = load(kTiny + "qwen3");
  Tokens tokens = some_tokens(model.config.vocab);
  const at::Tensor all = logits(model, tokens);
  tokens[3] = 5;   // of the first document
  tokens[20] = 6;  // of the last one, which begins at 10
  const at::Tensor moved = (logits(model, tokens) - all).abs().amax(1);
  for (const std::int64_t row : {0, 2, 9, 10, 19}) {
    EXPECT_EQ(moved[row].item<double>(), 0.0) << row;
  }
  for (const std::int64_t row : {3, 8, 20, 23}) EXPECT_GT(moved[row].item<double>(), 1e-4) << row;
}

TEST(TrainedDecoder, RefusesWhatItCannotRead) {
  const DecoderLm model = load(kTiny + "llama");
  const auto refuses = [&](const Tokens& tokens) {
    const std::span<const Token> document = tokens;
    EXPECT_THROW(training_hidden(model, {&document, 1}), std::invalid_argument);
  };
  refuses({});
  refuses({4, 160});
  refuses(Tokens(static_cast<std::size_t>(model.config.context) + 1, 3));
  DecoderLm stretched = model;
  stretched.config.rope_factors.assign(static_cast<std::size_t>(model.config.head_dim / 2), 2.0F);
  const testing::TempFolder folder;
  EXPECT_THROW(save_decoder(folder.path() / "x", stretched), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x"));
}

}  // namespace
}  // namespace forerun
