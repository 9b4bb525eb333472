#include "forerun/formats/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "forerun/formats/gguf.h"
#include "forerun/formats/half.h"

namespace forerun {
namespace {

constexpr const char* kBlocks = FORERUN_SOURCE_DIR "/tests/data/formats/blocks.gguf";

std::vector<std::uint32_t> bits_of(std::span<const float> numbers) {
  std::vector<std::uint32_t> out(numbers.size());
  std::memcpy(out.data(), numbers.data(), numbers.size_bytes());
  return out;
}

std::vector<float> decoded(DType dtype, std::span<const std::byte> src) {
  std::vector<float> out(src.size() / static_cast<std::size_t>(block_bytes(dtype)) *
                         static_cast<std::size_t>(block_size(dtype)));
  dequantize(dtype, src, out);
  return out;
}

class DequantizeTo : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const std::string name(name_of(GetParam()));
    stored_ = file_.find(name);
    const TensorView* expected = file_.find(name + ".expected");
    ASSERT_TRUE(stored_ != nullptr && expected != nullptr);
    ASSERT_EQ(stored_->dtype, GetParam());
    ASSERT_EQ(stored_->shape, expected->shape);
    expected_.resize(expected->bytes.size() / sizeof(float));
    std::memcpy(expected_.data(), expected->bytes.data(), expected->bytes.size());
    ASSERT_EQ(expected_.size(), 2048u);
  }

  Gguf file_ = load_gguf(kBlocks);
  const TensorView* stored_ = nullptr;
  std::vector<float> expected_;
};

TEST_P(DequantizeTo, BitsEqualTheReference) {
  EXPECT_EQ(bits_of(decoded(GetParam(), stored_->bytes)), bits_of(expected_));
}

TEST_P(DequantizeTo, ResultDoesNotDependOnHowRowsAreShared) {
  const auto block = static_cast<std::size_t>(block_bytes(GetParam()));
  std::vector<float> pieced;
  for (std::size_t at = 0; at < stored_->bytes.size();) {
    const std::size_t n = std::min(block * (1 + at % 3), stored_->bytes.size() - at);
    // A copy at an odd address: files give no alignment.
    std::vector<std::byte> shifted(n + 1);
    std::memcpy(shifted.data() + 1, stored_->bytes.data() + at, n);
    const std::vector<float> part = decoded(GetParam(), std::span(shifted).subspan(1));
    pieced.insert(pieced.end(), part.begin(), part.end());
    at += n;
  }
  EXPECT_EQ(bits_of(pieced), bits_of(expected_));
}

TEST_P(DequantizeTo, Bf16IsTheRoundedFloat) {
  std::vector<std::uint16_t> halves(expected_.size());
  dequantize_bf16(GetParam(), stored_->bytes, halves);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(halves[i], bf16_of_float(expected_[i])) << "element " << i;
  }
}

TEST_P(DequantizeTo, Bf16TakesMoreThanItsBuffer) {
  std::vector<std::byte> twice(stored_->bytes.begin(), stored_->bytes.end());
  const auto block = static_cast<std::size_t>(block_bytes(GetParam()));
  twice.insert(twice.end(), stored_->bytes.begin(),
               stored_->bytes.begin() + static_cast<std::ptrdiff_t>(block));
  std::vector<std::uint16_t> halves(expected_.size() +
                                    static_cast<std::size_t>(block_size(GetParam())));
  dequantize_bf16(GetParam(), twice, halves);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(halves[i], bf16_of_float(expected_[i % expected_.size()])) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DequantizeTo,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0,
                                           DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                           DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ2_K,
                                           DType::kQ3_K, DType::kIQ4_NL, DType::kIQ4_XS,
                                           DType::kMXFP4),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST(Dequantize, AcceptsNothing) {
  EXPECT_NO_THROW(dequantize(DType::kQ4_K, {}, {}));
  EXPECT_NO_THROW(dequantize(DType::kF32, {}, {}));
  EXPECT_NO_THROW(dequantize_bf16(DType::kBF16, {}, {}));
}

TEST(Dequantize, RefusesSizesThatDoNotBelongTogether) {
  std::vector<std::byte> src(40);
  std::vector<float> dst(64);
  EXPECT_NO_THROW(dequantize(DType::kQ4_1, src, dst));
  EXPECT_THROW(dequantize(DType::kQ4_1, std::span(src).first(39), dst), std::invalid_argument);
  EXPECT_THROW(dequantize(DType::kQ4_1, src, std::span(dst).first(63)), std::invalid_argument);
  std::vector<std::uint16_t> halves(63);
  EXPECT_THROW(dequantize_bf16(DType::kQ4_1, src, halves), std::invalid_argument);
}

TEST(Half, EveryF16HasItsValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float got = float_of_f16(static_cast<std::uint16_t>(bits));
    const std::uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      continue;
    }
    double expected = exponent == 31 ? std::numeric_limits<double>::infinity()
                      : exponent == 0
                          ? std::ldexp(fraction, -24)
                          : std::ldexp(fraction + 1024.0, static_cast<int>(exponent) - 25);
    if ((bits & 0x8000) != 0) expected = -expected;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got),
              std::bit_cast<std::uint32_t>(static_cast<float>(expected)))
        << bits;
  }
}

TEST(Half, Bf16RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(bf16_of_float(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, down to even
  EXPECT_EQ(bf16_of_float(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, up to even
  EXPECT_EQ(bf16_of_float(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bf16_of_float(std::bit_cast<float>(0x3f807fffu)), 0x3f80);
  EXPECT_EQ(bf16_of_float(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);  // beyond: infinity
  EXPECT_EQ(bf16_of_float(-std::numeric_limits<float>::infinity()), 0xff80);
}

TEST(Half, Bf16KeepsNan) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of_float(std::bit_cast<float>(bits))))) << bits;
  }
}

}  // namespace
}  // namespace forerun
