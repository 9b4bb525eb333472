#include "forerun/core/philox.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Source: Random123 1.14, examples/kat_vectors, lines "philox4x32 10".
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(
      philox4x32({0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}, {0xffffffffU, 0xffffffffU}),
      (Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(
      philox4x32({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
      (Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(Philox, IsAConstantExpression) {
  constexpr Words kZero = philox4x32({0, 0, 0, 0}, {0, 0});
  static_assert(kZero[0] == 0x6627e8d5U);
  EXPECT_EQ(kZero, philox4x32({0, 0, 0, 0}, {0, 0}));
}

}  // namespace
}  // namespace forerun
