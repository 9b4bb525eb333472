#include "forerun/serve/constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/base/json_text.h"
#include "forerun/serve/api_error.h"
#include "forerun/serve/json.h"

namespace forerun::serve {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMostTools = 128, kMostName = 64;
constexpr std::size_t kMostSchemaBytes = 64 * 1024, kMostValues = 20'000;
constexpr std::size_t kMostChoices = 1024;

std::size_t values_of(const json& j) {
  std::size_t n = 1;
  if (j.is_structured()) {
    for (const json& part : j) n += values_of(part);
  }
  return n;
}

std::string of_fair_size(std::string schema, const std::string& param) {
  if (schema.size() > kMostSchemaBytes) {
    throw bad_field(param, fmt::format("has a schema of {} bytes: {} at most", schema.size(),
                                       kMostSchemaBytes));
  }
  return schema;
}

std::string schema_at(const ordered_json& document, const std::string& pointer,
                      const std::string& param) {
  return of_fair_size(document.at(ordered_json::json_pointer(pointer)).dump(), param);
}

std::string name_of_tool(const json& tool, const std::string& where) {
  const Fields fields(tool, where + ".");
  if (fields.text("type").value_or("function") != "function" ||
      fields.find("function") == nullptr) {
    throw bad_field(where, R"(is wrong: send {"type": "function", "function": {"name": ...}})");
  }
  const Fields function(*fields.find("function"), where + ".function.");
  const std::string name = function.text("name").value_or("");
  const bool good = !name.empty() && name.size() <= kMostName &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
                    });
  if (!good) {
    throw bad_field(where + ".function.name",
                    "is wrong: send up to 64 letters, digits, dashes and underscores");
  }
  return name;
}

struct ToolsWanted {
  std::vector<std::string> names;
  std::vector<std::string> allowed;  // those to call; empty: any
  bool one = false;                  // of them, as it is named alone
  bool none = false, required = false;
};

// OpenAI's two ways to name some of the tools.
void read_choice(ToolsWanted& out, const json& choice) {
  const std::string type = Fields(choice, "tool_choice.").text("type").value_or("function");
  if (type != "allowed_tools") {
    out.allowed = {name_of_tool(choice, "tool_choice")};
    out.one = out.required = true;
    return;
  }
  const json* given = Fields(choice, "tool_choice.").find("allowed_tools");
  const json nothing = json::object();
  const Fields some(given != nullptr ? *given : nothing, "tool_choice.allowed_tools.");
  const std::string mode = some.text("mode").value_or("auto");
  const json* tools = some.find("tools");
  if ((mode != "auto" && mode != "required") || tools == nullptr || !tools->is_array() ||
      tools->empty()) {
    throw bad_field("tool_choice.allowed_tools",
                    R"(is wrong: send {"mode": "auto" or "required", "tools": [...]})");
  }
  for (std::size_t i = 0; i < tools->size(); ++i) {
    out.allowed.push_back(
        name_of_tool((*tools)[i], fmt::format("tool_choice.allowed_tools.tools.{}", i)));
  }
  out.required = mode == "required";
}

ToolsWanted tools_of(const json& request) {
  const Fields fields(request);
  ToolsWanted out;
  const json* tools = fields.find("tools");
  const json* choice = fields.find("tool_choice");
  if (tools != nullptr && !tools->is_array()) {
    throw bad_field("tools", "is wrong: send a list of functions");
  }
  for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    out.names.push_back(name_of_tool((*tools)[i], fmt::format("tools.{}", i)));
  }
  if (out.names.size() > kMostTools) {
    throw bad_field("tools",
                    fmt::format("holds {} tools: {} at most", out.names.size(), kMostTools));
  }
  const std::string way =
      choice != nullptr && choice->is_string() ? choice->get<std::string>() : "";
  if (choice != nullptr && choice->is_object()) {
    read_choice(out, *choice);
    for (const std::string& name : out.allowed) {
      if (std::find(out.names.begin(), out.names.end(), name) == out.names.end()) {
        throw bad_field("tool_choice", "names a function that is not among the tools");
      }
    }
  } else if (choice != nullptr && way != "none" && way != "auto" && way != "required") {
    throw bad_field("tool_choice",
                    "is wrong: send none, auto, required, one function or allowed_tools");
  }
  out.required = out.required || way == "required";
  out.none = way == "none" || out.names.empty();
  if (out.required && out.names.empty()) {
    throw bad_field("tool_choice", "asks for a call, and there are no tools");
  }
  return out;
}

// What an answer is held to, as one of the fields of the request says.
struct Form {
  std::string param;  // the field; empty: none
  std::optional<std::string> schema = {};
  std::vector<std::string> choice = {};
  std::optional<std::string> regex = {};
};

std::string schema_of(const json& value, const std::string& pointer, const std::string& param,
                      const json& request, std::string_view body) {
  if (!value.is_string()) return schema_at(as_written(request, body), pointer, param);
  return of_fair_size(value.get<std::string>(), param);  // JSON in JSON, as vLLM takes it
}

std::vector<std::string> choice_of(const Fields& fields, const char* name) {
  std::vector<std::string> out = fields.texts(name, kMostChoices);
  if (out.empty()) throw bad_field(fields.name_of(name), "is empty: send the texts to choose from");
  return out;
}

Form response_format(const json& request, std::string_view body) {
  const Fields of(request["response_format"], "response_format.");
  const std::string type = of.text("type").value_or("");
  Form out{.param = "response_format"};
  if (type == "text") return {};
  if (type == "json_schema") {
    const json* inner = of.find("json_schema");
    const json* schema =
        inner == nullptr ? nullptr : Fields(*inner, "response_format.json_schema.").find("schema");
    if (schema == nullptr) {
      throw bad_field("response_format",
                      R"(is wrong: send {"type": "json_schema", "json_schema": {"schema": ...}})");
    }
    out.schema =
        schema_of(*schema, "/response_format/json_schema/schema", out.param, request, body);
  } else if (type == "json_object") {  // a schema in it is llama.cpp's way
    const json* schema = of.find("schema");
    out.schema = schema == nullptr
                     ? R"({"type": "object"})"
                     : schema_of(*schema, "/response_format/schema", out.param, request, body);
  } else {
    throw bad_field("response_format.type", "is wrong: send text, json_object or json_schema");
  }
  return out;
}

// vLLM's field: one of these, and others that are refused.
Form structured_outputs(const json& request, std::string_view body) {
  const Fields of(request["structured_outputs"], "structured_outputs.");
  Form out{.param = "structured_outputs"};
  std::size_t forms = 0;
  for (const auto& [name, value] : request["structured_outputs"].items()) {
    if (value.is_null()) continue;
    ++forms;
    if (name == "json") {
      out.schema = schema_of(value, "/structured_outputs/json", out.param, request, body);
    } else if (name == "choice") {
      out.choice = choice_of(of, "choice");
    } else if (name == "regex") {
      out.regex = of.text("regex");
    } else {
      throw bad_field(of.name_of(name),
                      "is not supported by this server: send json, choice or regex");
    }
  }
  if (forms != 1) {
    throw bad_field(out.param, "is wrong: send one of json, choice and regex");
  }
  return out;
}

Form form_of(const json& request, std::string_view body) {
  const Fields fields(request);
  Form out;
  const auto take = [&](Form form) {
    if (form.param.empty()) return;
    if (!out.param.empty()) {
      throw bad_field(form.param, "cannot be kept beside " + out.param + ": send one of them");
    }
    out = std::move(form);
  };
  if (fields.find("response_format") != nullptr) take(response_format(request, body));
  if (fields.find("structured_outputs") != nullptr) take(structured_outputs(request, body));
  const auto take_schema = [&](const char* name, const json& schema) {
    take(
        {.param = name, .schema = schema_of(schema, std::string("/") + name, name, request, body)});
  };
  if (const json* schema = fields.find("guided_json")) take_schema("guided_json", *schema);
  // llama.cpp's, whose clients send an empty one for none.
  if (const json* schema = fields.find("json_schema"); schema && *schema != json::object()) {
    take_schema("json_schema", *schema);
  }
  if (fields.find("guided_choice") != nullptr) {
    take({.param = "guided_choice", .choice = choice_of(fields, "guided_choice")});
  }
  for (const char* name : {"guided_regex", "regex"}) {  // vLLM's and SGLang's names
    if (const auto text = fields.text(name)) take({.param = name, .regex = *text});
  }
  return out;
}

// Reasoning that is told apart is no part of the form.
ReasoningStart reasoning_before(const GenerationRequest& r) {
  return r.reasoning.value_or(ReasoningStart::kAfter);
}

// Whether the calls are HarmonyText's, which a message that goes on has none of.
bool calls_in_channels(const json& request, const ServedModel& served) {
  return served.model.answers_in_channels() &&
         !Fields(request).flag("continue_final_message", false);
}

void read_tools(GenerationRequest& r, const json& request, const ordered_json& document,
                const ToolsWanted& wanted, const std::string& answer, const ServedModel& served) {
  std::vector<Tool> tools;
  for (std::size_t i = 0; i < wanted.names.size(); ++i) {
    const auto& allowed = wanted.allowed;
    if (!allowed.empty() &&
        std::find(allowed.begin(), allowed.end(), wanted.names[i]) == allowed.end()) {
      continue;
    }
    const Fields function(request["tools"][i]["function"], fmt::format("tools.{}.function.", i));
    // As OpenAI's: without "strict": true a schema is kept as far as it can be.
    Tool tool{.name = wanted.names[i], .parameters = "", .strict = function.flag("strict", false)};
    if (function.find("parameters") != nullptr) {
      tool.parameters =
          schema_at(document, fmt::format("/tools/{}/function/parameters", i), "tools");
    }
    tools.push_back(std::move(tool));
  }
  const CallForm form = served.model.call_form();
  try {
    r.options.changes.grammar = served.model.tool_grammar(
        tools,
        {.required = wanted.required,
         .several = Fields(request).flag("parallel_tool_calls", true) && !wanted.one,
         .answer = answer,
         .form = form,
         .reasoning = r.calls_in_channels ? ReasoningStart::kChannels : reasoning_before(r)});
  } catch (const UsageError& e) {
    throw bad_field("tools", std::string("cannot be kept: ") + e.what());
  }
  if (form != CallForm::kJson) r.native_calls = std::make_shared<const NativeCalls>(form, tools);
  r.calls_tools = true;
  r.calls_or_form = !answer.empty();
}

}  // namespace

bool may_hold_form(std::string_view body) {
  constexpr std::string_view kFields[] = {
      R"("tools")",       R"("response_format")", R"("structured_outputs")",
      R"("guided_json")", R"("guided_choice")",   R"("guided_regex")",
      R"("regex")",       R"("json_schema")",     R"("format")"};
  return std::any_of(std::begin(kFields), std::end(kFields),
                     [&](std::string_view name) { return body.find(name) != body.npos; });
}

ordered_json as_written(const json& request, std::string_view body) {
  // Objects that keep their order take time by the square of their size.
  if (values_of(request) > kMostValues) {
    throw ApiError(400, fmt::format("a request with a schema or tools holds more than {} values",
                                    kMostValues));
  }
  return ordered_json::parse(body);
}

void read_constraints(GenerationRequest& r, const json& request, std::string_view body,
                      const ServedModel& served) {
  const Fields fields(request);
  if (const json* given = fields.find("tools");
      r.api == Api::kCompletions && given != nullptr && !given->empty()) {
    throw bad_field("tools", "are for chats: send the request to /v1/chat/completions");
  }
  const ToolsWanted tools = r.api == Api::kChat ? tools_of(request) : ToolsWanted{.none = true};
  const Form form = form_of(request, body);
  if (form.param.empty() && tools.none) return;
  if (r.options.ignore_end) {
    throw bad_field("ignore_eos", "leaves no end to an answer that is held to a form");
  }
  if (!tools.none && !form.param.empty() && !form.schema) {
    throw bad_field(form.param,
                    "cannot be kept beside tools: send one of them, or "
                    "\"tool_choice\": \"none\"");
  }
  if (fields.flag("continue_final_message", false) && (tools.required || !form.param.empty())) {
    throw bad_field("continue_final_message",
                    "cannot be kept beside a form of the answer, which has it from its beginning");
  }
  try {
    const ReasoningStart reasoning = reasoning_before(r);
    if (form.schema) r.options.changes.grammar = served.model.json_grammar(*form.schema, reasoning);
    if (!form.choice.empty()) {
      r.options.changes.grammar = served.model.choice_grammar(form.choice, reasoning);
    }
    if (form.regex) r.options.changes.grammar = served.model.regex_grammar(*form.regex, reasoning);
  } catch (const UsageError& e) {
    throw bad_field(form.param, std::string("cannot be kept: ") + e.what());
  }
  if (!tools.none) {
    r.calls_in_channels = calls_in_channels(request, served);
    read_tools(r, request, as_written(request, body), tools, form.schema.value_or(""), served);
  }
}

std::string tools_message(const json& request) {
  if (tools_of(request).none) return {};
  std::string list;
  for (const json& tool : request["tools"]) list += dump(tool) + "\n";
  return fmt::format(
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
      "provided with function signatures within <tools></tools> XML tags:\n<tools>\n{}</tools>\n\n"
      "For each function call, return a json object with function name and arguments within "
      "<tool_call></tool_call> XML tags:\n<tool_call>\n{{\"name\": <function-name>, "
      "\"arguments\": <args-json-object>}}\n</tool_call>",
      list);
}

std::string tools_as_written(const json& request, std::string_view body) {
  if (tools_of(request).none) return {};
  return as_written(request, body)["tools"].dump();
}

namespace {

// Calls `use` with the name of each call and its arguments, as text.
template <class Use>
void for_each_call(const json& calls, const std::string& where, Use&& use) {
  if (!calls.is_array()) throw bad_field(where, "is wrong: send a list of calls");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const json& call = calls[i];
    const std::string place = fmt::format("{}.{}", where, i);
    const std::string name = name_of_tool(call, place);
    const Fields function(call["function"], place + ".function.");
    // A string of JSON by OpenAI's rules; some clients send the object.
    const json* const arguments = function.find("arguments");
    use(call, name,
        arguments != nullptr && arguments->is_object() ? dump(*arguments)
                                                       : function.text("arguments").value_or("{}"));
  }
}

}  // namespace

std::string written_calls(const json& calls, const std::string& where) {
  std::string out;
  for_each_call(
      calls, where, [&](const json&, const std::string& name, const std::string& arguments) {
        if (!out.empty()) out += "\n";
        out += fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
                           dump(json(name)), arguments);
      });
  return out;
}

std::string calls_for_template(const json& calls, const std::string& where) {
  std::string out;
  for_each_call(
      calls, where, [&](const json& call, const std::string& name, const std::string& arguments) {
        const Result<json> parsed = parse_json(arguments);
        // Written as they came: the template keeps the order of the fields.
        out += fmt::format(
            R"({}{{"type": "function", "id": {}, "function": {{"name": {}, "arguments": {}}}}})",
            out.empty() ? "" : ", ", dump(Fields(call).text("id").value_or("")), dump(name),
            parsed && parsed->is_object() ? arguments : dump(arguments));
      });
  return "[" + out + "]";
}

}  // namespace forerun::serve
