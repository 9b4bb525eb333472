#include "forerun/formats/grammar/internal/after_reasoning.h"

#include <fmt/format.h>

#include <string_view>

namespace forerun::internal {

namespace {

// The answer is the message of the channel "final", behind analysis alone. Where texts are any,
// other messages may call.
std::string after_channels(std::string_view held, bool free) {
  if (free) {
    return fmt::format(R"(root ::= held | "<|channel|>final<|message|>" held | "<|channel|>" others
others ::= TagDispatch(("<|channel|>final<|message|>", held), loop_after_dispatch=false)
held{})",
                       held);
  }
  return fmt::format(R"(root ::= held | final | "<|channel|>analysis" others
others ::= unclosed final
final ::= "<|channel|>final" (" "? "<|constrain|>" [a-z]{{1,16}})? "<|message|>" held
unclosed ::= TagDispatch(excludes=("<|channel|>final", "<|channel|>commentary", "<|start|>assistant to="))
held{})",
                     held);
}

}  // namespace

std::string after_reasoning(const std::string& ebnf, ReasoningStart reasoning, bool free) {
  if (reasoning == ReasoningStart::kAfter) return ebnf;
  constexpr std::string_view kRoot = "root";
  if (reasoning == ReasoningStart::kChannels)
    return after_channels(ebnf.substr(kRoot.size()), free);
  const char* const begin = reasoning == ReasoningStart::kBefore ? R"(held | "<think>" )" : "";
  const char* const rules =
      free ? R"(thoughts ::= TagDispatch(("</think>", held), loop_after_dispatch=false))"
           : R"(thoughts ::= unclosed "</think>" [ \n\r\t]{0,8} held
unclosed ::= TagDispatch(excludes=("</think>")))";
  return fmt::format("root ::= {}thoughts\n{}\nheld{}", begin, rules, ebnf.substr(kRoot.size()));
}

}  // namespace forerun::internal
