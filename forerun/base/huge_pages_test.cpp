#include "forerun/base/huge_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>

namespace forerun {
namespace {

TEST(HugePages, TablesOfEverySizeHoldTheirValues) {
  for (const std::size_t n : {0UL, 1UL, 1000UL, 262143UL, 262144UL, 600000UL}) {
    HugeVector<std::uint32_t> table(n);
    std::iota(table.begin(), table.end(), 7U);
    table.push_back(1);  // grows
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(table[i], i + 7);
    const HugeVector<std::uint32_t> moved = std::move(table);
    EXPECT_EQ(moved.size(), n + 1);
  }
}

TEST(HugePages, LargeTablesBeginAHugePage) {
  const HugeVector<char> large(std::size_t{1} << 20), small(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % (std::size_t{2} << 20), 0);
}

// VmFlags in /proc/self/smaps of the mapping that holds an address; "hg" after MADV_HUGEPAGE.
bool advised(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= reinterpret_cast<std::uintptr_t>(at) &&
               reinterpret_cast<std::uintptr_t>(at) < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

TEST(HugePages, TheSystemIsAskedForThem) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "this system has no huge pages on request";
  }
  const HugeVector<char> large(std::size_t{4} << 20), small(1000);
  EXPECT_TRUE(advised(large.data()));
  EXPECT_FALSE(advised(small.data()));
}

// No small allocation may later lie in pages of 2 MiB.
TEST(HugePages, WhatWasAskedForGoesBackToTheSystem) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "this system has no huge pages on request";
  }
  for (const std::size_t bytes : {std::size_t{1} << 20, (std::size_t{4} << 20) - 1}) {
    void* const at = allocate_huge(bytes);
    static_cast<char*>(at)[bytes - 1] = 1;
    EXPECT_TRUE(advised(at));
    free_huge(at, bytes);
    EXPECT_FALSE(advised(at)) << bytes;
  }
}

TEST(HugePages, MappedMemoryIsZeroed) {
  for (const std::size_t pages : {std::size_t{1}, std::size_t{3}}) {
    const std::size_t bytes = pages * kHugePage;
    char* const at = static_cast<char*>(map_huge(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % kHugePage, 0U);
    EXPECT_EQ(std::count(at, at + bytes, '\0'), static_cast<std::ptrdiff_t>(bytes));
    at[0] = at[bytes - 1] = 1;
    unmap_huge(at, bytes);
  }
}

TEST(HugePages, MoreThanThereIsThrows) {
  HugePages<std::uint64_t> pages;
  EXPECT_THROW(pages.allocate(std::numeric_limits<std::size_t>::max() / 8), std::bad_alloc);
  EXPECT_THROW(allocate_huge(std::numeric_limits<std::size_t>::max() - 100), std::bad_alloc);
  EXPECT_THROW(map_huge(0), std::bad_alloc);
  EXPECT_THROW(map_huge(std::numeric_limits<std::size_t>::max() / kHugePage * kHugePage),
               std::bad_alloc);
}

}  // namespace
}  // namespace forerun
