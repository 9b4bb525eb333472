#pragma once

#include <cstdint>
#include <cstring>

namespace forerun {

/// Puts signed bytes, each + 128, into one column of [n / 4][columns][4]: the layout of weights and
/// keys, whose products take four neighbours at once.
/// @param n  a multiple of 4
inline void put_quads(const std::int8_t* values, std::int64_t n, std::int64_t column,
                      std::int64_t columns, std::uint8_t* to) {
  to += 4 * column;
  for (std::int64_t i = 0; i < n; i += 4, to += 4 * columns) {
    std::uint32_t quad;
    std::memcpy(&quad, values + i, sizeof quad);
    quad ^= 0x80808080U;
    std::memcpy(to, &quad, sizeof quad);
  }
}

}  // namespace forerun
