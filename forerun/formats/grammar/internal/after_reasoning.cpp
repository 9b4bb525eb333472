#include "forerun/formats/grammar/internal/after_reasoning.h"

#include <fmt/format.h>

#include <string_view>

#include "forerun/formats/grammar/internal/channels.h"

namespace forerun::internal {

std::string after_reasoning(const std::string& ebnf, ReasoningStart reasoning, bool free) {
  if (reasoning == ReasoningStart::kAfter) return ebnf;
  constexpr std::string_view kRoot = "root";
  if (reasoning == ReasoningStart::kChannels) return form_in_channels(ebnf.substr(kRoot.size()));
  const char* const begin = reasoning == ReasoningStart::kBefore ? R"(held | "<think>" )" : "";
  const char* const rules =
      free ? R"(thoughts ::= TagDispatch(("</think>", held), loop_after_dispatch=false))"
           : R"(thoughts ::= unclosed "</think>" [ \n\r\t]{0,8} held
unclosed ::= TagDispatch(excludes=("</think>")))";
  return fmt::format("root ::= {}thoughts\n{}\nheld{}", begin, rules, ebnf.substr(kRoot.size()));
}

}  // namespace forerun::internal
