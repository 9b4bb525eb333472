#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forerun {

/// The coupling in use. Those before kTypical are exact; the others are named after their source
/// and reported as inexact.
enum class Rule : std::uint8_t {
  kMaximal,
  kBlock,  ///< decides over a whole sampled draft at once
  kMatch,
  kSharedNoise,
  kStepwise,  ///< of chains: every inner step reflected, with re-merging
  kPath,      ///< of chains: the ratio of whole paths
  kTypical,
  kRatioOnSearch,
  kPaper,  ///< of chains: CSpD as its paper states it
  kCode,   ///< of chains: CSpD as its published code does it
};

std::string_view name_of(Rule rule) noexcept;
std::optional<Rule> rule_from_name(std::string_view name) noexcept;
constexpr bool is_exact(Rule rule) noexcept { return rule < Rule::kTypical; }
/// Whether the rule couples chains of inner steps (tokens with a diffusion head), and nothing else.
constexpr bool is_for_chains(Rule rule) noexcept {
  return rule == Rule::kStepwise || rule == Rule::kPath || rule == Rule::kPaper ||
         rule == Rule::kCode;
}

}  // namespace forerun
