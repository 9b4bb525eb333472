// Nemotron-Labs-Diffusion: its decoder, its adapter and the rows of its draft pass against PyTorch
// (tools/make_nemotron_values.py).
#include "forerun/models/gated_lora/peft_adapters.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "forerun/models/save_decoder.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kFolder = FORERUN_SOURCE_DIR "/tests/data/nemotron";
const fs::path kAdapter = kFolder / "linear_spec_lora";
constexpr std::int64_t kRows = 8;
constexpr Token kMask = 100;

DecoderLm nemotron(Precision precision) {
  return load_decoder(load_hf_config(kFolder), load_safetensors(kFolder), kFolder, precision);
}

const Safetensors& expected() {
  static const Safetensors values = load_safetensors(kFolder / "expected.safetensors");
  return values;
}

// Minus infinity in both, or near.
double difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_TRUE(at::equal(a.isinf(), b.isinf()));
  return distance(a.nan_to_num(0.0, 0.0, 0.0), b.nan_to_num(0.0, 0.0, 0.0));
}

// The text's rows after `cached` tokens, then a block behind the last but one: a copy of row `at`
// and masks.
struct Rows {
  std::vector<Token> tokens;
  std::vector<std::int32_t> parents, groups, skips, masks;

  Rows(std::span<const Token> text, std::int32_t at) {
    for (const Token t : text) add(t, static_cast<std::int32_t>(tokens.size()) - 1, -1);
    add(text[static_cast<std::size_t>(at)], at - 1, 0);
    for (std::int64_t i = 1; i < kRows; ++i) {
      add(kMask, static_cast<std::int32_t>(tokens.size()) - 1, 0);
    }
    for (auto i = static_cast<std::int32_t>(text.size()); i < std::ssize(tokens); ++i) {
      masks.push_back(i);
    }
  }
  void add(Token token, std::int32_t parent, std::int32_t group) {
    tokens.push_back(token);
    parents.push_back(parent);
    groups.push_back(group);
    skips.push_back(0);
  }
  at::Tensor logits(const DecoderLm& model, KvCache& cache, const GatedLora* lora) const {
    const SequenceSpan span{.cache = &cache,
                            .tokens = tokens,
                            .scored = std::ssize(tokens),
                            .parents = parents,
                            .groups = groups,
                            .skips = skips,
                            .adapters = lora,
                            .masks = lora != nullptr ? std::span<const std::int32_t>(masks)
                                                     : std::span<const std::int32_t>()};
    return forward(model, {&span, 1}).clone();
  }
};

KvCache read(const DecoderLm& model, std::size_t n) {
  KvCache cache = model.make_cache();
  const auto text = tokens_of(expected(), "tokens");
  prefill(model, cache, std::span(text).first(n));
  return cache;
}

TEST(Nemotron, LogitsAreThoseOfPyTorch) {
  const c10::InferenceMode no_autograd;
  const DecoderLm model = nemotron(Precision::kF32);
  EXPECT_EQ(model.config.query_growth, (QueryGrowth{.beta = 0.1, .context = 64.0}));
  KvCache cache = model.make_cache();
  const auto text = tokens_of(expected(), "tokens");
  ASSERT_GT(text.size(), 2U * 64U);  // beyond the original context
  const at::Tensor logits = pass(model, cache, text);
  EXPECT_LT(difference(logits, tensor_of(expected(), "logits")), 1e-4);
  EXPECT_TRUE(logits.select(1, kMask).isinf().all().item<bool>());
}

// A row's bits do not depend on the pass: neither on its place among grown queries.
TEST(Nemotron, InInt8ARowAloneHasTheBitsOfAPass) {
  if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  const c10::InferenceMode no_autograd;
  const DecoderLm model = nemotron(Precision::kInt8);
  const auto text = tokens_of(expected(), "tokens");
  KvCache whole = model.make_cache();
  const at::Tensor all = pass(model, whole, text).clone();
  KvCache one = read(model, 133);
  EXPECT_TRUE(at::equal(pass(model, one, std::span(text).subspan(133, 1))[0], all[133]));
}

TEST(Nemotron, LowerPrecisionsAreNear) {
  const c10::InferenceMode no_autograd;
  const at::Tensor exact = tensor_of(expected(), "logits").nan_to_num(0.0, 0.0, 0.0);
  const auto text = tokens_of(expected(), "tokens");
  for (const Precision precision : {Precision::kBF16, Precision::kInt8}) {
    if (precision == Precision::kInt8 && !cpu_features().int8()) continue;
    const DecoderLm model = nemotron(precision);
    KvCache cache = model.make_cache();
    const at::Tensor error = pass(model, cache, text).nan_to_num(0.0, 0.0, 0.0) - exact;
    // Beyond the original context too.
    for (const std::int64_t at : {0, 70, 130}) {
      const double share =
          (error.narrow(0, at, 20).norm() / exact.narrow(0, at, 20).norm()).item<double>();
      EXPECT_LT(share, 0.15) << name_of(precision) << " " << at;
    }
  }
}

TEST(Nemotron, DraftRowsAreThoseOfTheLinearLoop) {
  const c10::InferenceMode no_autograd;
  const DecoderLm model = nemotron(Precision::kF32);
  const auto text = tokens_of(expected(), "tokens");
  const GatedLora adapters = load_peft_adapters(kAdapter, model.config, kRows);
  const GatedLora none = seeded_masks(model.config, kRows);
  EXPECT_EQ(adapters.config.rank, 4);
  EXPECT_EQ(adapters.config.rows(), kRows);
  for (const std::size_t after : {20U, 70U, 140U}) {
    for (const auto& [name, lora] : {std::pair{"draft_", &adapters}, std::pair{"plain_", &none}}) {
      const at::Tensor want = tensor_of(expected(), name + std::to_string(after));
      // After the newest token, and after a draft that is verified in the same pass.
      for (const std::size_t drafts : {0U, 3U}) {
        KvCache cache = read(model, after - drafts);
        const Rows rows(std::span<const Token>(text).subspan(after - drafts, drafts + 2),
                        static_cast<std::int32_t>(drafts));
        const at::Tensor logits = rows.logits(model, cache, lora);
        const std::int64_t clean = std::ssize(rows.tokens) - kRows;
        EXPECT_LT(difference(logits.narrow(0, clean, kRows), want), 1e-4) << name << after;
        const at::Tensor causal = tensor_of(expected(), "logits")
                                      .narrow(0, static_cast<std::int64_t>(after - drafts), clean);
        EXPECT_LT(difference(logits.narrow(0, 0, clean), causal), 1e-4) << name << after;
      }
    }
  }
}

TEST(Nemotron, TextKeepsItsBitsBesideTheAdapter) {
  const c10::InferenceMode no_autograd;
  for (const Precision precision : {Precision::kF32, Precision::kBF16, Precision::kInt8}) {
    if (precision == Precision::kInt8 && !cpu_features().int8()) continue;
    const DecoderLm model = nemotron(precision);
    const GatedLora lora =
        in_precision(load_peft_adapters(kAdapter, model.config, kRows), precision);
    const auto text = tokens_of(expected(), "tokens");
    const Rows rows(std::span<const Token>(text).subspan(70, 4), 2);
    KvCache with = read(model, 70), without = read(model, 70);
    const at::Tensor a = rows.logits(model, with, &lora), b = rows.logits(model, without, nullptr);
    EXPECT_TRUE(at::equal(a.narrow(0, 0, 4), b.narrow(0, 0, 4))) << name_of(precision);
    for (std::int64_t row = 4; row < 4 + kRows; ++row) EXPECT_FALSE(at::equal(a[row], b[row]));
    const std::vector<std::int32_t> path = {0, 1, 2, 3};
    with.keep(path);
    without.keep(path);
    const auto rest = std::span(text).subspan(74, 5);
    EXPECT_TRUE(at::equal(pass(model, with, rest), pass(model, without, rest)));
    // What the adapter adds is near its float32 value.
    if (precision == Precision::kF32) continue;
    const DecoderLm exact = nemotron(Precision::kF32);
    const GatedLora wide = load_peft_adapters(kAdapter, exact.config, kRows);
    KvCache third = read(exact, 70);
    const at::Tensor want =
        rows.logits(exact, third, &wide).narrow(0, 4, kRows).nan_to_num(0.0, 0.0, 0.0);
    const at::Tensor error = a.narrow(0, 4, kRows).nan_to_num(0.0, 0.0, 0.0) - want;
    EXPECT_LT((error.norm() / want.norm()).item<double>(), 0.2) << name_of(precision);
  }
}

TEST(Nemotron, IsWrittenAsItWasRead) {
  const c10::InferenceMode no_autograd;
  const testing::TempFolder folder;
  const DecoderLm model = nemotron(Precision::kF32);
  save_decoder(folder.path(), model);
  const DecoderLm read =
      load_decoder(load_hf_config(folder.path()), load_safetensors(folder.path()), folder.path(),
                   Precision::kF32);
  const auto text = tokens_of(expected(), "tokens");
  KvCache one = model.make_cache(), two = read.make_cache();
  EXPECT_TRUE(at::equal(pass(model, one, text), pass(read, two, text)));
}

TEST(Nemotron, YarnIsThatOfPyTorch) {
  const auto near = [](const std::string& name, const json& rope) {
    json config = load_hf_config(kTiny + "llama").config;
    config.erase("rope_scaling");
    config["head_dim"] = 64;
    config["rope_parameters"] = rope;
    const auto c = parse_decoder_config(config);
    ASSERT_TRUE(c) << c.error().message;
    const at::Tensor want = tensor_of(expected(), name);
    const std::vector<float> got = inverse_frequencies(*c, false);
    for (std::int64_t j = 0; j < 32; ++j) {
      const auto value = want[j].item<float>();
      EXPECT_NEAR(got[static_cast<std::size_t>(j)], value, 1e-6 * value) << name << " " << j;
    }
    EXPECT_NEAR(rope_size(*c, false), want[32].item<double>(), 1e-6);
  };
  near("yarn_0", {{"rope_type", "yarn"},
                  {"rope_theta", 1e6},
                  {"factor", 16.0},
                  {"original_max_position_embeddings", 16384},
                  {"beta_fast", 32.0},
                  {"beta_slow", 1.0},
                  {"mscale", 1.0},
                  {"mscale_all_dim", 1.0}});
  near("yarn_1", {{"rope_type", "yarn"},
                  {"rope_theta", 1e6},
                  {"factor", 4.0},
                  {"original_max_position_embeddings", 32768}});
  near("yarn_2", {{"rope_type", "yarn"},
                  {"rope_theta", 1e4},
                  {"factor", 40.0},
                  {"original_max_position_embeddings", 4096},
                  {"mscale", 0.707},
                  {"mscale_all_dim", 1.0},
                  {"truncate", false}});
}

// One clear line for what cannot be read.
class PeftFolder : public ::testing::Test {
 protected:
  void SetUp() override { fs::copy(kAdapter, folder.path(), fs::copy_options::recursive); }
  std::string complaint(const DecoderConfig& of, std::int64_t rows = kRows) const {
    try {
      load_peft_adapters(folder.path(), of, rows);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "";
  }
  void expect_said(const std::string& line, const std::string& words) const {
    EXPECT_NE(line.find(words), line.npos) << line;
    EXPECT_EQ(line.find(folder.path().string()), 0U) << line;
    EXPECT_EQ(line.find('\n'), line.npos) << line;
  }
  void expect_said(const std::string& words, const std::function<void(json&)>& change) const {
    json changed = load_json_object(kAdapter / "adapter_config.json");
    change(changed);
    std::ofstream(folder.path() / "adapter_config.json") << changed;
    expect_said(complaint(decoder), words);
  }
  testing::TempFolder folder;
  DecoderConfig decoder = *parse_decoder_config(load_hf_config(kFolder).config);
};

TEST_F(PeftFolder, OfOtherSizesOrPartsIsRefusedInALine) {
  DecoderConfig other = decoder;
  other.hidden = 64;
  expect_said(complaint(other), "has shape [48, 4]");
  other = decoder;
  other.layers = 2;
  expect_said(complaint(other), "more layers than this one's 2");
  other.layers = 4;
  expect_said(complaint(other), "is missing");
  other = decoder;
  other.mask_token.reset();
  expect_said(complaint(other), "no mask token");
  expect_said(complaint(decoder, 2), "a block of 2 rows");
  expect_said("sizes ask for [8, 128]", [](json& c) { c["r"] = 8; });
  expect_said("'r' is missing", [](json& c) { c.erase("r"); });
  expect_said("out of range", [](json& c) { c["r"] = 0; });
  expect_said("o_proj alone", [](json& c) { c["target_modules"] = {"q_proj", "o_proj"}; });
  expect_said("use_dora", [](json& c) { c["use_dora"] = true; });
  expect_said("rank_pattern", [](json& c) { c["rank_pattern"] = {{"layers.0", 2}}; });
  expect_said("peft_type", [](json& c) { c["peft_type"] = "IA3"; });
  std::ofstream(folder.path() / "adapter_config.json") << "{";
  EXPECT_NE(complaint(decoder), "");
}

TEST_F(PeftFolder, HalfAFileIsRefusedInALine) {
  const fs::path weights = folder.path() / "adapter_model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) / 2);
  expect_said(complaint(decoder), "adapter_model.safetensors");
  fs::remove(weights);
  expect_said(complaint(decoder), "adapter_model.safetensors");
}

TEST(NemotronConfig, OutOfRangeIsRefused) {
  const auto complaint = [](const std::function<void(json&)>& change) {
    json config = load_hf_config(kFolder).config;
    change(config);
    const auto parsed = parse_decoder_config(config);
    return parsed ? std::string() : parsed.error().message;
  };
  EXPECT_EQ(complaint([](json&) {}), "");
  EXPECT_NE(complaint([](json& c) { c["mask_token_id"] = 160; }).find("mask_token_id 160"),
            std::string::npos);
  EXPECT_NE(complaint([](json& c) { c.erase("mask_token_id"); }).find("mask_token_id"),
            std::string::npos);
  EXPECT_NE(complaint([](json& c) { c["mask_token_id"] = -5; }).find("mask_token_id"),
            std::string::npos);
  for (const char* key : {"factor", "original_max_position_embeddings", "beta_slow", "beta_fast"}) {
    EXPECT_NE(complaint([&](json& c) { c["rope_parameters"][key] = 0.0; }), "") << key;
    EXPECT_NE(complaint([&](json& c) { c["rope_parameters"][key] = "x"; }), "") << key;
  }
  EXPECT_NE(complaint([](json& c) { c["rope_parameters"]["llama_4_scaling_beta"] = -1.0; }), "");
  EXPECT_NE(complaint([](json& c) { c["sliding_window"] = 4096; }), "");
}

}  // namespace
}  // namespace forerun
