// Caches that share a prefix, and pools with limits, for models of every family and precision.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "forerun/models/decoder_lm.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

class SharedCache : public ::testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  void SetUp() override {
    const auto& [name, precision] = GetParam();
    if (precision == Precision::kInt8 && !cpu_features().int8()) {
      GTEST_SKIP() << "this processor has no AVX2";
    }
    model_ = load_decoder(load_gguf(kTiny + name + "/model.gguf"), precision);
    for (int i = 0; i < 200; ++i) text_.push_back(static_cast<Token>(i * i * 7 % 157));
  }
  bool int8() const { return std::get<1>(GetParam()) == Precision::kInt8; }
  std::span<const Token> text(std::size_t from, std::size_t n) const {
    return std::span(text_).subspan(from, n);
  }
  // The last logits of `parts`, read one after the other into a cache of their own.
  at::Tensor alone(const std::vector<std::span<const Token>>& parts) const {
    KvCache cache = model_.make_cache();
    at::Tensor out;
    for (const auto& part : parts) out = pass(model_, cache, part).clone();
    return out;
  }

  const c10::InferenceMode no_autograd_;
  DecoderLm model_;
  std::vector<Token> text_;
};

// Both write into the page in which they part, and into whole pages that one of them dropped.
TEST_P(SharedCache, SequencesThatPartEqualSeparateOnesBitForBit) {
  for (const std::size_t prefix : {1, 63, 64, 65, 130}) {
    const auto pool = std::make_shared<KvPool>();
    KvCache a = model_.make_cache(pool);
    pass(model_, a, text(0, prefix));
    KvCache b = a.share(static_cast<std::int64_t>(prefix));
    const at::Tensor of_a = pass(model_, a, text(140, 9)).clone();
    const at::Tensor of_b = pass(model_, b, text(150, 9)).clone();
    EXPECT_TRUE(at::equal(of_a, alone({text(0, prefix), text(140, 9)}))) << prefix;
    EXPECT_TRUE(at::equal(of_b, alone({text(0, prefix), text(150, 9)}))) << prefix;
    KvCache c = b.share(static_cast<std::int64_t>(prefix) / 2);
    b.truncate(static_cast<std::int64_t>(prefix));
    KvCache cut = model_.make_cache();
    pass(model_, cut, text(0, prefix));
    cut.truncate(static_cast<std::int64_t>(prefix) / 2);
    const at::Tensor of_cut = pass(model_, cut, text(160, 5)).clone();
    EXPECT_TRUE(at::equal(pass(model_, c, text(160, 5)), of_cut)) << prefix;
    EXPECT_TRUE(at::equal(pass(model_, b, text(170, 5)), alone({text(0, prefix), text(170, 5)})));
  }
}

TEST_P(SharedCache, SharedPagesAreCountedOnceAndAllGoBack) {
  const auto pool = std::make_shared<KvPool>();
  {
    KvCache a = model_.make_cache(pool);
    const std::size_t asked = a.bytes_to_reserve(130);
    pass(model_, a, text(0, 130));
    EXPECT_EQ(pool->used(), asked);
    EXPECT_EQ(a.bytes(), asked);
    KvCache b = a.share(130);
    const std::size_t more = b.bytes_to_reserve(1);
    if (int8()) {
      EXPECT_EQ(pool->used(), asked);
      EXPECT_EQ(more, asked / 3);  // the last of three pages is copied
    }
    const std::size_t before = pool->used();
    pass(model_, b, text(0, 1));
    EXPECT_EQ(pool->used(), before + more);
    EXPECT_EQ(b.bytes_to_reserve(1), 0U);
    if (int8()) {
      EXPECT_EQ(a.bytes_to_reserve(1), 0U);  // it is the only holder now
    }
    b.truncate(0);
    if (int8()) {
      EXPECT_EQ(pool->used(), asked);
    }
  }
  EXPECT_EQ(pool->used(), 0U);
}

TEST_P(SharedCache, AFullPoolStopsAPassBeforeAnythingIsWritten) {
  KvCache probe = model_.make_cache();
  const auto pool = std::make_shared<KvPool>(probe.bytes_to_reserve(1) * 3);
  KvCache a = model_.make_cache(pool), b = model_.make_cache(pool), c = model_.make_cache(pool),
          d = model_.make_cache(pool);
  pass(model_, a, text(0, 60));
  pass(model_, b, text(10, 20));
  const std::size_t used = pool->used();
  EXPECT_GT(pool->available(), 0U);
  // Any one of the four fits. Pages: a and b need one each. Tensors: c and d.
  const std::vector<Token> more(50, 3);
  const std::vector<SequenceSpan> both = {{.cache = int8() ? &a : &c, .tokens = more, .scored = 1},
                                          {.cache = int8() ? &b : &d, .tokens = more, .scored = 1}};
  EXPECT_THROW(forward(model_, both), KvPoolFull);
  EXPECT_EQ(pool->used(), used);
  EXPECT_EQ(a.length(), 60);
  EXPECT_EQ(b.length(), 20);
  EXPECT_TRUE(at::equal(pass(model_, a, text(60, 4)), alone({text(0, 60), text(60, 4)})));
  EXPECT_TRUE(at::equal(pass(model_, b, text(30, 4)), alone({text(10, 20), text(30, 4)})));
}

TEST_P(SharedCache, MoreThanThereIsCannotBeShared) {
  KvCache a = model_.make_cache();
  pass(model_, a, text(0, 5));
  EXPECT_THROW(a.share(6), std::invalid_argument);
  EXPECT_THROW(a.share(-1), std::invalid_argument);
  EXPECT_EQ(a.share(0).length(), 0);
}

INSTANTIATE_TEST_SUITE_P(Tiny, SharedCache,
                         ::testing::Combine(::testing::Values("llama", "qwen2", "gemma3"),
                                            ::testing::Values(Precision::kF32, Precision::kBF16,
                                                              Precision::kInt8)),
                         [](const auto& p) {
                           return std::get<0>(p.param) + "_" +
                                  std::string(name_of(std::get<1>(p.param)));
                         });

}  // namespace
}  // namespace forerun
