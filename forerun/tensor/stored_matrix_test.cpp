// Products of weights in the form of a file are those of the same weights unpacked.
#include "forerun/tensor/stored_matrix.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "forerun/formats/dequantize.h"
#include "forerun/formats/half.h"
#include "forerun/tensor/linear.h"

namespace forerun {
namespace {

// Random blocks; their scales are small numbers.
struct Stored {
  std::shared_ptr<std::vector<std::byte>> memory;
  TensorView view;
  at::Tensor values;  // [rows, columns]

  Stored(DType dtype, std::int64_t rows, std::int64_t columns) {
    const auto size = static_cast<std::size_t>(*byte_size(dtype, rows * columns));
    memory = std::make_shared<std::vector<std::byte>>(size);
    std::mt19937 random(7);
    for (std::byte& b : *memory) b = static_cast<std::byte>(random() & 255);
    const auto block = static_cast<std::size_t>(block_bytes(dtype));
    for (std::size_t at = 0; at < size; at += block) set_scales(dtype, memory->data() + at);
    view = {.name = "w", .dtype = dtype, .shape = {rows, columns}, .bytes = *memory};
    values = at::empty({rows, columns}, at::kFloat);
    dequantize(dtype, view.bytes,
               {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  }

  static void set_scales(DType dtype, std::byte* block) {
    const std::uint16_t small = 0x2000;  // float16: 2^-7
    const float tiny = 0.25F;
    const std::uint16_t bf16 = bf16_of_float(0.5F);
    switch (dtype) {
      case DType::kF32:
        std::memcpy(block, &tiny, 4);
        break;
      case DType::kBF16:
        std::memcpy(block, &bf16, 2);
        break;
      case DType::kQ6_K:
        std::memcpy(block + 208, &small, 2);
        break;
      case DType::kQ2_K:
        std::memcpy(block + 80, &small, 2);
        std::memcpy(block + 82, &small, 2);
        break;
      case DType::kQ3_K:
        std::memcpy(block + 108, &small, 2);
        break;
      case DType::kQ4_K:
        std::memcpy(block + 2, &small, 2);
        [[fallthrough]];
      default:
        std::memcpy(block, &small, 2);
    }
  }
};

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

class StoredProducts : public ::testing::TestWithParam<DType> {};

TEST_P(StoredProducts, AreThoseOfTheUnpackedMatrix) {
  // 1,100 rows of 512 are three panels.
  for (const auto& [rows, columns] :
       {std::pair(1100, 512), std::pair(3, 2048), std::pair(1, 256)}) {
    const Stored w(GetParam(), rows, columns);
    const StoredMatrix stored(w.view, {}, w.memory);
    EXPECT_EQ(stored.bytes(), static_cast<std::int64_t>(w.memory->size()));
    for (const std::int64_t n : {1, 5, 40}) {
      const at::Tensor x = at::randn({n, columns});
      EXPECT_LT(relative(stored.multiply(x), at::linear(x, w.values)), 1e-4) << n;
    }
    const at::Tensor ids = at::tensor(std::vector<std::int64_t>{rows - 1, 0, rows / 2});
    EXPECT_TRUE(at::equal(stored.select(ids), w.values.index_select(0, ids)));
  }
}

TEST_P(StoredProducts, FollowTheOrderOfTheRows) {
  const Stored w(GetParam(), 70, 256);
  const StoredMatrix stored(
      w.view, [](std::int64_t r) { return 69 - r; }, w.memory);
  const at::Tensor x = at::randn({4, 256});
  EXPECT_LT(relative(stored.multiply(x), at::linear(x, w.values.flip(0))), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Types, StoredProducts,
                         ::testing::Values(DType::kQ4_K, DType::kQ6_K, DType::kQ8_0, DType::kQ4_0,
                                           DType::kQ2_K, DType::kQ3_K, DType::kIQ4_NL,
                                           DType::kIQ4_XS, DType::kMXFP4, DType::kF32,
                                           DType::kBF16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(StoredMatrix, IsTheWeightOfALinearLayer) {
  const Stored w(DType::kQ8_0, 48, 64);
  const at::Tensor bias = at::randn({48}), x = at::randn({6, 64});
  const Linear stored{.weight = {},
                      .bias = bias,
                      .stored = std::make_shared<StoredMatrix>(w.view, RowMap(), w.memory)};
  const Linear plain{.weight = w.values, .bias = bias};
  EXPECT_LT(relative(stored(x), plain(x)), 1e-4);
  const auto both = products(x, {&stored, &stored});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_LT(relative(both[1], plain(x)), 1e-4);
}

TEST(StoredMatrix, KeepsTheFileAsLongAsItIsNeeded) {
  Stored w(DType::kQ4_K, 8, 256);
  const std::weak_ptr<void> file = w.memory;
  auto stored = std::make_unique<StoredMatrix>(w.view, RowMap(), std::move(w.memory));
  EXPECT_FALSE(file.expired());
  stored.reset();
  EXPECT_TRUE(file.expired());
}

TEST(StoredMatrix, RefusesWhatIsNoMatrix) {
  Stored w(DType::kQ8_0, 8, 64);
  EXPECT_THROW(StoredMatrix(w.view, {}, nullptr), std::invalid_argument);
  const StoredMatrix stored(w.view, {}, w.memory);
  EXPECT_THROW(stored.select(at::tensor(std::vector<std::int64_t>{8})), std::invalid_argument);
  w.view.shape = {16, 32, 1};
  EXPECT_THROW(StoredMatrix(w.view, {}, w.memory), std::invalid_argument);
  w.view.shape = {32, 16};
  EXPECT_THROW(StoredMatrix(w.view, {}, w.memory), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
