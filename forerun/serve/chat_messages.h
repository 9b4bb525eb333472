#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "forerun/model.h"
#include "forerun/serve/served_model.h"

namespace forerun::serve {

/// A conversation as the model's template gets it.
struct ChatPrompt {
  std::vector<Message> messages;
  ChatInput input;
};

/// "messages", "tools", "chat_template_kwargs" and "add_generation_prompt" of a request.
/// Tools, their calls and their results go to the template as they are if it knows the calls that
/// answers are held to; other models are told of them in words.
/// @param body  the request as it came: tools keep the order of their fields
/// @throws ApiError 400  another form, or longer than the model's context
ChatPrompt parse_chat_prompt(const nlohmann::json& request, std::string_view body,
                             const ServedModel& served);

/// The tokens of a prompt.
/// @throws ApiError 400  what the template says against it
std::vector<Token> encode(const ChatPrompt& prompt, const ServedModel& served);

}  // namespace forerun::serve
