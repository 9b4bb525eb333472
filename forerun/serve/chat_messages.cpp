#include "forerun/serve/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "forerun/serve/api_error.h"
#include "forerun/serve/constraints.h"
#include "forerun/serve/generation_request.h"
#include "forerun/serve/json.h"
#include "forerun/serve/reasoning.h"

namespace forerun::serve {
namespace {

using nlohmann::json;

std::string content_of(const Fields& fields, const std::string& where) {
  const json* content = fields.find("content");
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    throw bad_field(where + ".content", "is wrong: send a string, or a list of text parts");
  }
  std::string text;
  for (const json& part : *content) {
    const Fields p(part, where + ".content.");
    const std::string type = p.text("type").value_or("text");
    if (type == "refusal") {  // of an earlier answer
      text += p.text("refusal").value_or("");
      continue;
    }
    if (type != "text") {
      throw bad_field(where + ".content",
                      fmt::format("holds a part of type '{}': the model reads text alone",
                                  type.substr(0, 100)));
    }
    text += p.text("text").value_or("");
  }
  return text;
}

std::string role_of(const Fields& fields, const std::string& where) {
  std::string role = fields.text("role").value_or("");
  if (role == "developer") role = "system";  // its newer name
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    throw bad_field(where + ".role", "is wrong: send system, user, assistant or tool");
  }
  return role;
}

// For a template that knows tools.
Message with_fields(const json& message, const std::string& where) {
  const Fields fields(message, where + ".");
  Message out{role_of(fields, where), content_of(fields, where)};
  std::string more;
  const auto add = [&](const char* name, const std::string& value) {
    more += fmt::format(R"({}"{}": {})", more.empty() ? "" : ", ", name, value);
  };
  for (const char* name : {"reasoning_content", "tool_call_id", "name"}) {
    if (const auto text = fields.text(name)) add(name, dump(*text));
  }
  if (const json* calls = fields.find("tool_calls")) {
    add("tool_calls", calls_for_template(*calls, where + ".tool_calls"));
  }
  if (!more.empty()) out.fields = "{" + more + "}";
  return out;
}

// For any other: calls and results are written into the contents.
void add_in_words(std::vector<Message>& out, const json& message, const std::string& where,
                  bool after_results) {
  const Fields fields(message, where + ".");
  std::string role = role_of(fields, where), content = content_of(fields, where);
  if (const json* calls = fields.find("tool_calls")) {
    if (!content.empty()) content += "\n";
    content += written_calls(*calls, where + ".tool_calls");
  }
  if (role == "tool") {
    content = "<tool_response>\n" + content + "\n</tool_response>";
    role = "user";
    if (after_results) {  // those of one turn stand in one message
      out.back().content += "\n" + content;
      return;
    }
  }
  Message turn{std::move(role), std::move(content)};
  if (const auto thoughts = fields.text("reasoning_content")) {
    turn.fields = dump({{"reasoning_content", *thoughts}});
  }
  out.push_back(std::move(turn));
}

void describe_tools(std::vector<Message>& turns, const std::string& tools) {
  if (tools.empty()) return;
  if (turns.front().role == "system") {
    turns.front().content += "\n\n" + tools;
  } else {
    turns.insert(turns.begin(), {"system", tools});
  }
}

void check_sizes(const ChatPrompt& prompt, const ServedModel& served) {
  std::size_t bytes = prompt.input.tools.size() + prompt.input.variables.size();
  for (const Message& m : prompt.messages) bytes += m.content.size() + m.fields.size();
  if (bytes > served.max_prompt_bytes) check_text_size(std::string(bytes, ' '), served, "messages");
}

}  // namespace

ChatPrompt parse_chat_prompt(const json& request, std::string_view body,
                             const ServedModel& served) {
  const Fields fields(request);
  const json* messages = fields.find("messages");
  if (messages == nullptr) throw bad_field("messages", "is missing: send the conversation");
  if (!messages->is_array() || messages->empty()) {
    throw bad_field("messages", "is wrong: send a list with at least one message");
  }
  ChatPrompt out;
  const bool knows_tools = served.model.chat_writes_tools();
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const std::string where = fmt::format("messages.{}", i);
    if (knows_tools) {
      out.messages.push_back(with_fields((*messages)[i], where));
    } else {
      add_in_words(out.messages, (*messages)[i], where,
                   i > 0 && Fields((*messages)[i - 1]).text("role") == "tool");
    }
  }
  if (knows_tools) {
    out.input.tools = tools_as_written(request, body);
  } else {
    describe_tools(out.messages, tools_message(request));
  }
  json variables = json::object();
  if (const json* given = fields.find("chat_template_kwargs")) {
    static_cast<void>(Fields(*given, "chat_template_kwargs."));  // an object
    variables = *given;
  }
  add_effort(variables, fields, served.model);
  if (!variables.empty()) out.input.variables = dump(variables);
  out.input.add_generation_prompt = fields.flag("add_generation_prompt", true);
  out.input.continue_last = fields.flag("continue_final_message", false);
  if (out.input.continue_last) {
    if (out.messages.back().role != "assistant") {
      throw bad_field("continue_final_message", "needs a last message of role assistant");
    }
    if (Fields(messages->back()).find("tool_calls") != nullptr) {
      throw bad_field("continue_final_message", "needs a last message without tool_calls");
    }
    if (fields.flag("add_generation_prompt", false)) {
      throw bad_field("continue_final_message", "needs \"add_generation_prompt\": false");
    }
  }
  check_sizes(out, served);
  return out;
}

std::vector<Token> encode(const ChatPrompt& prompt, const ServedModel& served) {
  try {
    return served.model.encode_chat(prompt.messages, prompt.input);
  } catch (const UsageError& e) {
    throw ApiError(400, e.what(), "messages");
  }
}

}  // namespace forerun::serve
