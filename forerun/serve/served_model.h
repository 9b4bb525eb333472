#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/core/logit_changes.h"
#include "forerun/core/rule.h"
#include "forerun/core/sampling_params.h"
#include "forerun/model.h"

namespace forerun::serve {

/// What becomes of the reasoning that some models write before their answer.
enum class ReasoningFormat : std::uint8_t {
  kAuto,  ///< apart from the answer, where the model's chat template has tags for it
  kNone,  ///< it is part of the answer
};

/// "auto" and "none"; "deepseek" is llama.cpp's other name of the first.
/// Empty: there is no such format.
std::optional<ReasoningFormat> reasoning_format_from_name(std::string_view name);

/// What the server offers. Does not change while it runs.
struct ServedModel {
  std::string id;                         ///< clients know it by this name
  std::vector<std::string> aliases = {};  ///< and by these
  Model model;
  /// Requests choose among them by name; the first is used where a request names none.
  std::vector<Drafter> drafters;
  /// Of requests that do not say: OpenAI's.
  SamplingParams sampling = {.temperature = 1.0};
  LogitChanges changes = {};                     ///< their penalties
  std::optional<std::uint32_t> max_tokens = {};  ///< of their chats; empty: what the context holds
  Rule rule = Rule::kSharedNoise;
  std::uint32_t max_draft = 15;
  bool fixed_draft = false;                            ///< always draft that many
  ReasoningFormat reasoning = ReasoningFormat::kAuto;  ///< where a request names none
  std::size_t max_choices = 64;                        ///< texts of one request
  /// A longer text has more tokens than the context holds, whatever it says.
  std::size_t max_prompt_bytes = std::size_t{1} << 20;
  std::int64_t created = 0;  ///< seconds since 1970
};

}  // namespace forerun::serve
