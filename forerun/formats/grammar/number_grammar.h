#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace forerun {

/// What a number may be.
struct NumberBounds {
  std::optional<std::int64_t> least, most;
  bool above_least = false, below_most = false;  ///< the bound itself is left out
};

/// The decimal integers between two bounds, both included, as an expression of xgrammar's EBNF.
/// @return  empty if there is none
std::string integer_expression(std::optional<std::int64_t> least, std::optional<std::int64_t> most);

/// The decimal numbers within bounds, with at most nine digits after the point and no exponent.
/// @return  empty if there is none
std::string number_expression(const NumberBounds& bounds);

}  // namespace forerun
