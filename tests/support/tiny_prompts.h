#pragma once

#include <vector>

#include "forerun/text.h"

/// Prompts for the tiny models of tests/data/tiny.
namespace forerun::testing {

// Ids that repeat, so that lookup has matches from the start.
inline std::vector<Token> prompt(std::size_t n, Token salt = 0) {
  std::vector<Token> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<Token>(10 + salt + (i * i) % 7));
  return out;
}

inline GenerateOptions options(Rule rule, double temperature, std::uint32_t n = 60) {
  GenerateOptions o;
  o.rule = rule;
  o.sampling.temperature = temperature;
  o.max_tokens = n;
  o.ignore_end = true;
  o.seed = 11;
  o.max_draft = 8;
  o.fixed_draft = true;  // drafting never pays for models this small
  return o;
}

}  // namespace forerun::testing
