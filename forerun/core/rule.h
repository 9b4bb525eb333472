#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forerun {

/// The coupling in use. The first four are exact; the others are named after their source and
/// reported as inexact.
enum class Rule : std::uint8_t {
  kMaximal,
  kBlock,  ///< decides over a whole sampled draft at once
  kMatch,
  kSharedNoise,
  kTypical,
  kRatioOnSearch,
};

std::string_view name_of(Rule rule) noexcept;
std::optional<Rule> rule_from_name(std::string_view name) noexcept;
constexpr bool is_exact(Rule rule) noexcept { return rule <= Rule::kSharedNoise; }

}  // namespace forerun
