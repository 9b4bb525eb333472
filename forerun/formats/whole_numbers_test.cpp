#include "forerun/formats/whole_numbers.h"

#include <gtest/gtest.h>

#include <cstring>

#include "forerun/formats/dequantize.h"
#include "forerun/formats/safetensors.h"
#include "forerun/formats/safetensors_write.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using Numbers = std::vector<std::int64_t>;

const Numbers kIds = {0, -7, 1, std::int64_t{1} << 40, INT64_MIN};
const std::vector<std::int32_t> kTokens = {49151, 0, -3};
const std::vector<std::uint8_t> kFlags = {1, 0, 1};

TensorView flags() { return {"flags", DType::kBool, {3}, std::as_bytes(std::span(kFlags))}; }

TEST(WholeNumbers, ComeBackFromAFile) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "ids.safetensors";
  const std::vector<TensorView> written = {
      flags(),  // three bytes: what is wider must come first to be aligned
      {"tokens", DType::kI32, {3}, std::as_bytes(std::span(kTokens))},
      {"ids", DType::kI64, {5}, std::as_bytes(std::span(kIds))}};
  write_safetensors(path, written);
  const Safetensors file = load_safetensors(path);
  EXPECT_EQ(*whole_numbers(*file.find("ids")), kIds);
  EXPECT_EQ(*whole_numbers(*file.find("tokens")), (Numbers{49151, 0, -3}));
  EXPECT_EQ(*whole_numbers(*file.find("flags")), (Numbers{1, 0, 1}));
}

TEST(WholeNumbers, RefuseWeightsAndOddFlags) {
  const std::vector<float> weights = {1.0f};
  const auto refused = whole_numbers({"w", DType::kF32, {1}, std::as_bytes(std::span(weights))});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "tensor 'w' holds F32 where I64, I32 or BOOL is expected");
  const std::vector<std::uint8_t> odd = {0, 2};
  const auto damaged = whole_numbers({"f", DType::kBool, {2}, std::as_bytes(std::span(odd))});
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().message, "tensor 'f' of flags holds 2; the file is damaged");
}

TEST(WholeNumbers, AreNeverReadAsWeights) {
  std::vector<float> out(3);
  EXPECT_THROW(dequantize(DType::kBool, flags().bytes, out), std::invalid_argument);
  std::vector<std::uint16_t> halves(3);
  EXPECT_THROW(dequantize_bf16(DType::kI32, std::as_bytes(std::span(kTokens)), halves),
               std::invalid_argument);
}

TEST(WholeNumbers, NeedNoAlignment) {
  const std::vector<std::int64_t> values = {INT64_MIN, 3};
  std::vector<std::byte> shifted(1 + sizeof(std::int64_t) * 2);
  std::memcpy(shifted.data() + 1, values.data(), shifted.size() - 1);
  const TensorView view{"ids", DType::kI64, {2}, std::span(shifted).subspan(1)};
  EXPECT_EQ(*whole_numbers(view), values);
  EXPECT_TRUE(whole_numbers({"none", DType::kI32, {0}, {}})->empty());
}

}  // namespace
}  // namespace forerun
