#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/formats/tensor_view.h"

namespace forerun {

/// 32 stored numbers of 4 bits each: scale * level + least, where the level is that of a code.
struct FourBitGroup {
  static constexpr std::int64_t kNumbers = 32;
  std::array<std::uint8_t, kNumbers> codes;  ///< below 16
  float scale, least;
};

/// What codes stand for.
enum class LevelKind : std::uint8_t {
  kLinear,  ///< the code itself
  kE2m1,    ///< 12 more than twice the number that the code is in E2M1: of MXFP4
};
using FourBitLevels = std::array<std::uint8_t, 16>;
const FourBitLevels& levels_of(LevelKind kind) noexcept;

/// Whether numbers of this type are stored in such groups: Q4_0, Q4_1, Q4_K, MXFP4.
bool has_four_bit_groups(DType dtype) noexcept;
/// Of a type that has.
LevelKind kind_of_levels(DType dtype) noexcept;

/// The groups of stored numbers: the numbers of `dequantize` but for the rounding of a sum.
/// @param src  n * block_bytes(dtype) bytes, n >= 0
/// @param dst  n * block_size(dtype) / 32 groups, all overwritten
/// @throws std::invalid_argument  another type, `src` is not whole blocks, or `dst` has another
/// number of groups
void four_bit_groups(DType dtype, std::span<const std::byte> src, std::span<FourBitGroup> dst);

}  // namespace forerun
