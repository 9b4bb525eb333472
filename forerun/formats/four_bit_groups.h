#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/formats/tensor_view.h"

namespace forerun {

/// 32 stored numbers of 4 bits each: scale * level + least.
struct FourBitGroup {
  static constexpr std::int64_t kNumbers = 32;
  std::array<std::uint8_t, kNumbers> levels;  ///< below 16
  float scale, least;
};

/// Whether numbers of this type are stored in such groups: Q4_0, Q4_1, Q4_K.
bool has_four_bit_groups(DType dtype) noexcept;

/// The groups of stored numbers: the numbers of `dequantize` but for the rounding of a sum.
/// @param src  n * block_bytes(dtype) bytes, n >= 0
/// @param dst  n * block_size(dtype) / 32 groups, all overwritten
/// @throws std::invalid_argument  another type, `src` is not whole blocks, or `dst` has another
/// number of groups
void four_bit_groups(DType dtype, std::span<const std::byte> src, std::span<FourBitGroup> dst);

}  // namespace forerun
