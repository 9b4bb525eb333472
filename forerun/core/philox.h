#pragma once

#include <array>
#include <cstdint>

namespace forerun {

/// Philox4x32-10: a counter-based generator. Four random words are a pure function of (counter,
/// key). Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3",
/// section 4.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) noexcept {
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

}  // namespace forerun
