#pragma once

#include <span>
#include <string>

#include "forerun/core/tools.h"
#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun::internal {

/// The expression of a call of one of the tools, behind its opening tag.
/// @throws SchemaRefusal  parameters that are not kept, or a name that such a call cannot hold; no
/// tool
std::string call_expression(CallForm form, std::span<const Tool> tools, SchemaConverter& converter);

/// What went wrong with the parameters of a tool, with its name.
SchemaRefusal refusal_of(const Tool& tool, const SchemaRefusal& refusal);

/// The schema of a tool's parameters.
inline std::string parameters_of(const Tool& tool) {
  return tool.parameters.empty() ? R"({"type": "object"})" : tool.parameters;
}

}  // namespace forerun::internal
