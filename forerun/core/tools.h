#pragma once

#include <string>

#include "forerun/core/reasoning.h"

namespace forerun {

/// A function that a text may call.
struct Tool {
  std::string name;
  std::string parameters;  ///< a JSON schema of an object; empty: any object
  bool strict = true;      ///< parameters that would not be kept in full are refused
};

/// What a grammar of calls allows.
struct ToolCalls {
  bool required = false;  ///< nothing but calls; otherwise any text, in which calls are well formed
  bool several = true;    ///< more than one call; of ReasoningStart::kChannels one ends a text
  std::string answer;     ///< a JSON schema of texts without calls; empty: any text
  /// Any text may stand in the reasoning, and it ends before calls and such answers.
  ReasoningStart reasoning = ReasoningStart::kAfter;
};

}  // namespace forerun
