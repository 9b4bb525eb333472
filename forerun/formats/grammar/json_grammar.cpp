#include "forerun/formats/grammar/json_grammar.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "forerun/base/quote.h"
#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun {

using internal::SchemaConverter;
using internal::SchemaRefusal;

Result<std::string> json_schema_grammar(std::string_view schema) {
  try {
    SchemaConverter converter;
    const std::string root = converter.add(schema);
    return converter.text(root);
  } catch (const SchemaRefusal& r) {
    return Error{"JSON schema: " + r.message};
  }
}

Result<std::string> tool_call_grammar(std::span<const Tool> tools, const ToolCalls& allowed) {
  try {
    SchemaConverter converter;
    std::vector<std::string> calls;
    for (const Tool& tool : tools) {
      try {
        const std::string arguments =
            converter.add(tool.parameters.empty() ? R"({"type": "object"})" : tool.parameters);
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
    if (allowed.required) {
      return converter.text(allowed.several ? fmt::format(R"({} ("\n"? {}){{0,15}})", call, call)
                                            : call);
    }
    return converter.text(fmt::format("TagDispatch((\"<tool_call>\", {}), loop_after_dispatch={})",
                                      body, allowed.several));
  } catch (const SchemaRefusal& r) {
    return Error{r.message};
  }
}

}  // namespace forerun
