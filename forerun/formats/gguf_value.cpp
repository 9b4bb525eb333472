#include "forerun/formats/gguf_value.h"

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

namespace forerun {
namespace {

constexpr std::array<std::string_view, 13> kTypeNames{
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

template <class T>
constexpr std::string_view kWanted = "";
template <>
constexpr std::string_view kWanted<std::int32_t> = "an integer that fits i32";
template <>
constexpr std::string_view kWanted<std::uint32_t> = "an integer that fits u32";
template <>
constexpr std::string_view kWanted<std::int64_t> = "an integer that fits i64";
template <>
constexpr std::string_view kWanted<float> = "f32";
template <>
constexpr std::string_view kWanted<double> = "f32 or f64";
template <>
constexpr std::string_view kWanted<bool> = "bool";
template <>
constexpr std::string_view kWanted<std::string_view> = "string";

template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

// A file's number as the wanted type; none if that is another kind or cannot hold it.
template <class To, class From>
std::optional<To> number_as(From from) {
  if constexpr (std::same_as<To, From>) {
    return from;
  } else if constexpr (Integer<To> && Integer<From>) {
    if (std::in_range<To>(from)) return static_cast<To>(from);
  } else if constexpr (std::floating_point<To> && std::floating_point<From>) {
    return static_cast<To>(from);
  }
  return std::nullopt;
}

template <class From, class To>
Result<std::vector<To>> convert_packed(const GgufArray& array) {
  std::vector<To> out;
  out.reserve(array.size);
  for (std::uint64_t i = 0; i < array.size; ++i) {
    From from{};
    if constexpr (std::same_as<From, bool>) {
      from = array.packed[i] != std::byte{0};  // any byte may be there; a bool must be 0 or 1
    } else {
      std::memcpy(&from, array.packed.data() + i * sizeof(From), sizeof(From));
    }
    const auto to = number_as<To>(from);
    if (!to) {
      return Error{fmt::format("is an array of {} whose element {} is not {}",
                               kTypeNames[static_cast<std::size_t>(array.type)], i, kWanted<To>)};
    }
    out.push_back(*to);
  }
  return out;
}

template <class To>
Result<std::vector<To>> convert_array(const GgufArray& array) {
  switch (array.type) {
    case GgufType::kU8:
      return convert_packed<std::uint8_t, To>(array);
    case GgufType::kI8:
      return convert_packed<std::int8_t, To>(array);
    case GgufType::kU16:
      return convert_packed<std::uint16_t, To>(array);
    case GgufType::kI16:
      return convert_packed<std::int16_t, To>(array);
    case GgufType::kU32:
      return convert_packed<std::uint32_t, To>(array);
    case GgufType::kI32:
      return convert_packed<std::int32_t, To>(array);
    case GgufType::kU64:
      return convert_packed<std::uint64_t, To>(array);
    case GgufType::kI64:
      return convert_packed<std::int64_t, To>(array);
    case GgufType::kF32:
      return convert_packed<float, To>(array);
    case GgufType::kF64:
      return convert_packed<double, To>(array);
    case GgufType::kBool:
      return convert_packed<bool, To>(array);
    default:
      return Error{fmt::format("is an array of {}, expected numbers or bools",
                               kTypeNames[static_cast<std::size_t>(array.type)])};
  }
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

}  // namespace

std::string describe_type(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return fmt::format("array of {}", kTypeNames[static_cast<std::size_t>(array->type)]);
  }
  return std::string(kTypeNames[value.index()]);
}

template <class T>
Result<T> gguf_cast(const GgufValue& value) {
  if constexpr (IsVector<T>::value) {
    const auto* array = std::get_if<GgufArray>(&value);
    if (array == nullptr) {
      return Error{fmt::format("is of type {}, expected an array", describe_type(value))};
    }
    return convert_array<typename T::value_type>(*array);
  } else if constexpr (std::same_as<T, std::span<const std::string_view>>) {
    const auto* array = std::get_if<GgufArray>(&value);
    if (array == nullptr || array->type != GgufType::kString) {
      return Error{
          fmt::format("is of type {}, expected an array of strings", describe_type(value))};
    }
    return T(array->strings);
  } else {
    const auto converted = std::visit(
        [](const auto& v) -> std::optional<T> {
          using From = std::remove_cvref_t<decltype(v)>;
          if constexpr (std::same_as<From, GgufArray>) {
            return std::nullopt;
          } else {
            return number_as<T>(v);
          }
        },
        value);
    if (converted) return *converted;
    return Error{fmt::format("is of type {}, expected {}", describe_type(value), kWanted<T>)};
  }
}

template Result<std::int32_t> gguf_cast(const GgufValue&);
template Result<std::uint32_t> gguf_cast(const GgufValue&);
template Result<std::int64_t> gguf_cast(const GgufValue&);
template Result<float> gguf_cast(const GgufValue&);
template Result<double> gguf_cast(const GgufValue&);
template Result<bool> gguf_cast(const GgufValue&);
template Result<std::string_view> gguf_cast(const GgufValue&);
template Result<std::span<const std::string_view>> gguf_cast(const GgufValue&);
template Result<std::vector<std::int32_t>> gguf_cast(const GgufValue&);
template Result<std::vector<std::int64_t>> gguf_cast(const GgufValue&);
template Result<std::vector<float>> gguf_cast(const GgufValue&);
template Result<std::vector<bool>> gguf_cast(const GgufValue&);

}  // namespace forerun
