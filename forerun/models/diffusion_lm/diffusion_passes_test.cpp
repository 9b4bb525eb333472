// Passes that keep their text: the same however the text arrives, in whatever company, and without
// a trace of what was only looked at. And passes in which every row sees every other.
#include "forerun/models/diffusion_lm/diffusion_passes.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_diffusion.h"

namespace forerun {
namespace {

using Tokens = std::vector<Token>;

Tokens masks(std::size_t n) { return Tokens(n, kMaskedToken); }

class BlockPasses : public ::testing::TestWithParam<std::string> {
 protected:
  DiffusionPasses passes(Precision precision = Precision::kF32, bool reduced = false) const {
    return DiffusionPasses(in_precision(tiny_diffusion(GetParam(), reduced), precision));
  }
  // A text read in pieces; places are looked at behind every piece but the last, which has `last`.
  static at::Tensor in_pieces(const DiffusionPasses& network, const Tokens& text,
                              const std::vector<std::size_t>& sizes, std::size_t looks,
                              const Tokens& last) {
    DiffusionText read = network.begin();
    at::Tensor out;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++]) {
      const Tokens places = i + 1 < sizes.size() ? masks(looks) : last;
      const MaskedSpan span{
          .text = &read, .tokens = std::span(text).subspan(begin, sizes[i]), .places = places};
      out = network.forward({&span, 1}).clone();
    }
    EXPECT_EQ(read.length(), static_cast<std::int64_t>(text.size()));
    return out;
  }
};

TEST_P(BlockPasses, PlacesThatWereLookedAtLeaveNoTrace) {
  const Tokens text = count_up(23, 150);
  for (const Precision precision : {Precision::kF32, Precision::kInt8}) {
    if (precision == Precision::kInt8 && !cpu_features().int8()) continue;
    const DiffusionPasses network = passes(precision);
    const at::Tensor once = in_pieces(network, text, {23}, 0, masks(4));
    ASSERT_EQ(once.sizes(), (at::IntArrayRef{4, network.config().outputs}));
    const double bound = precision == Precision::kInt8 ? 0.0 : 1e-4;
    for (const std::size_t looks : {0, 1, 6}) {
      EXPECT_LE(distance(in_pieces(network, text, {9, 1, 13}, looks, masks(4)), once), bound)
          << looks << " in " << name_of(precision);
    }
  }
}

TEST_P(BlockPasses, Int8RowsAreTheSameInAnyCompany) {
  if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  const DiffusionPasses network = passes(Precision::kInt8);
  const Tokens a = count_up(200, 150), b = count_up(4, 150);
  const Tokens some = masks(5);
  DiffusionText first = network.begin(), second = network.begin();
  const MaskedSpan both[] = {{.text = &first, .tokens = a, .places = some},
                             {.text = &second, .tokens = b, .places = some}};
  const at::Tensor together = network.forward(both).clone();
  EXPECT_EQ(distance(together.narrow(0, 0, 5), in_pieces(network, a, {200}, 0, some)), 0.0);
  EXPECT_EQ(distance(together.narrow(0, 5, 5), in_pieces(network, b, {4}, 0, some)), 0.0);
}

// Int8 passes in 4 bits against the float network of the rounded weights, which in_precision makes.
TEST(FourBitDiffusion, IsNearTheRoundedNetwork) {
  DiffusionLm made = tiny_diffusion("qwen3", true);
  made.config.weight_bits = 4;
  const Tokens text = count_up(23, 150), some = masks(5);
  const auto logits = [&](const DiffusionLm& network, Precision precision) {
    const DiffusionPasses passes(in_precision(network, precision));
    DiffusionText read = passes.begin();
    const MaskedSpan span{.text = &read, .tokens = text, .places = some};
    return passes.forward({&span, 1}).clone();
  };
  const at::Tensor rounded = logits(made, Precision::kF32);
  DiffusionLm plain = made;
  plain.config.weight_bits = 0;
  EXPECT_TRUE(at::equal(rounded, logits(rounded_to_four_bits(plain), Precision::kF32)));
  const double by_rounding = distance(rounded, logits(plain, Precision::kF32));
  EXPECT_GT(by_rounding, 1e-3);
  if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  EXPECT_LT(distance(rounded, logits(made, Precision::kInt8)), 0.5 * by_rounding);
}

TEST_P(BlockPasses, ASharedTextGoesOnAsItsOwn) {
  const DiffusionPasses network = passes();
  const Tokens text = count_up(12, 150), other = {3, 1, 4}, some = masks(3);
  DiffusionText whole = network.begin();
  const MaskedSpan all{.text = &whole, .tokens = text, .places = some};
  network.forward({&all, 1});
  DiffusionText half = whole.share(7);
  EXPECT_EQ(half.length(), 7);
  const MaskedSpan next{.text = &half, .tokens = other, .places = some};
  Tokens written(text.begin(), text.begin() + 7);
  written.insert(written.end(), other.begin(), other.end());
  EXPECT_LT(
      distance(network.forward({&next, 1}).clone(), in_pieces(network, written, {10}, 0, some)),
      1e-4);
}

// A place that is filled in is seen by the others, whichever side they are on; the first place is
// predicted by the text alone.
TEST_P(BlockPasses, FilledPlacesAreSeenFromBothSides) {
  const DiffusionPasses network = passes();
  const Tokens text = count_up(8, 150);
  Tokens filled = masks(4);
  filled[2] = 11;
  const at::Tensor before = in_pieces(network, text, {8}, 0, masks(4)),
                   after = in_pieces(network, text, {8}, 0, filled);
  EXPECT_EQ(distance(before[0], after[0]), 0.0);
  for (const std::int64_t i : {1, 2, 3}) EXPECT_GT(distance(before[i], after[i]), 1e-3) << i;
}

TEST_P(BlockPasses, AReducedHeadGivesTheRowsOfTheWholeOne) {
  const Tokens text = count_up(8, 150);
  const DiffusionPasses some = passes(Precision::kF32, true);
  const at::Tensor rows = every_third(some.config().vocab);
  ASSERT_EQ(some.config().outputs, rows.numel());
  EXPECT_EQ(some.token(2), 7);
  const at::Tensor all = in_pieces(passes(), text, {8}, 0, masks(3));
  EXPECT_LT(distance(in_pieces(some, text, {8}, 0, masks(3)), all.index_select(1, rows)), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Families, BlockPasses, ::testing::Values("llama_plain", "qwen2", "qwen3"),
                         [](const auto& family) { return family.param; });

// All rows in one group of a decoder's plan; masks by an id of the vocabulary.
DiffusionLm bidirectional(bool shifted) {
  DiffusionLm m;
  m.body = tiny_decoder("qwen2");
  m.config = {.attention = DiffusionAttention::kBidirectional,
              .shifted = shifted,
              .mask_token = 151,
              .vocab = m.body.config.vocab,
              .outputs = m.body.config.vocab};
  return m;
}

TEST(BidirectionalPasses, EveryRowSeesEveryOther) {
  for (const bool shifted : {true, false}) {
    const DiffusionPasses network(bidirectional(shifted));
    const auto logits = [&](const Tokens& text, const Tokens& places) {
      DiffusionText read = network.begin();
      const MaskedSpan span{.text = &read, .tokens = text, .places = places};
      return network.forward({&span, 1}).clone();
    };
    const at::Tensor before =
        logits({5, 6, 7}, {kMaskedToken, kMaskedToken, kMaskedToken, kMaskedToken});
    const at::Tensor after = logits({5, 6, 7}, {kMaskedToken, kMaskedToken, kMaskedToken, 9});
    const at::Tensor earlier =
        logits({8, 6, 7}, {kMaskedToken, kMaskedToken, kMaskedToken, kMaskedToken});
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto finite = [&](const at::Tensor& t) { return t[i].narrow(0, 0, 151); };
      EXPECT_GT(distance(finite(before), finite(after)), 1e-4) << i;
      EXPECT_GT(distance(finite(before), finite(earlier)), 1e-4) << i;
    }
  }
}

TEST(BidirectionalPasses, ATextMayArriveInPieces) {
  const DiffusionPasses network(bidirectional(true));
  const Tokens text = count_up(9, 150), some = masks(3);
  const std::span<const Token> all = text;
  DiffusionText whole = network.begin(), pieces = network.begin();
  const MaskedSpan once{.text = &whole, .tokens = all, .places = some};
  const MaskedSpan first{.text = &pieces, .tokens = all.first(4)};
  const MaskedSpan then{.text = &pieces, .tokens = all.subspan(4), .places = some};
  EXPECT_EQ(network.forward({&first, 1}).size(0), 0);
  const at::Tensor a = network.forward({&then, 1}).clone(), b = network.forward({&once, 1});
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_EQ(pieces.length(), 9);
}

TEST(DiffusionPasses, NeverPredictsTheMaskOrATokenThatTheTargetLacks) {
  const DiffusionPasses network(bidirectional(false), 140);
  const Tokens text = {1, 2}, some = masks(2);
  DiffusionText read = network.begin();
  const MaskedSpan span{.text = &read, .tokens = text, .places = some};
  const at::Tensor logits = network.forward({&span, 1});
  EXPECT_EQ(network.config().outputs, 140);
  EXPECT_EQ(logits.size(1), 140);
  EXPECT_TRUE(at::isfinite(logits).all().item<bool>());
}

TEST(DiffusionPasses, RefusesWhatCannotBeRead) {
  const DiffusionPasses network(tiny_diffusion("llama_plain"));
  DiffusionText text = network.begin();
  const Tokens fine = {1, 2}, unknown = {1, 4000}, some = masks(2);
  const Tokens endless(static_cast<std::size_t>(network.context()), 1);
  for (const MaskedSpan& span : {MaskedSpan{.text = &text, .tokens = unknown},
                                 MaskedSpan{.text = &text, .tokens = fine, .places = unknown},
                                 MaskedSpan{.text = &text, .tokens = {}, .places = some},
                                 MaskedSpan{.text = &text, .tokens = endless, .places = some}}) {
    EXPECT_THROW(network.forward({&span, 1}), std::invalid_argument);
    EXPECT_EQ(text.length(), 0);
  }
}

}  // namespace
}  // namespace forerun
