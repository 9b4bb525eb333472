#include "forerun/serve/response_items.h"

#include <fmt/format.h>

#include <utility>

#include "forerun/serve/api_error.h"

namespace forerun::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kShown = 100;  // bytes of a name in messages

// A text, or a list of parts, which are texts alone.
std::string text_of_parts(const Fields& fields, const char* name) {
  const json* content = fields.find(name);
  const std::string where = fields.name_of(name);
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    throw bad_field(where, "is wrong: send a string, or a list of text parts");
  }
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    const std::string place = fmt::format("{}.{}", where, i);
    const Fields part((*content)[i], place + ".");
    const std::string type = part.text("type").value_or("");
    if (type == "refusal") {
      text += part.text("refusal").value_or("");
    } else if (type == "input_text" || type == "output_text" || type == "text" ||
               type == "reasoning_text") {
      text += part.text("text").value_or("");
    } else {
      throw bad_field(place, fmt::format("is a part of type '{}': the model reads text alone",
                                         type.substr(0, kShown)));
    }
  }
  return text;
}

std::string needed(const Fields& fields, const char* name) {
  std::optional<std::string> text = fields.text(name);
  if (!text || text->empty()) throw bad_field(fields.name_of(name), "is missing");
  return *std::move(text);
}

}  // namespace

void ItemMessages::push(json message, const std::string& where) {
  messages_.push_back(std::move(message));
  places_.push_back({where});
}

void ItemMessages::add_instructions(const std::string& text) {
  push({{"role", "system"}, {"content", text}}, "instructions");
}

void ItemMessages::add(const json& input) {
  if (input.is_string()) return push({{"role", "user"}, {"content", input}}, "input");
  if (!input.is_array() || input.empty()) {
    throw bad_field("input", "is wrong: send a string, or a list with at least one item");
  }
  for (std::size_t i = 0; i < input.size(); ++i) add_item(input[i], fmt::format("input.{}", i));
}

void ItemMessages::add_item(const json& item, const std::string& where) {
  const Fields fields(item, where + ".");
  const auto type = fields.text("type");
  if (type.value_or("message") == "message" && (type || fields.find("role") != nullptr)) {
    return add_message(fields, where);
  }
  const std::string name = type.value_or("");
  if (name == "reasoning") return add_reasoning(fields, where);
  if (name == "function_call") return add_call(fields, where);
  if (name == "function_call_output") return add_result(fields, where);
  if (name == "item_reference") {
    throw bad_field(where, "refers to an item, and this server keeps none: send the item itself");
  }
  throw bad_field(where,
                  fmt::format("is an item of type '{}': this server reads message, function_call, "
                              "function_call_output and reasoning",
                              name.substr(0, kShown)));
}

void ItemMessages::add_message(const Fields& item, const std::string& where) {
  const std::string role = item.text("role").value_or("");
  if (role != "user" && role != "system" && role != "developer" && role != "assistant") {
    throw bad_field(where + ".role", "is wrong: send user, system, developer or assistant");
  }
  std::string content = text_of_parts(item, "content");
  if (role == "assistant" && turn_ == Turn::kReasoned) {
    messages_.back()["content"] = std::move(content);
  } else {
    push({{"role", role}, {"content", std::move(content)}}, where);
  }
  turn_ = role == "assistant" ? Turn::kSpoken : Turn::kNone;
}

void ItemMessages::add_reasoning(const Fields& item, const std::string& where) {
  if (item.find("encrypted_content") != nullptr) {
    throw bad_field(where + ".encrypted_content",
                    "is another server's: leave it out, or send the reasoning as content");
  }
  std::string text = text_of_parts(item, "content");
  if (text.empty()) return;  // a summary is not what the model wrote
  if (turn_ == Turn::kReasoned) {
    auto& before = messages_.back()["reasoning_content"].get_ref<std::string&>();
    before += "\n" + text;
    return;
  }
  push({{"role", "assistant"}, {"content", ""}, {"reasoning_content", std::move(text)}}, where);
  turn_ = Turn::kReasoned;
}

void ItemMessages::add_call(const Fields& item, const std::string& where) {
  const std::string arguments = item.text("arguments").value_or("");
  json call = {
      {"id", needed(item, "call_id")},
      {"type", "function"},
      {"function",
       {{"name", needed(item, "name")}, {"arguments", arguments.empty() ? "{}" : arguments}}}};
  if (turn_ == Turn::kNone) push({{"role", "assistant"}, {"content", nullptr}}, where);
  messages_.back()["tool_calls"].push_back(std::move(call));
  places_.back().calls.push_back(where);
  turn_ = Turn::kCalled;
}

void ItemMessages::add_result(const Fields& item, const std::string& where) {
  if (item.find("output") == nullptr) throw bad_field(where + ".output", "is missing");
  push({{"role", "tool"},
        {"tool_call_id", needed(item, "call_id")},
        {"content", text_of_parts(item, "output")}},
       where);
  turn_ = Turn::kNone;
}

}  // namespace forerun::serve
