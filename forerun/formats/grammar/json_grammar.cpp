#include "forerun/formats/grammar/json_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "forerun/base/quote.h"
#include "forerun/formats/grammar/internal/after_reasoning.h"
#include "forerun/formats/grammar/internal/call_forms.h"
#include "forerun/formats/grammar/internal/channels.h"
#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun {

namespace {

constexpr std::size_t kMostChoiceBytes = 8192;  // compiling takes time by their square

}  // namespace

using internal::after_reasoning;
using internal::SchemaConverter;
using internal::SchemaRefusal;

Result<std::string> json_schema_grammar(std::string_view schema, ReasoningStart reasoning) {
  try {
    SchemaConverter converter;
    const std::string root = converter.add(schema, true);
    return after_reasoning(converter.text(root), reasoning);
  } catch (const SchemaRefusal& r) {
    return Error{"JSON schema: " + r.message};
  }
}

Result<std::string> choice_grammar(std::span<const std::string> texts, ReasoningStart reasoning) {
  std::vector<std::string> all;
  std::size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size();
    if (bytes > kMostChoiceBytes) {
      return Error{
          fmt::format("the texts to choose from have more than {} bytes", kMostChoiceBytes)};
    }
    if (text.empty()) return Error{"an empty text cannot be chosen"};
    if (reasoning == ReasoningStart::kChannels && text.find(internal::kTagMark) != text.npos) {
      return Error{"a text to choose has the character U+0001, which the model does not write"};
    }
    all.push_back(internal::ebnf_text(text));
  }
  if (all.empty()) return Error{"there is nothing to choose from"};
  return after_reasoning(fmt::format("root ::= {}\n", fmt::join(all, " | ")), reasoning);
}

namespace {

std::string tagged_calls(std::span<const Tool> tools, const ToolCalls& allowed,
                         SchemaConverter& converter) {
  const std::string body =
      converter.define(internal::call_expression(allowed.form, tools, converter));
  const std::string call = "\"<tool_call>\" " + body;
  const std::string some =
      allowed.several ? fmt::format(R"({} ("\n"? {}){{0,15}})", call, call) : call;
  const bool free = !allowed.required && allowed.answer.empty();
  std::string root = some;
  if (free) {
    root = fmt::format("TagDispatch((\"<tool_call>\", {}), loop_after_dispatch={})", body,
                       allowed.several);
  } else if (!allowed.required) {
    root += " | " + converter.add(allowed.answer, true);
  }
  return after_reasoning(converter.text(root), allowed.reasoning, free);
}

std::string channel_calls(std::span<const Tool> tools, const ToolCalls& allowed,
                          SchemaConverter& converter) {
  internal::ChannelCalls calls{.functions = {}, .required = allowed.required, .answer = {}};
  if (tools.empty()) throw SchemaRefusal{"there is no tool to call"};
  for (const Tool& tool : tools) {
    const bool fits = std::all_of(tool.name.begin(), tool.name.end(),
                                  [](unsigned char c) { return c > ' ' && c != '<' && c != 0x7F; });
    if (tool.name.empty() || !fits) {
      throw SchemaRefusal{
          fmt::format("the name of the tool {} has a space or a <, which the "
                      "model's calls cannot hold: rename it",
                      quote(tool.name, 100))};
    }
    try {
      calls.functions.emplace_back(
          tool.name, converter.add_object(internal::parameters_of(tool), tool.strict));
    } catch (const SchemaRefusal& r) {
      throw internal::refusal_of(tool, r);
    }
  }
  if (!allowed.answer.empty() && !allowed.required) {
    calls.answer = converter.add(allowed.answer, true);
  }
  return internal::calls_in_channels(calls, converter.rules());
}

}  // namespace

Result<std::string> tool_call_grammar(std::span<const Tool> tools, const ToolCalls& allowed) {
  try {
    SchemaConverter converter;
    return allowed.reasoning == ReasoningStart::kChannels ? channel_calls(tools, allowed, converter)
                                                          : tagged_calls(tools, allowed, converter);
  } catch (const SchemaRefusal& r) {
    return Error{r.message};
  }
}

}  // namespace forerun
