#include "forerun/base/available_memory.h"

#include <gtest/gtest.h>

#include <limits>

namespace forerun {
namespace {

constexpr auto kUnknown = std::numeric_limits<std::uint64_t>::max();

TEST(AvailableMemory, IsReadFromMeminfo) {
  EXPECT_EQ(
      parse_available_memory("MemTotal:       100 kB\nMemFree: 7 kB\nMemAvailable:     20 kB\n"),
      20U * 1024U);
  for (const char* text : {"", "MemFree: 7 kB\n", "MemAvailable:", "MemAvailable:   \n",
                           "MemAvailable: many kB\n", "MemAvailable: 18446744073709551615 kB\n"}) {
    EXPECT_EQ(parse_available_memory(text), kUnknown) << text;
  }
}

TEST(AvailableMemory, OfThisMachineIsSomeMegabytes) { EXPECT_GT(available_memory(), 1U << 20); }

}  // namespace
}  // namespace forerun
