// Dream and LLaDA against PyTorch: their logits, and whole runs of their sampling loops, from both
// file formats; what is no such model is refused in one clear line.
#include "forerun/models/diffusion_lm/published_diffusion_lm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>

#include "forerun/models/diffusion_lm/denoise.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/checkpoint_copy.h"
#include "tests/support/tiny_diffusion.h"

namespace forerun {
namespace {

using Tokens = std::vector<Token>;

const std::string kDiffusion = FORERUN_SOURCE_DIR "/tests/data/diffusion_lm/";

DiffusionPasses from_folder(const std::string& name, Precision precision = Precision::kF32) {
  const std::string folder = kDiffusion + name;
  return DiffusionPasses(load_published_diffusion_lm(load_hf_config(folder),
                                                     load_safetensors(folder), folder, precision));
}

DiffusionPasses from_gguf(const std::string& name, Precision precision = Precision::kF32) {
  const Gguf file = load_gguf(kDiffusion + name + "/model.gguf");
  EXPECT_TRUE(is_published_diffusion_lm(file));
  return DiffusionPasses(load_published_diffusion_lm(file, precision));
}

class Published : public ::testing::TestWithParam<std::string> {
 protected:
  Safetensors expected = load_safetensors(kDiffusion + GetParam() + "/expected.safetensors");
  Tokens text = tokens_of(expected, "tokens");

  at::Tensor logits(const DiffusionPasses& passes) const {
    const Tokens places = tokens_of(expected, "places");
    DiffusionText read = passes.begin();
    const MaskedSpan span{.text = &read, .tokens = text, .places = places};
    return passes.forward({&span, 1}).clone().clamp_min(-1e30);
  }
};

TEST_P(Published, LogitsAreThoseOfPyTorch) {
  const at::Tensor reference = tensor_of(expected, "logits");
  EXPECT_LT(distance(logits(from_folder(GetParam())), reference), 1e-4);
  EXPECT_LT(distance(logits(from_gguf(GetParam())), reference), 1e-4);
  // Weights in the form of the file.
  EXPECT_LT(distance(logits(from_folder(GetParam(), Precision::kFile)), reference), 1e-4);
  EXPECT_LT(distance(logits(from_gguf(GetParam(), Precision::kFile)), reference), 1e-4);
  const at::Tensor told = reference.gt(-1e29);
  const auto spread = [&](const at::Tensor& x) {
    return x.masked_select(told).square().mean().sqrt().item<double>();
  };
  const auto error = [&](Precision p) {
    return spread(logits(from_folder(GetParam(), p)) - reference) / spread(reference);
  };
  EXPECT_LT(error(Precision::kBF16), 0.1);
  if (!cpu_features().int8()) return;
  EXPECT_LT(error(Precision::kInt8), 0.15);
}

// The rule, its steps and its blocks are in the name of a run.
TEST_P(Published, RunsAreThoseOfPyTorchTokenByToken) {
  const std::map<std::string, Unmasking> rules = {{"origin", Unmasking::kOrigin},
                                                  {"maskgit_plus", Unmasking::kMaskgitPlus},
                                                  {"topk_margin", Unmasking::kTopkMargin},
                                                  {"entropy", Unmasking::kEntropy},
                                                  {"low_confidence", Unmasking::kLowConfidence}};
  for (const bool gguf : {false, true}) {
    const DiffusionPasses passes = gguf ? from_gguf(GetParam()) : from_folder(GetParam());
    int runs = 0;
    for (const TensorView& t : expected.tensors()) {
      for (const auto& [name, rule] : rules) {
        if (!t.name.starts_with(name + "_")) continue;
        const std::string numbers = t.name.substr(name.size() + 1);
        const std::size_t cut = numbers.find('_');
        const DenoiseOptions options{
            .length = 16,
            .steps = std::stoll(numbers),
            .block = cut == std::string::npos ? 0 : std::stoll(numbers.substr(cut + 1)),
            .unmasking = rule,
            .seed = 11};
        EXPECT_EQ(denoise(passes, text, options), tokens_of(expected, t.name)) << t.name;
        ++runs;
      }
    }
    EXPECT_EQ(runs, GetParam() == "dream" ? 8 : 3);
  }
}

TEST_P(Published, AStepFillsMaskedPlacesAndChangesNoOther) {
  const DiffusionPasses passes = from_folder(GetParam());
  Tokens before(16, kMaskedToken);
  std::int64_t steps = 0;
  DenoiseOptions options{.length = 16, .steps = 6, .sampling = {.temperature = 0.8}, .seed = 5};
  const Tokens out =
      denoise(passes, text, options, [&](std::int64_t step, std::span<const Token> places) {
        EXPECT_EQ(step, steps++);
        for (std::size_t i = 0; i < places.size(); ++i) {
          EXPECT_TRUE(before[i] == kMaskedToken || places[i] == before[i]);
        }
        before.assign(places.begin(), places.end());
        return true;
      });
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(out, before);
  EXPECT_EQ(std::count(out.begin(), out.end(), kMaskedToken), 0);
  EXPECT_EQ(denoise(passes, text, options), out);
  options.seed = 6;
  EXPECT_NE(denoise(passes, text, options), out);
}

INSTANTIATE_TEST_SUITE_P(Models, Published, ::testing::Values("dream", "llada", "llada_moe"),
                         [](const auto& model) { return model.param; });

// One place is drawn from the model's law: chi-square of 2,000 draws over its likeliest tokens; a
// wrong temperature is noticed.
TEST(Denoise, APlaceFollowsTheLawOfItsTemperature) {
  const DiffusionPasses passes = from_folder("dream");
  const Tokens text = {5, 6, 7}, one = {kMaskedToken};
  DiffusionText read = passes.begin();
  const MaskedSpan span{.text = &read, .tokens = text, .places = one};
  const at::Tensor logits = passes.forward({&span, 1}).clone();
  const auto statistic = [&](double temperature) {
    const at::Tensor law = at::softmax(logits[0].to(at::kDouble) / temperature, 0);
    std::vector<int> counts(160, 0);
    constexpr int kDraws = 2000;
    for (int i = 0; i < kDraws; ++i) {
      const Tokens out = denoise(passes, text,
                                 {.length = 1,
                                  .steps = 1,
                                  .sampling = {.temperature = 1.0},
                                  .seed = static_cast<std::uint64_t>(i)});
      ++counts[static_cast<std::size_t>(out[0])];
    }
    const auto order = std::get<1>(law.sort(0, true));
    double chi = 0.0, rest = kDraws, rest_expected = kDraws;
    for (std::int64_t i = 0; i < 8; ++i) {
      const auto t = order[i].item<std::int64_t>();
      const double expected = kDraws * law[t].item<double>(),
                   seen = counts[static_cast<std::size_t>(t)];
      chi += (seen - expected) * (seen - expected) / expected;
      rest -= seen;
      rest_expected -= expected;
    }
    return chi + (rest - rest_expected) * (rest - rest_expected) / rest_expected;
  };
  EXPECT_LT(statistic(1.0), 37.0);  // 8 degrees of freedom: by chance below 1e-5
  EXPECT_GT(statistic(1.5), 37.0);
}

TEST(Denoise, ANetworkThatKeepsItsTextRunsToo) {
  const DiffusionPasses passes(tiny_diffusion("llama_plain", true));
  const Tokens text = count_up(9, 150);
  const Tokens out = denoise(passes, text, {.length = 5, .steps = 3});
  for (const Token t : out) EXPECT_EQ(t % 3, 1);  // of its outputs
}

TEST(Denoise, RefusesWhatCannotBeDone) {
  const DiffusionPasses passes = from_folder("llada");
  const Tokens text = {1, 2};
  for (const DenoiseOptions& o :
       {DenoiseOptions{.length = 0}, DenoiseOptions{.steps = 0},
        DenoiseOptions{.length = 4, .block = 2},
        DenoiseOptions{.length = 16, .block = 5, .unmasking = Unmasking::kLowConfidence},
        DenoiseOptions{
            .length = 16, .steps = 3, .block = 8, .unmasking = Unmasking::kLowConfidence},
        DenoiseOptions{.length = 400}}) {
    EXPECT_THROW(denoise(passes, text, o), std::invalid_argument);
  }
}

struct PublishedCopy : testing::CheckpointCopy {
  explicit PublishedCopy(const std::string& which)
      : CheckpointCopy(kDiffusion + which, "model.safetensors") {}
  void expect_says(const std::string& part) const {
    CheckpointCopy::expect_says(part, [&] {
      write();
      load_published_diffusion_lm(load_hf_config(folder.path()), load_safetensors(folder.path()),
                                  folder.path(), Precision::kF32);
    });
  }
};

TEST(PublishedDiffusionLm, RefusesOtherModelsAndDamage) {
  const auto says = [](const char* which, const std::string& part, const auto& change) {
    PublishedCopy copy(which);
    change(copy);
    copy.expect_says(part);
  };
  says("dream", "mask_token_id is missing", [](auto& c) { c.config.erase("mask_token_id"); });
  says("dream", "id 160", [](auto& c) { c.config["mask_token_id"] = 160; });
  says("llada", "'mask_token_id' is \"x\"", [](auto& c) { c.config["mask_token_id"] = "x"; });
  says("llada", "model_type Dream, llada and llada_moe are",
       [](auto& c) { c.config["model_type"] = "llama"; });
  says("llada", "'hidden_size' is missing", [](auto& c) { c.config.erase("d_model"); });
  says("llada", "'model.layers.1.mlp.gate_proj.weight' is missing",
       [](auto& c) { c.tensors.erase("model.transformer.blocks.1.ff_proj.weight"); });
  says("llada_moe", "3 of 2 experts", [](auto& c) {
    c.config["num_experts"] = 2;
    c.config["num_experts_per_tok"] = 3;
  });
  says("llada_moe", "'model.layers.0.mlp.experts.4.up_proj.weight' is missing",
       [](auto& c) { c.tensors.erase("model.layers.0.mlp.experts.4.up_proj.weight"); });
  says("llada_moe", "'model.layers.0.mlp.gate.weight' has shape [6, 32]",
       [](auto& c) { c.config["num_experts"] = 7; });
  says("llada_moe", "'norm_topk_prob' is not supported",
       [](auto& c) { c.config["norm_topk_prob"] = true; });
  says("llada_moe", "another router than softmax",
       [](auto& c) { c.config["moe_router_score_function"] = "sigmoid"; });
  says("llada_moe", "id 156895", [](auto& c) { c.config.erase("mask_token_id"); });
}

// Some published files have the type of LLaDA, and experts.
TEST(PublishedDiffusionLm, ExpertsAreKnownByTheirNumber) {
  PublishedCopy copy("llada_moe");
  copy.config["model_type"] = "llada";
  copy.write();
  const DiffusionLm m = load_published_diffusion_lm(load_hf_config(copy.folder.path()),
                                                    load_safetensors(copy.folder.path()),
                                                    copy.folder.path(), Precision::kF32);
  EXPECT_EQ(m.body.config.experts, 6);
  EXPECT_FALSE(m.config.shifted);
}

}  // namespace
}  // namespace forerun
