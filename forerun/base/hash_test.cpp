#include "forerun/base/hash.h"

#include <gtest/gtest.h>

#include <array>

namespace forerun {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Hash, IsXxh3OfTheStream) {
  EXPECT_EQ(Hash().value(), 0x2d06800538d394c2U);  // xxhsum -H3 of nothing
  EXPECT_EQ(Hash().add(bytes_of("ab")).add(bytes_of("c")).text(),
            Hash().add(bytes_of("abc")).text());
  EXPECT_EQ(Hash().add(bytes_of("abc")).text(), "78af5f94892f3950");
}

TEST(Hash, KeepsItemsApart) {
  EXPECT_NE(Hash().add("ab").add("c").value(), Hash().add("a").add("bc").value());
  const std::array<int, 2> two = {1, 2};
  const std::array<int, 1> one = {1};
  EXPECT_NE(Hash().add_all(two).value(), Hash().add_all(one).add(2).value());
}

}  // namespace
}  // namespace forerun
