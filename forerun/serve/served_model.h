#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/core/rule.h"
#include "forerun/core/sampling_params.h"
#include "forerun/model.h"

namespace forerun::serve {

/// What the server offers. Does not change while it runs.
struct ServedModel {
  std::string id;                         ///< clients know it by this name
  std::vector<std::string> aliases = {};  ///< and by these
  Model model;
  /// Requests choose among them by name; the first is used where a request names none.
  std::vector<Drafter> drafters;
  /// Of requests that do not say: OpenAI's.
  SamplingParams sampling = {.temperature = 1.0};
  Rule rule = Rule::kSharedNoise;
  std::uint32_t max_draft = 15;
  bool fixed_draft = false;      ///< always draft that many
  std::size_t max_choices = 64;  ///< texts of one request
  /// A longer text has more tokens than the context holds, whatever it says.
  std::size_t max_prompt_bytes = std::size_t{1} << 20;
  std::int64_t created = 0;  ///< seconds since 1970
};

}  // namespace forerun::serve
