#include "forerun/models/internal/bf16_dots.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "forerun/formats/half.h"

namespace forerun::internal {
namespace {

// Widths below, at and above whole vectors, rows in any order and twice.
TEST(Bf16Dots, AreTheDotProductsOfTheRowsNamed) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr std::size_t kRows = 37;
  for (const std::size_t width : {1U, 15U, 16U, 17U, 64U, 100U}) {
    std::vector<float> from(width);
    for (float& x : from) x = normal(random);
    std::vector<std::uint16_t> table(kRows * width);
    for (std::uint16_t& x : table) x = bf16_of_float(normal(random));
    const std::vector<std::int32_t> ids = {5, 36, 0, 5, 20};
    std::vector<float> add = {1.0F, -2.0F, 0.0F, 1.0F, 0.5F};
    const std::vector<float> before = add;
    add_dots(from, table.data(), ids, add);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      double sum = static_cast<double>(before[i]), size = std::abs(sum);
      for (std::size_t k = 0; k < width; ++k) {
        const double term =
            static_cast<double>(from[k]) *
            static_cast<double>(float_of_bf16(table[static_cast<std::size_t>(ids[i]) * width + k]));
        sum += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(static_cast<double>(add[i]), sum, 1e-6 * size) << width << " " << i;
    }
    EXPECT_EQ(add[0], add[3]);  // the same row and start
  }
}

TEST(Bf16Dots, OfNoRowsAddNothing) {
  std::vector<float> add;
  add_dots(std::vector<float>{1.0F}, nullptr, {}, add);
  EXPECT_TRUE(add.empty());
}

}  // namespace
}  // namespace forerun::internal
