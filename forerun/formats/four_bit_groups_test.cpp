#include "forerun/formats/four_bit_groups.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "forerun/formats/gguf.h"

namespace forerun {
namespace {

constexpr const char* kBlocksFile = FORERUN_SOURCE_DIR "/tests/data/formats/blocks.gguf";

class FourBitGroups : public ::testing::TestWithParam<DType> {};

TEST_P(FourBitGroups, GiveTheNumbersOfTheReference) {
  const Gguf file = load_gguf(kBlocksFile);
  const std::string name(name_of(GetParam()));
  const TensorView *stored = file.find(name), *expected = file.find(name + ".expected");
  ASSERT_TRUE(stored != nullptr && expected != nullptr);
  ASSERT_TRUE(has_four_bit_groups(GetParam()));
  std::vector<float> numbers(expected->bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), expected->bytes.data(), expected->bytes.size());
  std::vector<FourBitGroup> groups(numbers.size() / 32);
  four_bit_groups(GetParam(), stored->bytes, groups);
  const FourBitLevels& levels = levels_of(kind_of_levels(GetParam()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const FourBitGroup& g = groups[i / 32];
    ASSERT_LT(g.codes[i % 32], 16);
    // Exact in double; the reference rounds its sum to float32.
    const double value = double{g.scale} * levels[g.codes[i % 32]] + double{g.least};
    ASSERT_EQ(static_cast<float>(value), numbers[i]) << "number " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FourBitGroups,
                         ::testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kMXFP4),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(FourBitGroup, OtherTypesHaveNone) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ5_0,
                           DType::kQ5_1, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kI32}) {
    EXPECT_FALSE(has_four_bit_groups(type)) << name_of(type);
  }
  EXPECT_THROW(four_bit_groups(DType::kQ8_0, {}, {}), std::invalid_argument);
}

TEST(FourBitGroup, SizesHaveToFit) {
  std::vector<std::byte> bytes(144);
  std::vector<FourBitGroup> groups(8);
  EXPECT_NO_THROW(four_bit_groups(DType::kQ4_K, bytes, groups));
  EXPECT_NO_THROW(four_bit_groups(DType::kQ4_K, {}, {}));
  EXPECT_NO_THROW(four_bit_groups(DType::kQ4_0, bytes, groups));
  EXPECT_THROW(four_bit_groups(DType::kQ4_K, std::span(bytes).first(143), groups),
               std::invalid_argument);
  EXPECT_THROW(four_bit_groups(DType::kQ4_K, bytes, std::span(groups).first(7)),
               std::invalid_argument);
}

}  // namespace
}  // namespace forerun
