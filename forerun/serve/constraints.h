#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/model.h"
#include "forerun/serve/generation_request.h"
#include "forerun/serve/served_model.h"

namespace forerun::serve {

/// Holds the answers to "response_format", or to calls of "tools" as "tool_choice" has it.
/// @param request  whose reasoning, if it is told apart, may come before them
/// @param body  the request as it came: its schemas' properties stay in their order
/// @throws ApiError 400  a schema or a tool that would not be kept in full
void read_constraints(GenerationRequest& request, const nlohmann::json& fields,
                      std::string_view body, const ServedModel& served);

/// Whether a request may hold its answer to a form, which takes seconds to compile at worst. It is
/// not parsed: texts in it may hold the names of the fields too, and names with escapes are missed.
bool may_hold_form(std::string_view body);

/// A request with its fields in the order in which they were sent.
/// @param body  the same: sound JSON
/// @throws ApiError 400  too large for that
nlohmann::ordered_json as_written(const nlohmann::json& request, std::string_view body);
/// "tools" in the order in which their fields were sent; empty: there are none, or none may be
/// called.
std::string tools_as_written(const nlohmann::json& fields, std::string_view body);
/// The same in words, to stand at the end of the system message: those of Qwen 2.5's and Hermes'
/// templates.
std::string tools_message(const nlohmann::json& fields);

/// "tool_calls" of an answer in "messages", in the text that the model wrote for them.
/// @throws ApiError 400  another form
std::string written_calls(const nlohmann::json& calls, const std::string& where);
/// The same as a JSON list for templates, which want arguments as objects.
std::string calls_for_template(const nlohmann::json& calls, const std::string& where);

}  // namespace forerun::serve
