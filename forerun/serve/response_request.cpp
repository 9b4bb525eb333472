#include "forerun/serve/response_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "forerun/serve/api_error.h"
#include "forerun/serve/constraints.h"
#include "forerun/serve/json.h"
#include "forerun/serve/response_items.h"

namespace forerun::serve {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMostPairs = 16, kMostKey = 64, kMostValue = 512;  // as at OpenAI
constexpr std::size_t kShownType = 100;

// Fields that would change what is made or kept, and the values that leave it as it is; and those
// that other endpoints have in place of one here.
struct Refused {
  const char* name;
  json neutral;
  const char* message;
};
const std::vector<Refused>& refused() {
  constexpr const char* kKeeps =
      "is not supported, as this server keeps no answers: send the whole conversation as 'input'";
  static const std::vector<Refused> all = {
      {"previous_response_id", nullptr, kKeeps},
      {"conversation", nullptr, kKeeps},
      {"store", false, "is not supported, as this server keeps no answers: leave it out"},
      {"background", false, "is not supported by this server: leave it out"},
      {"prompt", nullptr, "is not supported, as this server keeps no prompts: send 'input'"},
      {"truncation", "disabled", "is not supported, as nothing is left out of 'input': shorten it"},
      {"context_management", json::array(), "is not supported by this server: leave it out"},
      {"messages", nullptr, "is a field of /v1/chat/completions: send 'input'"},
      {"max_tokens", nullptr, "is a field of /v1/chat/completions: send 'max_output_tokens'"},
      {"max_completion_tokens", nullptr,
       "is a field of /v1/chat/completions: send 'max_output_tokens'"},
      {"n_predict", nullptr, "is a field of /v1/chat/completions: send 'max_output_tokens'"},
      {"response_format", nullptr, "is a field of /v1/chat/completions: send 'text.format'"},
      {"reasoning_effort", nullptr, "is a field of /v1/chat/completions: send 'reasoning.effort'"},
      {"logprobs", nullptr,
       "is a field of /v1/chat/completions: send \"include\": [\"message.output_text.logprobs\"]"},
      {"n", 1, "is not supported: a response has one text"},
      {"best_of", 1, "is not supported: a response has one text"}};
  return all;
}

// Fields whose place in the chat another one takes, and those that change nothing.
constexpr const char* kOwnFields[] = {
    "input",      "instructions",       "max_output_tokens", "text",           "reasoning",
    "tools",      "tool_choice",        "include",           "stream_options", "store",
    "background", "context_management", "truncation",        "metadata",       "n",
    "best_of"};

void refuse_fields(const json& body) {
  const Fields fields(body);
  for (const auto& [name, neutral, message] : refused()) {
    const json* value = fields.find(name);
    if (value != nullptr && *value != neutral) throw bad_field(name, message);
  }
  if (const json* given = fields.find("speculative"); given != nullptr && given->is_object()) {
    if (Fields(*given, "speculative.").flag("rounds", false)) {
      throw bad_field("speculative.rounds", "is for chats: send them to /v1/chat/completions");
    }
  }
}

std::string type_of_tool(const json& tool, const std::string& where) {
  std::string type = Fields(tool, where + ".").text("type").value_or("");
  if (type == "function") return type;
  throw bad_field(where, fmt::format("is of type '{}': this server has functions alone, which the "
                                     "client carries out",
                                     type.substr(0, kShownType)));
}

// Functions as chats have them: with their fields in one of their own.
ordered_json chat_tools(const json& tools, const ordered_json& written) {
  if (!tools.is_array()) throw bad_field("tools", "is wrong: send a list of functions");
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    type_of_tool(tools[i], fmt::format("tools.{}", i));
    ordered_json function = ordered_json::object();
    for (const auto& [name, value] : written[i].items()) {
      if (name != "type" && !value.is_null()) function[name] = value;
    }
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

json chat_choice(const json& choice) {
  if (!choice.is_object()) return choice;
  if (Fields(choice, "tool_choice.").text("type") == "allowed_tools") {
    json some = choice;
    some.erase("type");
    json* tools = some.contains("tools") && some["tools"].is_array() ? &some["tools"] : nullptr;
    for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      (*tools)[i] = chat_choice((*tools)[i]);
    }
    return {{"type", "allowed_tools"}, {"allowed_tools", std::move(some)}};
  }
  type_of_tool(choice, "tool_choice");
  const auto name = Fields(choice, "tool_choice.").text("name");
  if (!name) throw bad_field("tool_choice.name", "is missing: name a function");
  return {{"type", "function"}, {"function", {{"name", *name}}}};
}

// "text" has the form of the answer.
void add_format(ordered_json& chat, const json& text, std::string_view body, const json& request) {
  const Fields fields(text, "text.");
  if (fields.text("verbosity").value_or("medium") != "medium") {
    throw bad_field("text.verbosity", "is not supported by this server: say it in 'instructions'");
  }
  const json* format = fields.find("format");
  if (format == nullptr) return;
  const Fields of(*format, "text.format.");
  if (of.text("type").value_or("") != "json_schema") {
    chat["response_format"] = *format;
    return;
  }
  if (of.find("schema") == nullptr) throw bad_field("text.format.schema", "is missing");
  ordered_json form = as_written(request, body)["text"]["format"];
  form.erase("type");
  chat["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(form)}};
}

void add_includes(ordered_json& chat, const Fields& fields) {
  constexpr std::size_t kMostIncludes = 64;
  // Others are of items that no answer here has, or of reasoning, which is there in the clear.
  const auto all = fields.texts("include", kMostIncludes);
  if (std::find(all.begin(), all.end(), "message.output_text.logprobs") != all.end()) {
    chat["logprobs"] = true;
  } else if (fields.whole("top_logprobs", 0, 20).value_or(0) > 0) {
    throw bad_field("top_logprobs", "needs \"include\": [\"message.output_text.logprobs\"]");
  }
}

void add_reasoning(ordered_json& chat, const Fields& fields) {
  const json* given = fields.find("reasoning");
  if (given == nullptr) return;
  const Fields reasoning(*given, "reasoning.");
  if (const auto effort = reasoning.text("effort")) chat["reasoning_effort"] = *effort;
}

void check_metadata(const Fields& fields) {
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"}) {
    if (const auto text = fields.text(name); text && text->size() > kMostValue) {
      throw bad_field(name, fmt::format("has {} bytes: send {} at most", text->size(), kMostValue));
    }
  }
  static_cast<void>(fields.whole("max_tool_calls", 1, INT32_MAX));  // of tools that are not here
  const json* metadata = fields.find("metadata");
  if (metadata == nullptr) return;
  const Fields pairs(*metadata, "metadata.");
  bool good = metadata->size() <= kMostPairs;
  for (const auto& [key, value] : metadata->items()) {
    good = good && key.size() <= kMostKey && value.is_string() &&
           value.get_ref<const std::string&>().size() <= kMostValue;
  }
  if (!good) {
    throw bad_field("metadata", fmt::format("is wrong: send up to {} strings of up to {} bytes, "
                                            "with names of up to {}",
                                            kMostPairs, kMostValue, kMostKey));
  }
}

struct AsChat {
  std::string body;
  std::vector<ItemPlace> places;  // of its messages
};

// The request in the words of /v1/chat/completions.
AsChat as_chat(const json& request, std::string_view body) {
  const Fields fields(request);
  refuse_fields(request);
  check_metadata(fields);
  ordered_json chat = ordered_json::object();
  for (const auto& [name, value] : request.items()) {
    const auto* const end = std::end(kOwnFields);
    if (std::find(std::begin(kOwnFields), end, name) == end) chat[name] = value;
  }
  ItemMessages items;
  if (const auto text = fields.text("instructions")) items.add_instructions(*text);
  const json* input = fields.find("input");
  if (input == nullptr) throw bad_field("input", "is missing: send a text, or a list of items");
  items.add(*input);
  chat["messages"] = items.messages();
  if (const auto most = fields.whole("max_output_tokens", 1, INT32_MAX)) {
    chat["max_completion_tokens"] = *most;
  }
  if (const json* tools = fields.find("tools"); tools != nullptr) {
    chat["tools"] = chat_tools(*tools, as_written(request, body)["tools"]);
  }
  if (const json* choice = fields.find("tool_choice")) chat["tool_choice"] = chat_choice(*choice);
  if (const json* text = fields.find("text")) add_format(chat, *text, body, request);
  add_includes(chat, fields);
  add_reasoning(chat, fields);
  return {chat.dump(-1, ' ', false, ordered_json::error_handler_t::replace), items.places()};
}

// The number at the beginning of a text, which is cut off.
std::size_t take_number(std::string_view& text) {
  std::size_t out = SIZE_MAX;
  text.remove_prefix(static_cast<std::size_t>(
      std::from_chars(text.data(), text.data() + text.size(), out).ptr - text.data()));
  return out;
}

// What of the input a field of a message is.
// @param field  "3.content"
std::string item_field(std::string_view field, const std::vector<ItemPlace>& places) {
  constexpr std::string_view kCalls = ".tool_calls.", kFunction = ".function";
  const std::size_t message = take_number(field);
  if (message >= places.size()) return "input";
  const ItemPlace& place = places[message];
  if (!field.starts_with(kCalls)) {
    return place.message + (field == ".content" ? std::string(field) : "");
  }
  field.remove_prefix(kCalls.size());
  const std::size_t call = take_number(field);
  if (call >= place.calls.size()) return place.message;
  if (field.starts_with(kFunction)) field.remove_prefix(kFunction.size());
  return place.calls[call] + std::string(field);
}

// A field of the chat as the request has it.
std::string own_name(const std::string& param, const AsChat& chat) {
  constexpr std::string_view kMessages = "messages.", kFunction = ".function";
  if (param == "messages") return "input";
  if (param.starts_with(kMessages)) {
    return item_field(std::string_view(param).substr(kMessages.size()), chat.places);
  }
  if (param.starts_with("response_format")) return "text.format";
  if (param == "max_completion_tokens") return "max_output_tokens";
  if (param == "reasoning_effort") return "reasoning.effort";
  std::string out = param;
  constexpr std::string_view kAllowed = ".allowed_tools";
  if (const std::size_t at = out.find(kAllowed); at != out.npos) out.erase(at, kAllowed.size());
  if (const std::size_t at = out.find(kFunction); out.starts_with("tool") && at != out.npos) {
    out.erase(at, kFunction.size());
  }
  return out;
}

ApiError in_own_words(const ApiError& e, const AsChat& chat) {
  const std::string name = own_name(e.param(), chat), quoted = "'" + e.param() + "'";
  std::string message = e.what();
  if (message.starts_with(quoted)) message.replace(0, quoted.size(), "'" + name + "'");
  constexpr std::string_view kForm = "response_format";
  if (const std::size_t at = message.find(kForm); at != message.npos) {
    message.replace(at, kForm.size(), "text.format");
  }
  return {e.status(), message, name, e.code()};
}

// What the answer repeats.
json repeated(const json& request, const GenerationRequest& r) {
  const Fields fields(request);
  const auto given = [&](const char* name, const json& otherwise = nullptr) {
    const json* value = fields.find(name);
    return value != nullptr ? *value : otherwise;
  };
  const json text = given("text", json::object()), reasoning = given("reasoning", json::object());
  json format = text.value("format", json());
  if (format.is_null()) format = {{"type", "text"}};
  return {{"background", false},
          {"completed_at", nullptr},
          {"instructions", given("instructions")},
          {"max_output_tokens", given("max_output_tokens")},
          {"max_tool_calls", given("max_tool_calls")},
          {"metadata", given("metadata", json::object())},
          {"parallel_tool_calls", fields.flag("parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"prompt_cache_key", given("prompt_cache_key")},
          {"reasoning", {{"effort", reasoning.value("effort", json())}, {"summary", nullptr}}},
          {"safety_identifier", given("safety_identifier")},
          {"service_tier", "default"},
          {"store", false},
          {"temperature", r.options.sampling.temperature},
          {"text", {{"format", std::move(format)}, {"verbosity", "medium"}}},
          {"tool_choice", given("tool_choice", "auto")},
          {"tools", given("tools", json::array())},
          {"top_logprobs", r.top.value_or(0)},
          {"top_p", r.options.sampling.top_p},
          {"truncation", "disabled"},
          {"user", given("user")}};
}

}  // namespace

GenerationRequest parse_response(std::string_view text, const ServedModel& served) {
  const json request = parse_object(text);
  const AsChat chat = as_chat(request, text);
  GenerationRequest out;
  try {
    out = parse_chat(chat.body, served);
  } catch (const ApiError& e) {
    throw in_own_words(e, chat);
  }
  if (out.top && out.calls_tools) {
    throw bad_field("include",
                    "asks for log-probabilities beside tools: send \"tool_choice\": \"none\", or "
                    "the request to /v1/chat/completions");
  }
  out.api = Api::kResponses;
  out.response = std::make_shared<const json>(repeated(request, out));
  return out;
}

}  // namespace forerun::serve
