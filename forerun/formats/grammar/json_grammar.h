#pragma once

#include <span>
#include <string>
#include <string_view>

#include "forerun/base/result.h"
#include "forerun/core/reasoning.h"
#include "forerun/core/tools.h"

namespace forerun {

/// The JSON texts that a schema (JSON Schema, draft 2020-12) allows, as a grammar in xgrammar's
/// EBNF. Every text of the grammar satisfies the schema; some that would are left out: properties
/// come in the schema's order, and of an object that names properties there are no others.
/// Kept: type, enum, const, anyOf, oneOf of different types, allOf of one, $ref within the schema,
/// properties, required, additionalProperties, items, prefixItems, minItems, maxItems, minLength,
/// maxLength, pattern, bounds of integers, bounds of numbers that are integers, and of format date,
/// time, date-time, uuid and ipv4. Annotations are passed over.
/// Errors: no JSON, no schema, and anything that the grammar would not keep; the message names it.
/// @param reasoning  which may come first, any text
Result<std::string> json_schema_grammar(std::string_view schema,
                                        ReasoningStart reasoning = ReasoningStart::kAfter);

/// One of these texts.
/// Errors: none is given, an empty one, or more than 8,192 bytes of them.
Result<std::string> choice_grammar(std::span<const std::string> texts,
                                   ReasoningStart reasoning = ReasoningStart::kAfter);

/// Calls of ToolCalls::form; with ReasoningStart::kChannels as messages of OpenAI's harmony format,
/// of which one ends an answer. The parameters of a tool that is not strict are kept as far as a
/// grammar can: it passes over the other words of their schema. Where a form writes strings without
/// quotes, those with a pattern or of bounded length have no <, and none has the tag that ends it.
/// Errors: as json_schema_grammar, no tool, a name that a call cannot hold, and where strings have
/// no quotes, parameters that may be strings beside objects or lists.
Result<std::string> tool_call_grammar(std::span<const Tool> tools, const ToolCalls& allowed);

}  // namespace forerun
