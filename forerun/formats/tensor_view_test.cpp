#include "forerun/formats/tensor_view.h"

#include <gtest/gtest.h>

#include <limits>

namespace forerun {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(TensorView, NamesAndSizesBelongTogether) {
  EXPECT_EQ(name_of(DType::kF32), "F32");
  EXPECT_EQ(name_of(DType::kQ8_0), "Q8_0");
  EXPECT_EQ(name_of(DType::kQ6_K), "Q6_K");
  EXPECT_EQ(block_size(DType::kBF16), 1);
  EXPECT_EQ(block_size(DType::kQ5_1), 32);
  EXPECT_EQ(block_size(DType::kQ4_K), 256);
  EXPECT_EQ(block_bytes(DType::kQ6_K), 210);
  EXPECT_EQ(name_of(DType::kIQ4_XS), "IQ4_XS");
  EXPECT_EQ(block_bytes(DType::kIQ4_XS), 136);
  EXPECT_EQ(name_of(DType::kI64), "I64");
  EXPECT_EQ(block_bytes(DType::kI64), 8);
  EXPECT_EQ(name_of(DType::kBool), "BOOL");
  EXPECT_EQ(block_bytes(DType::kBool), 1);
}

TEST(TensorView, IdsAndFlagsAreNoWeights) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ6_K}) {
    EXPECT_TRUE(holds_weights(t)) << name_of(t);
  }
  for (const DType t : {DType::kI64, DType::kI32, DType::kBool}) {
    EXPECT_FALSE(holds_weights(t)) << name_of(t);
    EXPECT_TRUE(is_read(t)) << name_of(t);
  }
  for (const DType t : {DType::kF64, DType::kU8, DType::kF8_E4M3, DType::kF4}) {
    EXPECT_FALSE(holds_weights(t)) << name_of(t);
    EXPECT_FALSE(is_read(t)) << name_of(t);
  }
  EXPECT_EQ(name_of(DType::kF4), "F4");
  EXPECT_NE(why_no_weights(DType::kU8).find("stored as U8, which forerun does not read"),
            std::string::npos);
}

TEST(TensorView, ByteSizeCountsWholeBlocks) {
  EXPECT_EQ(byte_size(DType::kF32, 0), 0);
  EXPECT_EQ(byte_size(DType::kF16, 3), 6);
  EXPECT_EQ(byte_size(DType::kQ4_1, 64), 40);
  EXPECT_EQ(byte_size(DType::kQ4_1, 65), std::nullopt);
  EXPECT_EQ(byte_size(DType::kQ4_1, -32), std::nullopt);
}

TEST(TensorView, ByteSizeStopsAtOverflow) {
  EXPECT_EQ(byte_size(DType::kF32, kLargest), std::nullopt);
  EXPECT_EQ(byte_size(DType::kF32, kLargest / 4), kLargest / 4 * 4);
  EXPECT_EQ(byte_size(DType::kQ8_0, kLargest / 32 * 32), std::nullopt);
}

TEST(TensorView, ElementCountMultipliesTheShape) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count(std::vector<std::int64_t>{2, 3, 5}), 30);
  EXPECT_EQ(element_count(std::vector<std::int64_t>{2, -3}), std::nullopt);
}

TEST(TensorView, ElementCountStopsAtOverflow) {
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_EQ(element_count(std::vector<std::int64_t>{half, half}), std::nullopt);
  EXPECT_EQ(element_count(std::vector<std::int64_t>{half, half, 0}), 0);
  EXPECT_EQ(element_count(std::vector<std::int64_t>{0, half, half}), 0);
  EXPECT_EQ(element_count(std::vector<std::int64_t>{half, half, -1}), std::nullopt);
}

}  // namespace
}  // namespace forerun
