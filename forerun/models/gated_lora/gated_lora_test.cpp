// Rows of masks beside rows of text in one pass: the text keeps its bits, the masks are those of
// training.
#include "forerun/models/gated_lora/gated_lora.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <tuple>

#include "forerun/models/gated_lora/gated_lora_file.h"
#include "forerun/models/gated_lora/mask_model.h"
#include "forerun/models/gated_lora/mask_training.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

const std::string kTidar = FORERUN_SOURCE_DIR "/tests/data/tidar/";

GatedLora adapters(const std::string& name, const DecoderConfig& c) {
  return load_gated_lora(kTidar + name, c, name);
}

std::vector<Token> text_of(std::int64_t n, std::int64_t vocab) {
  std::vector<Token> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<Token>(i * i * 7 % (vocab - 3)));
  return out;
}

// Drafts, and for every number of them that may be kept a block of masks behind them: the rows of
// TiDAR's step (arXiv:2511.08923, section 3.2).
struct Step {
  std::vector<Token> tokens;
  std::vector<std::int32_t> parents, groups, skips, masks;

  Step(const std::vector<Token>& drafts, const GatedLoraConfig& c) {
    for (const Token t : drafts) add(t, rows() - 1, -1, 0);
    const std::int32_t kept = rows();
    for (std::int32_t r = 0; r < kept; ++r) {
      for (std::int64_t s = 0; s < c.slots(); ++s) {
        masks.push_back(rows());
        add(0, s == 0 ? r : rows() - 1, r, s == 0 ? static_cast<std::int32_t>(c.first_slot) : 0);
      }
    }
  }
  std::int32_t rows() const { return static_cast<std::int32_t>(tokens.size()); }
  void add(Token token, std::int32_t parent, std::int32_t group, std::int32_t skip) {
    tokens.push_back(token);
    parents.push_back(parent);
    groups.push_back(group);
    skips.push_back(skip);
  }
  SequenceSpan span(KvCache& cache, const GatedLora* lora) const {
    SequenceSpan out{.cache = &cache,
                     .tokens = tokens,
                     .scored = rows(),
                     .parents = parents,
                     .groups = groups,
                     .skips = skips};
    if (lora != nullptr) {
      out.adapters = lora;
      out.masks = masks;
    }
    return out;
  }
};

// With adapters, or without: those of a model that was trained whole.
class GatedRows : public ::testing::TestWithParam<std::tuple<std::string, Precision, bool>> {
 protected:
  void SetUp() override {
    const auto& [name, precision, adapted] = GetParam();
    if (int8() && !cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    model_ = load_decoder(load_gguf(kTiny + name + "/model.gguf"), precision);
    whole_ = adapted ? adapters(name, model_.config) : masks_alone();
    lora_ = in_precision(whole_, precision);
    text_ = text_of(40, model_.config.vocab);
  }
  void TearDown() override { at::set_num_threads(1); }
  GatedLora masks_alone() const {
    const GatedLoraConfig c = mask_config(model_.config, 4, 1, 0);
    return initial_gated_lora(c, at::cos(at::arange(c.hidden, at::kFloat)), 1);
  }
  bool int8() const { return std::get<1>(GetParam()) == Precision::kInt8; }
  Step step() const { return Step({3, 1, 4, 1}, lora_.config); }
  KvCache read(std::size_t n) const {
    KvCache cache = model_.make_cache();
    pass(model_, cache, std::span(text_).first(n));
    return cache;
  }
  at::Tensor logits(const Step& step, KvCache& cache, const GatedLora* lora) const {
    const SequenceSpan span = step.span(cache, lora);
    return forward(model_, {&span, 1}).clone();
  }

  const c10::InferenceMode no_autograd_;
  DecoderLm model_;
  GatedLora whole_, lora_;
  std::vector<Token> text_;
};

TEST_P(GatedRows, TextKeepsItsBitsAndMasksDoNot) {
  const Step step = this->step();
  KvCache with = read(20), without = read(20);
  const at::Tensor a = logits(step, with, &lora_), b = logits(step, without, nullptr);
  EXPECT_TRUE(at::equal(a.narrow(0, 0, 4), b.narrow(0, 0, 4)));
  for (const std::int32_t row : step.masks) EXPECT_FALSE(at::equal(a[row], b[row])) << row;
  // What is kept of the two passes is the same as well.
  const std::vector<std::int32_t> path = {0, 1, 2};
  with.keep(path);
  without.keep(path);
  const auto rest = std::span(text_).subspan(23, 5);
  EXPECT_TRUE(at::equal(pass(model_, with, rest), pass(model_, without, rest)));
}

TEST_P(GatedRows, InInt8AreTheSameBitForBitInAnyCompany) {
  if (!int8()) GTEST_SKIP() << "float products round by the number of rows";
  const Step step = this->step();
  KvCache alone = read(20);
  const at::Tensor expected = logits(step, alone, &lora_);
  at::set_num_threads(3);
  const GatedLora others = in_precision(whole_, Precision::kInt8);
  const Step other({2, 7}, lora_.config), plain({5, 5, 5}, lora_.config);
  KvCache one = read(9), two = read(20), three = read(15);
  const std::vector<SequenceSpan> spans = {other.span(one, &others), step.span(two, &lora_),
                                           plain.span(three, nullptr)};
  const at::Tensor packed = forward(model_, spans);
  EXPECT_TRUE(at::equal(packed.narrow(0, other.rows(), step.rows()), expected));
  // A replica in a pass of its own.
  KvCache fourth = read(20);
  pass(model_, fourth, std::span(step.tokens).first(3));
  Step last({}, lora_.config);
  const auto slots = static_cast<std::int32_t>(lora_.config.slots());
  for (std::int32_t s = 0; s < slots; ++s) {
    last.masks.push_back(s);
    last.add(0, s - 1, 0, s == 0 ? static_cast<std::int32_t>(lora_.config.first_slot) : 0);
  }
  EXPECT_TRUE(at::equal(logits(last, fourth, &lora_), expected.narrow(0, 4 + 2 * slots, slots)));
}

TEST_P(GatedRows, AreNearThoseOfFloat32) {
  const auto& [name, precision, adapted] = GetParam();
  if (precision == Precision::kF32) GTEST_SKIP();
  const DecoderLm exact = load_decoder(load_gguf(kTiny + name + "/model.gguf"), Precision::kF32);
  const Step step = this->step();
  KvCache cache = read(20), other = exact.make_cache();
  pass(exact, other, std::span(text_).first(20));
  const SequenceSpan span = step.span(other, &whole_);
  const at::Tensor there = forward(exact, {&span, 1}), here = logits(step, cache, &lora_);
  const auto error = [&](std::int64_t first, std::int64_t rows) {
    const at::Tensor d = here.narrow(0, first, rows) - there.narrow(0, first, rows);
    return (d.norm() / there.narrow(0, first, rows).norm()).item<double>();
  };
  // A wrong scale or row would be far larger.
  EXPECT_LT(error(4, step.rows() - 4), 0.15);
}

TEST_P(GatedRows, AreThoseOfTraining) {
  const auto& [name, precision, adapted] = GetParam();
  if (precision != Precision::kF32) GTEST_SKIP();
  const Step step = this->step();
  KvCache cache = read(20);
  const at::Tensor here = logits(step, cache, &lora_).narrow(0, 4, step.rows() - 4);
  std::vector<Token> text(text_.begin(), text_.begin() + 20);
  text.insert(text.end(), step.tokens.begin(), step.tokens.begin() + 4);
  text.push_back(0);  // the last block begins inside the document
  const MaskStates states =
      mask_states(model_, whole_, {.documents = {text}, .starts = {{21, 22, 23, 24}}});
  const at::Tensor there =
      head_logits(model_, states.masks.reshape({-1, model_.config.hidden})).to(at::kFloat);
  EXPECT_LT(distance(here, there), 1e-4 * there.abs().max().item<double>());
}

TEST_P(GatedRows, ThatHaveNoMeaningAreRefused) {
  const Step step = this->step();
  KvCache cache = read(20);
  SequenceSpan span = step.span(cache, &lora_);
  const auto refused = [&] {
    EXPECT_THROW(forward(model_, {&span, 1}), std::invalid_argument);
    EXPECT_EQ(cache.length(), 20);
  };
  span.adapters = nullptr;
  refused();
  span = step.span(cache, &lora_);
  const std::vector<std::int32_t> falling = {5, 4}, outside = {step.rows()};
  span.masks = falling;
  refused();
  span.masks = outside;
  refused();
  GatedLora other = lora_;
  other.config.hidden += 1;
  span = step.span(cache, &other);
  refused();
}

INSTANTIATE_TEST_SUITE_P(Tiny, GatedRows,
                         ::testing::Combine(::testing::Values("llama_plain", "qwen3", "gemma3"),
                                            ::testing::Values(Precision::kF32, Precision::kBF16,
                                                              Precision::kInt8),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  std::string(name_of(std::get<1>(test.param))) +
                                  (std::get<2>(test.param) ? "" : "_whole");
                         });

}  // namespace
}  // namespace forerun
