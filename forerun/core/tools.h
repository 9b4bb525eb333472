#pragma once

#include <cstdint>
#include <string>

#include "forerun/core/reasoning.h"

namespace forerun {

/// A function that a text may call.
struct Tool {
  std::string name;
  std::string parameters;  ///< a JSON schema of an object; empty: any object
  bool strict = true;      ///< parameters that would not be kept in full are refused
};

/// How a call is written. Several follow one another.
enum class CallForm : std::uint8_t {
  kJson,        ///< <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen 2.5
  kParameters,  ///< <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function>
                ///< </tool_call>, each tag on a line and each value on lines of its own:
                ///< Qwen3-Coder, Qwen3.5. Strings are written as they are, other values as JSON
  kKeysValues,  ///< <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>:
                ///< GLM-4.5, values as those of kParameters
};

/// What a grammar of calls allows.
struct ToolCalls {
  bool required = false;  ///< nothing but calls; otherwise any text, in which calls are well formed
  bool several = true;    ///< more than one call; of ReasoningStart::kChannels one ends a text
  std::string answer;     ///< a JSON schema of texts without calls; empty: any text
  CallForm form = CallForm::kJson;  ///< not of ReasoningStart::kChannels
  /// Any text may stand in the reasoning, and it ends before calls and such answers.
  ReasoningStart reasoning = ReasoningStart::kAfter;
};

}  // namespace forerun
