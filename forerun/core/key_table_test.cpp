#include "forerun/core/key_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace forerun {
namespace {

TEST(KeyTable, HoldsWhatAMapHolds) {
  std::mt19937_64 random(3);
  KeyTable<int> table;
  std::map<std::uint64_t, int> map;
  for (int i = 0; i < 20000; ++i) {
    // Keys that differ in high bits only collide in a table that looks at the low ones.
    const std::uint64_t key = (random() % 3000 + 1) << (random() % 2 == 0 ? 0 : 44);
    ++table[key];
    ++map[key];
  }
  EXPECT_EQ(table.size(), map.size());
  std::size_t seen = 0;
  table.for_each([&](std::uint64_t key, int value) {
    ++seen;
    EXPECT_EQ(map.at(key), value);
  });
  EXPECT_EQ(seen, map.size());
  for (const auto& [key, value] : map) {
    ASSERT_NE(table.find(key), nullptr);
    EXPECT_EQ(*table.find(key), value);
  }
  EXPECT_EQ(table.find(5000), nullptr);
}

}  // namespace
}  // namespace forerun
