#pragma once

#include <bit>
#include <cstdint>

namespace forerun {

/// The value of an IEEE binary16 number; exact. A NaN keeps its payload and stays a NaN.
/// No branches and no subnormal float32 in between, so that loops over it vectorise and give the
/// same bits when the processor flushes subnormals to zero.
inline float float_of_f16(std::uint16_t half) noexcept {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t magnitude = std::uint32_t{half & 0x7fffu} << 13;
  const std::uint32_t normal = magnitude + (112u << 23);   // exponent bias 15 -> 127
  const std::uint32_t special = magnitude + (224u << 23);  // infinity and NaN: exponent 31 -> 255
  const float tiny = std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f;
  std::uint32_t bits = magnitude >= (31u << 23) ? special : normal;
  bits = magnitude < (1u << 23) ? std::bit_cast<std::uint32_t>(tiny) : bits;
  return std::bit_cast<float>(bits | sign);
}

inline float float_of_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Rounds to the nearest bfloat16, ties to even; a NaN stays a (quiet) NaN.
inline std::uint16_t bf16_of_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const std::uint32_t quiet = bits | 0x400000u;
  return static_cast<std::uint16_t>(((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
}

}  // namespace forerun
