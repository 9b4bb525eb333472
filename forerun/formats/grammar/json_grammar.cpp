#include "forerun/formats/grammar/json_grammar.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "forerun/base/quote.h"
#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun {

namespace {

constexpr std::size_t kMostChoiceBytes = 8192;  // compiling takes time by their square

}  // namespace

using internal::SchemaConverter;
using internal::SchemaRefusal;

Result<std::string> json_schema_grammar(std::string_view schema) {
  try {
    SchemaConverter converter;
    const std::string root = converter.add(schema, true);
    return converter.text(root);
  } catch (const SchemaRefusal& r) {
    return Error{"JSON schema: " + r.message};
  }
}

Result<std::string> choice_grammar(std::span<const std::string> texts) {
  std::vector<std::string> all;
  std::size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size();
    if (bytes > kMostChoiceBytes) {
      return Error{
          fmt::format("the texts to choose from have more than {} bytes", kMostChoiceBytes)};
    }
    if (text.empty()) return Error{"an empty text cannot be chosen"};
    all.push_back(internal::ebnf_text(text));
  }
  if (all.empty()) return Error{"there is nothing to choose from"};
  return fmt::format("root ::= {}\n", fmt::join(all, " | "));
}

Result<std::string> tool_call_grammar(std::span<const Tool> tools, const ToolCalls& allowed) {
  try {
    SchemaConverter converter;
    std::vector<std::string> calls;
    for (const Tool& tool : tools) {
      try {
        const std::string arguments = converter.add_object(
            tool.parameters.empty() ? R"({"type": "object"})" : tool.parameters, tool.strict);
        calls.push_back(converter.define(
            fmt::format(R"("{{" ws "\"name\":" ws {} "," ws "\"arguments\":" ws {} ws "}}")",
                        internal::ebnf_literal(internal::SchemaJson(tool.name)), arguments)));
      } catch (const SchemaRefusal& r) {
        return Error{
            fmt::format("parameters of the tool {}: {}", quote(tool.name, 100), r.message)};
      }
    }
    if (calls.empty()) return Error{"there is no tool to call"};
    const std::string body =
        converter.define(fmt::format(R"(ws ({}) ws "</tool_call>")", fmt::join(calls, " | ")));
    const std::string call = "\"<tool_call>\" " + body;
    const std::string some =
        allowed.several ? fmt::format(R"({} ("\n"? {}){{0,15}})", call, call) : call;
    if (allowed.required) return converter.text(some);
    if (!allowed.answer.empty()) {
      return converter.text(fmt::format("{} | {}", some, converter.add(allowed.answer, true)));
    }
    return converter.text(fmt::format("TagDispatch((\"<tool_call>\", {}), loop_after_dispatch={})",
                                      body, allowed.several));
  } catch (const SchemaRefusal& r) {
    return Error{r.message};
  }
}

}  // namespace forerun
