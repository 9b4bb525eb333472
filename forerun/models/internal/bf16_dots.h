#pragma once

#include <cstdint>
#include <span>

namespace forerun::internal {

/// add[i] += the dot product of `from` and row ids[i] of a table of bf16; sums in float32, the same
/// bits on every processor.
/// @param from   [width]
/// @param table  [rows, width] bf16
/// @param ids    of rows, not checked
/// @param add    [ids]
void add_dots(std::span<const float> from, const std::uint16_t* table,
              std::span<const std::int32_t> ids, std::span<float> add) noexcept;

}  // namespace forerun::internal
