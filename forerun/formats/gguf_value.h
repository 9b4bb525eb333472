#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "forerun/base/result.h"

namespace forerun {

/// Types of metadata values, by their number in a GGUF file.
enum class GgufType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

/// An array of one type. Numbers and bools stay as they lie in the file; strings are views into it.
struct GgufArray {
  GgufType type;                          ///< of every element
  std::uint64_t size;                     ///< elements
  std::span<const std::byte> packed;      ///< numbers and bools: little-endian, at any alignment
  std::vector<std::string_view> strings;  ///< where type is kString
  std::vector<GgufArray> arrays;          ///< where type is kArray
};

/// A metadata value; valid as long as the file's bytes. index() is the GgufType.
using GgufValue = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                               std::uint32_t, std::int32_t, float, bool, std::string_view,
                               GgufArray, std::uint64_t, std::int64_t, double>;

/// "u32", "string", "array of f32", ...
std::string describe_type(const GgufValue& value);

/// The value as a T, one of
///   std::int32_t, std::uint32_t, std::int64_t   from any integer that is in range
///   float, double                               from f32 or f64
///   bool, std::string_view                      from that alone
///   std::span<const std::string_view>           an array of strings; points into `value`
///   std::vector<std::int32_t>, std::vector<std::int64_t>, std::vector<float>, std::vector<bool>
///                                               an array, each element under the rule above
/// Error: another type, or an integer out of range; says what was found and what was wanted.
template <class T>
Result<T> gguf_cast(const GgufValue& value);

}  // namespace forerun
