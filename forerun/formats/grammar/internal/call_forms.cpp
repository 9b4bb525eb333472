#include "forerun/formats/grammar/internal/call_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "forerun/base/quote.h"

namespace forerun::internal {
namespace {

// A call whose parameters have tags of their own: EBNF around its parts.
struct TaggedForm {
  const char* before_name;
  const char* after_name;
  const char* before_key;
  const char* after_key;
  const char* after_value;
  const char* end;
  const char* value_end;  // no EBNF: what no value holds
  bool python;
};

constexpr TaggedForm kQwen = {.before_name = R"("\n<function=")",
                              .after_name = R"(">\n")",
                              .before_key = R"("<parameter=")",
                              .after_key = R"(">\n")",
                              .after_value = R"("\n</parameter>\n")",
                              .end = R"("</function>\n</tool_call>")",
                              .value_end = "\n</parameter>",
                              .python = true};
// GLM-4.5 writes the line ends, GLM-4.7 does not.
constexpr TaggedForm kGlm = {.before_name = "\"\"",
                             .after_name = R"("\n"?)",
                             .before_key = R"("<arg_key>")",
                             .after_key = R"("</arg_key>" "\n"? "<arg_value>")",
                             .after_value = R"("</arg_value>" "\n"?)",
                             .end = R"("</tool_call>")",
                             .value_end = "</arg_value>",
                             .python = false};

std::string parameters(const TaggedForm& form, const SchemaMembers& members,
                       SchemaConverter& converter) {
  const auto pair = [&](const std::string& key, const std::string& value) {
    return converter.define(fmt::format("{} {} {} {} {}", form.before_key, key, form.after_key,
                                        value, form.after_value));
  };
  if (!members.others.empty()) {
    return pair(R"([^<>\x00-\x1f\x7f]{1,64})", members.others) + "*";
  }
  std::string out = "\"\"";
  for (const SchemaMember& member : members.named) {
    const std::string rule = pair(ebnf_text(member.name), member.rule);
    out += fmt::format(" {}{}", rule, member.required ? "" : "?");
  }
  return out;
}

void check_name(const std::string& name) {
  const auto wrong = [](unsigned char c) { return c <= ' ' || c == '<' || c == '>' || c == 0x7F; };
  if (!name.empty() && std::none_of(name.begin(), name.end(), wrong)) return;
  throw SchemaRefusal{
      fmt::format("the name of the tool {} has a space, a < or a >, which the model's calls cannot "
                  "hold: rename it",
                  quote(name, 100))};
}

std::string tagged_expression(const TaggedForm& form, std::span<const Tool> tools,
                              SchemaConverter& converter) {
  const BareText bare{.rule = converter.define(
                          fmt::format("TagDispatch(excludes=({}))", ebnf_text(form.value_end))),
                      .end = form.value_end,
                      .python = form.python};
  std::vector<std::string> calls;
  for (const Tool& tool : tools) {
    check_name(tool.name);
    try {
      const SchemaMembers members = converter.add_members(parameters_of(tool), tool.strict, bare);
      calls.push_back(
          converter.define(fmt::format("{} {} {}", ebnf_text(tool.name), form.after_name,
                                       parameters(form, members, converter))));
    } catch (const SchemaRefusal& r) {
      throw refusal_of(tool, r);
    }
  }
  return fmt::format("{} ({}) {}", form.before_name, fmt::join(calls, " | "), form.end);
}

std::string json_expression(std::span<const Tool> tools, SchemaConverter& converter) {
  std::vector<std::string> calls;
  for (const Tool& tool : tools) {
    try {
      calls.push_back(converter.define(
          fmt::format(R"("{{" ws "\"name\":" ws {} "," ws "\"arguments\":" ws {} ws "}}")",
                      ebnf_literal(SchemaJson(tool.name)),
                      converter.add_object(parameters_of(tool), tool.strict))));
    } catch (const SchemaRefusal& r) {
      throw refusal_of(tool, r);
    }
  }
  return fmt::format(R"(ws ({}) ws "</tool_call>")", fmt::join(calls, " | "));
}

}  // namespace

SchemaRefusal refusal_of(const Tool& tool, const SchemaRefusal& refusal) {
  return {fmt::format("parameters of the tool {}: {}", quote(tool.name, 100), refusal.message)};
}

std::string call_expression(CallForm form, std::span<const Tool> tools,
                            SchemaConverter& converter) {
  if (tools.empty()) throw SchemaRefusal{"there is no tool to call"};
  switch (form) {
    case CallForm::kJson:
      break;
    case CallForm::kParameters:
      return tagged_expression(kQwen, tools, converter);
    case CallForm::kKeysValues:
      return tagged_expression(kGlm, tools, converter);
  }
  return json_expression(tools, converter);
}

}  // namespace forerun::internal
