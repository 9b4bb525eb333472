#pragma once

#include <string>
#include <vector>

#include "forerun/text.h"
#include "tests/support/tiny_folder.h"

/// The tiny text models of tests/data/tiny, and prompts for them.
namespace forerun::testing {

using forerun::kTiny;

inline const Model& tiny() {
  static const Model model = Model::load(kTiny + "llama_plain", Precision::kF32);
  return model;
}

// A drafter that is close to the target without being it: the same weights in bf16.
inline const Drafter& near_copy() {
  static const Drafter drafter =
      Drafter::load("draft-model:" + kTiny + "llama_plain", tiny(), Precision::kBF16);
  return drafter;
}

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
