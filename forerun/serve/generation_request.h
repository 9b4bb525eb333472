#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/generate_options.h"
#include "forerun/model.h"
#include "forerun/serve/native_calls.h"
#include "forerun/serve/reasoning.h"
#include "forerun/serve/served_model.h"

namespace forerun::serve {

enum class Api : std::uint8_t { kChat, kCompletions, kResponses };

/// A request to /v1/chat/completions, /v1/completions or /v1/responses, checked and encoded.
struct GenerationRequest {
  Api api = Api::kChat;
  std::vector<std::vector<Token>> prompts;
  std::vector<std::string> prompt_texts;  ///< what `echo` repeats
  std::size_t n = 1;                      ///< texts of each prompt
  /// Of the first text. Text i of prompt p draws the random numbers of request p * n + i.
  GenerateOptions options;
  Drafter drafter;
  std::optional<std::size_t> top;  ///< log-probabilities are wanted, and so many likeliest tokens
  bool stream = false;
  bool usage_chunk = false;        ///< a stream ends with the numbers of tokens
  bool usage_so_far = false;       ///< and every chunk has them
  bool echo = false;               ///< the text begins with the prompt
  bool rounds = false;             ///< chunks say how their text came about
  bool calls_tools = false;        ///< calls in the text are handed over as such
  bool calls_or_form = false;      ///< and a text that does not begin with one holds none
  bool calls_in_channels = false;  ///< calls are those of HarmonyText
  std::shared_ptr<const NativeCalls> native_calls;  ///< the form of calls; null: CallForm::kJson
  std::optional<ReasoningStart> reasoning;          ///< is handed over as such
  std::shared_ptr<const nlohmann::json> response;   ///< what the answer of kResponses repeats

  std::size_t choices() const noexcept { return prompts.size() * n; }
};

/// @throws ApiError  400: a field is wrong, or asks for what the server does not do; 404: another
/// model
GenerationRequest parse_chat(std::string_view body, const ServedModel& served);
GenerationRequest parse_completion(std::string_view body, const ServedModel& served);

/// @throws ApiError 400  a text so long that its tokens need not be counted
void check_text_size(const std::string& text, const ServedModel& served, const std::string& param);

}  // namespace forerun::serve
