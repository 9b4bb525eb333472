#pragma once

#include <string>
#include <utility>
#include <variant>

#include "forerun/base/format_error.h"

namespace forerun {

/// Why something could not be read: what was found, what was expected, what to do.
struct Error {
  std::string message;
};

/// A value or an Error; the subset of std::expected that parsers need (GCC 12 has it in C++23
/// only). `parse_*` functions return it and neither throw nor print; `load_*` turn it into one
/// exception.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Error error)
      : v_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design
  explicit operator bool() const noexcept { return v_.index() == 0; }
  const T& operator*() const& { return std::get<0>(v_); }  // throws if there is no value
  T operator*() && { return std::get<0>(std::move(v_)); }
  const T* operator->() const { return &std::get<0>(v_); }
  const Error& error() const { return std::get<1>(v_); }

 private:
  std::variant<T, Error> v_;
};

}  // namespace forerun
