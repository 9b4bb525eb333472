#pragma once

#include <forerun/certificate.h>
#include <forerun/common.h>
#include <forerun/core/rule.h>
#include <forerun/text.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace forerun::python {

namespace nb = nanobind;

/// A result whose members `members(T&)` ties, in the order of its pickles.
template <class T>
concept HasMembers = requires(T& t) {
  members(t);
};

/// Numbers of an image: as bytes, not as a list of objects.
template <class T>
constexpr bool kBytes =
    std::is_same_v<T, std::vector<float>> || std::is_same_v<T, std::vector<std::uint8_t>>;

/// Values of which each is packed by itself.
template <class T>
constexpr bool kList = false;
template <class T>
constexpr bool kList<std::vector<T>> = HasMembers<T> || kBytes<T>;

template <class T>
constexpr bool kOptional = false;
template <class T>
constexpr bool kOptional<std::optional<T>> = true;

/// Of the pickles of all results. Count it up with every change of `members` or of an enumeration:
/// a change that keeps number and types of the members shows in nothing else.
constexpr int kPickleFormat = 1;

// Whether a number is one of the enumeration. The compiler warns of an enumerator that lacks here.
inline bool is_one(Rule rule) {
  switch (rule) {
    case Rule::kMaximal:
    case Rule::kBlock:
    case Rule::kMatch:
    case Rule::kSharedNoise:
    case Rule::kStepwise:
    case Rule::kPath:
    case Rule::kTypical:
    case Rule::kRatioOnSearch:
    case Rule::kPaper:
    case Rule::kCode:
      return true;
  }
  return false;
}
inline bool is_one(Finish finish) {
  switch (finish) {
    case Finish::kLength:
    case Finish::kEndToken:
    case Finish::kStopString:
    case Finish::kInterrupted:
      return true;
  }
  return false;
}
inline bool is_one(Scored scored) {
  switch (scored) {
    case Scored::kTokens:
    case Scored::kTransitions:
    case Scored::kInnerSteps:
      return true;
  }
  return false;
}

/// A value in objects that pickle knows; a struct is the tuple of its members.
template <class T>
nb::object packed(T& value) {
  if constexpr (std::is_enum_v<T>) {
    return nb::cast(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (kBytes<T>) {
    return nb::bytes(value.data(), value.size() * sizeof(value[0]));
  } else if constexpr (kList<T>) {
    nb::list out;
    for (auto& one : value) out.append(packed(one));
    return out;
  } else if constexpr (kOptional<T>) {
    return value ? nb::object(nb::make_tuple(packed(*value))) : nb::none();
  } else if constexpr (HasMembers<T>) {
    return std::apply([](auto&... each) { return nb::make_tuple(packed(each)...); },
                      members(value));
  } else {
    return nb::cast(value);
  }
}

/// @throws std::bad_cast  what `packed` has not made of such a value
template <class T>
void unpack(T& value, nb::handle from) {
  if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(nb::cast<std::underlying_type_t<T>>(from));
    if (!is_one(value)) throw nb::cast_error();
  } else if constexpr (kBytes<T>) {
    const auto bytes = nb::cast<nb::bytes>(from);
    if (bytes.size() % sizeof(value[0]) != 0) throw nb::cast_error();
    value.resize(bytes.size() / sizeof(value[0]));
    if (!value.empty()) std::memcpy(value.data(), bytes.c_str(), value.size() * sizeof(value[0]));
  } else if constexpr (kList<T>) {
    value.clear();
    for (const nb::handle one : nb::cast<nb::list>(from)) unpack(value.emplace_back(), one);
  } else if constexpr (kOptional<T>) {
    value.reset();
    if (from.is_none()) return;
    const auto held = nb::cast<nb::tuple>(from);
    if (held.size() != 1) throw nb::cast_error();
    unpack(value.emplace(), nb::object(held[0]));
  } else if constexpr (HasMembers<T>) {
    const auto state = nb::cast<nb::tuple>(from);
    auto all = members(value);
    if (state.size() != std::tuple_size_v<decltype(all)>) throw nb::cast_error();
    std::size_t i = 0;
    std::apply([&](auto&... each) { (unpack(each, nb::object(state[i++])), ...); }, all);
  } else {
    value = nb::cast<T>(from);
  }
}

/// Lets instances be pickled and copied: a result goes from one process to another.
template <class T, class... More>
void def_pickle(nb::class_<T, More...>& bound) {
  bound.def("__getstate__", [](T& value) { return nb::make_tuple(kPickleFormat, packed(value)); });
  bound.def("__setstate__", [](T& self, nb::handle from) {
    T value{};
    try {
      const auto state = nb::cast<nb::tuple>(from);
      if (state.size() != 2 || nb::cast<int>(state[0], false) != kPickleFormat) {
        throw nb::cast_error();
      }
      unpack(value, nb::object(state[1]));
    } catch (const std::bad_cast&) {
      throw UsageError(nb::cast<std::string>(nb::type<T>().attr("__name__")) +
                       ": pickled by another version of forerun");
    }
    new (&self) T(std::move(value));
  });
}

}  // namespace forerun::python
