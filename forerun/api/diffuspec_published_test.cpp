// Dream and LLaDA as drafters, from both file formats: texts are those of plain decoding, drafts
// are what the diffusion model predicts by itself, and a vocabulary that is not the target's is
// refuses_published.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "forerun/diffusion_text.h"
#include "forerun/formats/dequantize.h"
#include "forerun/methods/diffuspec/diffuspec_drafter.h"
#include "forerun/models/diffusion_lm/published_diffusion_lm.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/text.h"
#include "tests/support/checkpoint_copy.h"
#include "tests/support/tiny_prompts.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using testing::options;
using testing::prompt;

const std::string kDiffusion = FORERUN_SOURCE_DIR "/tests/data/diffusion_lm/";
const std::string kTargetFolder = FORERUN_SOURCE_DIR "/tests/data/tiny/qwen2";

const Model& target() {
  static const Model model = Model::load(kTargetFolder, Precision::kF32);
  return model;
}

class DiffuSpecPublished : public ::testing::TestWithParam<std::string> {
 protected:
  std::string path() const { return kDiffusion + GetParam(); }
  Drafter drafter(const std::string& suffix, PrecisionRequest precision = Precision::kF32) const {
    return Drafter::load("diffuspec:" + path() + suffix, target(), precision);
  }
  DiffusionLm network() const {
    if (fs::is_directory(path())) {
      return load_published_diffusion_lm(load_hf_config(path()), load_safetensors(path()), path(),
                                         Precision::kF32);
    }
    return load_published_diffusion_lm(load_gguf(path()), Precision::kF32);
  }
};

const std::vector<std::string> kForms = {"", ":beams=0", ":length=paper:least=2:most=4",
                                         ":length=failfast:least=2:most=9:confidence=0.01",
                                         "+lookup+recycling"};

TEST_P(DiffuSpecPublished, TextsAreThePlainTexts) {
  for (const std::size_t length : {2U, 60U}) {
    const auto p = prompt(length);
    for (const auto& [rule, temperature] :
         {std::pair(Rule::kMaximal, 0.0), std::pair(Rule::kMatch, 0.8),
          std::pair(Rule::kSharedNoise, 0.8)}) {
      const Generated plain = generate(target(), Drafter(), p, options(rule, temperature, 40));
      for (const std::string& form : kForms) {
        const Generated g = generate(target(), drafter(form), p, options(rule, temperature, 40));
        EXPECT_EQ(g.tokens, plain.tokens) << form << " " << name_of(rule);
        EXPECT_GT(g.statistics.drafted, 0U) << form;
      }
    }
  }
}

TEST_P(DiffuSpecPublished, EveryPrecisionDrafts) {
  std::vector<Precision> all = {Precision::kF32, Precision::kBF16};
  if (cpu_features().int8()) all.push_back(Precision::kInt8);
  const auto p = prompt(20);
  const Generated plain = generate(target(), Drafter(), p, options(Rule::kSharedNoise, 0.8));
  for (const Precision precision : all) {
    const Generated g =
        generate(target(), drafter("", precision), p, options(Rule::kSharedNoise, 0.8));
    EXPECT_EQ(g.tokens, plain.tokens) << name_of(precision);
    EXPECT_GT(g.statistics.drafted, 0U);
  }
}

TEST_P(DiffuSpecPublished, CertificatesOfSampledChainsPass) {
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 4; ++i) prompts.push_back(prompt(30, i));
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
    const Certificate c =
        certify(target(), drafter(":most=4"), prompts, 400, 64, options(rule, 1.0));
    EXPECT_TRUE(c.passed()) << name_of(rule) << " z " << c.report.z;
    EXPECT_LT(std::abs(c.report.z), 4.0);
    EXPECT_GT(c.report.drafted, 20U);
  }
}

// Greedy drafts without a search are one denoising step of the model over as many places.
TEST_P(DiffuSpecPublished, DraftsAreOneStepOfTheModelByItself) {
  const auto alone = DiffusionLanguageModel::load(path(), Precision::kF32);
  auto method = std::make_shared<DiffuSpec>(network(), 160, 160);
  method->options.search.beams = 0;
  method->options.most = 6;
  DiffuSpecDrafter drafts(method);
  for (const std::size_t length : {1U, 7U, 90U}) {
    const auto p = prompt(length, static_cast<Token>(length % 5));
    TokenSequence text(1, static_cast<std::uint32_t>(length), p, 20, {},
                       {.sampling = {.temperature = 0.0}});
    TokenSequence* const one = &text;
    const std::size_t wanted = 6;
    const auto drafted = drafts.propose({&one, 1}, {&wanted, 1});
    const DiffusedText itself = generate_by_diffusion(
        alone, p, {.length = 6, .steps = 1, .sampling = {.temperature = 0.0}, .ignore_end = true});
    EXPECT_EQ(drafted[0].tokens, itself.tokens) << length;
  }
}

// Laws of sampled drafts are the model's, of the target's tokens alone.
TEST_P(DiffuSpecPublished, LawsOfSampledDraftsAreThoseOfThePass) {
  auto method = std::make_shared<DiffuSpec>(network(), 160, 150);
  method->options.most = 3;
  DiffuSpecDrafter drafts(method);
  const auto p = prompt(11);
  TokenSequence text(1, 7, p, 20, {}, {.sampling = {.temperature = 0.7}});
  TokenSequence* const one = &text;
  const std::size_t wanted = 3;
  const auto drafted = drafts.propose({&one, 1}, {&wanted, 1});
  ASSERT_EQ(drafted[0].laws.size(), 3U);
  const DiffusionPasses passes(network());
  DiffusionText read = passes.begin();
  const std::vector<Token> places(3, kMaskedToken);
  const MaskedSpan span{.text = &read, .tokens = p, .places = places};
  const at::Tensor q =
      at::softmax(passes.forward({&span, 1}).narrow(1, 0, 150).to(at::kDouble) / 0.7, 1);
  for (std::int64_t k = 0; k < 3; ++k) {
    const Categorical& law = drafted[0].laws[static_cast<std::size_t>(k)];
    for (std::int64_t t = 0; t < 160; ++t) {
      const double expected = t < 150 ? q[k][t].item<double>() : 0.0;
      ASSERT_NEAR(law.prob(static_cast<Token>(t)), expected, 1e-6) << k << " " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DiffuSpecPublished,
                         ::testing::Values("dream", "llada", "dream/model.gguf",
                                           "llada/model.gguf"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

void refuses_published(const std::string& path, const std::string& says,
                       const Model& by = target()) {
  try {
    Drafter::load("diffuspec:" + path, by);
    FAIL() << path << " was accepted";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << "one line: " << e.what();
  }
}

TEST(DiffuSpecVocabulary, AnotherOneIsRefusedWithTheDifference) {
  for (const std::string file : {"dream", "dream/model.gguf", "llada", "llada/model.gguf"}) {
    refuses_published(kDiffusion + file, "vocabularies differ: 176 and 160 entries",
                      testing::tiny());
  }
}

TEST(DiffuSpecVocabulary, FilesThatAreNoDrafterAreRefused) {
  refuses_published(kTargetFolder, "not a diffusion language model");
  refuses_published(FORERUN_SOURCE_DIR "/tests/data/tiny/qwen2/model.gguf", "'qwen2'");
  const testing::TempFolder folder;
  const fs::path file = folder.path() / "text.gguf";
  std::ofstream(file) << "not a model";
  refuses_published(file.string(), file.string());
  testing::CheckpointCopy copy(kDiffusion + "dream", "model.safetensors");
  fs::copy(kDiffusion + "dream/tokenizer.json", copy.folder.path());
  copy.config.erase("mask_token_id");
  copy.write();
  refuses_published(copy.folder.path().string(), "mask_token_id is missing");
}

// A copy of a model with `more` rows of embedding and head; those of the head are `scale` times
// its first ones.
struct Padded {
  testing::CheckpointCopy copy;
  std::vector<std::vector<float>> memory;

  Padded(const std::string& from, std::int64_t vocab, const std::vector<std::string>& matrices,
         float scale)
      : copy(from, "model.safetensors") {
    fs::copy(from + "/tokenizer.json", copy.folder.path());
    copy.config["vocab_size"] = vocab;
    for (const std::string& name : matrices) {
      TensorView& t = copy.tensors.at(name);
      const auto columns = static_cast<std::size_t>(t.shape[1]);
      std::vector<float> values(static_cast<std::size_t>(vocab) * columns);
      const auto stored = static_cast<std::size_t>(t.shape[0]) * columns;
      dequantize(t.dtype, t.bytes, std::span(values).first(stored));
      for (std::size_t i = stored; i < values.size(); ++i) values[i] = scale * values[i - stored];
      t.dtype = DType::kF32;
      t.shape[0] = vocab;
      memory.push_back(std::move(values));
      t.bytes = std::as_bytes(std::span(memory.back()));
    }
    copy.write();
  }
  std::string path() const { return copy.folder.path().string(); }
};

// Dream has rows that the target lacks; here they score highest.
TEST(DiffuSpecVocabulary, IdsBeyondTheTargetsAreNeverDrafted) {
  const Padded dream(kDiffusion + "dream", 200, {"model.embed_tokens.weight", "lm_head.weight"},
                     50.0F);
  const auto network = load_published_diffusion_lm(
      load_hf_config(dream.path()), load_safetensors(dream.path()), dream.path(), Precision::kF32);
  auto method = std::make_shared<DiffuSpec>(network, 160, 160);
  DiffuSpecDrafter drafts(method);
  for (const double temperature : {0.0, 1.0}) {
    const auto p = prompt(9);
    TokenSequence text(1, 3, p, 40, {}, {.sampling = {.temperature = temperature}});
    TokenSequence* const one = &text;
    const std::size_t wanted = 16;
    const auto drafted = drafts.propose({&one, 1}, {&wanted, 1});
    ASSERT_FALSE(drafted[0].tokens.empty());
    for (const Token t : drafted[0].tokens) EXPECT_LT(t, 160);
    drafts.forget(text.id());
  }
  const Drafter d = Drafter::load("diffuspec:" + dream.path(), target());
  const auto o = options(Rule::kSharedNoise, 0.8);
  EXPECT_EQ(generate(target(), d, prompt(20), o).tokens,
            generate(target(), Drafter(), prompt(20), o).tokens);
}

// A target may be padded beyond what the network knows: there nothing is drafted.
TEST(DiffuSpecVocabulary, ATextWithAnUnknownTokenIsWrittenPlain) {
  const Padded wide(kTargetFolder, 200, {"model.embed_tokens.weight"}, 0.01F);
  const Model padded = Model::load(wide.path(), Precision::kF32);
  const Drafter d = Drafter::load("diffuspec:" + kDiffusion + "dream", padded);
  const auto o = options(Rule::kMaximal, 0.0);
  auto p = prompt(20);
  EXPECT_GT(generate(padded, d, p, o).statistics.drafted, 0U);
  p[4] = 190;
  const Generated g = generate(padded, d, p, o);
  EXPECT_EQ(g.statistics.drafted, 0U);
  EXPECT_EQ(g.tokens, generate(padded, Drafter(), p, o).tokens);
}

}  // namespace
}  // namespace forerun
