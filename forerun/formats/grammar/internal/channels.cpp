#include "forerun/formats/grammar/internal/channels.h"

#include <fmt/format.h>

#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun::internal {
namespace {

// Between a channel and its message: the type of the text, which models write in these ways.
constexpr std::string_view kTags = R"EBNF(
channel ::= "\x01<|channel|>"
message ::= "\x01<|message|>"
constrain ::= " "? "\x01<|constrain|>" " "?
type ::= "" | (" " | constrain) [a-zA-Z_]{1,32}
json_type ::= "" | (" " | constrain) "json"
next ::= "\x01<|end|>" "\x01<|start|>" "assistant"
untagged ::= TagDispatch(excludes=("\x01"))
)EBNF";

constexpr const char* kTo = R"(" to=functions.")";

// NAME header arguments | ...
std::string alternatives(const ChannelCalls& calls, std::string_view header) {
  std::vector<std::string> all;
  for (const auto& [name, arguments] : calls.functions) {
    all.push_back(fmt::format("{} {} ws {}", ebnf_text(name), header, arguments));
  }
  return fmt::format("{}", fmt::join(all, " | "));
}

}  // namespace

std::string form_in_channels(std::string_view held) {
  return fmt::format(R"(root ::= held | turn
turn ::= channel ("final" type message held | "analysis" type message untagged next turn)
{}held{})",
                     kTags, held);
}

std::string calls_in_channels(const ChannelCalls& calls, std::string_view rules) {
  const bool free = !calls.required && calls.answer.empty();
  std::string root = "turn", turn;
  if (free) {
    root += " | plain";
    turn = R"(("analysis" | "commentary" | "final") type message body)";
  } else {
    turn = R"(("analysis" | "commentary") type message untagged next turn)";
    if (!calls.required) {
      root += " | " + calls.answer;
      turn += fmt::format(R"( | "final" type message {})", calls.answer);
    }
  }
  // The function stands behind the role, as templates write it, or behind the channel.
  return fmt::format(
      R"(root ::= {}
turn ::= {} in_role | channel (("analysis" | "commentary") {} in_channel | {})
in_role ::= {}
in_channel ::= {}
body ::= TagDispatch(("{}", again), loop_after_dispatch=false)
again ::= "assistant" turn
plain ::= TagDispatch(excludes=("\x01", {}))
{}{})",
      root, kTo, kTo, turn,
      alternatives(calls, R"(channel ("analysis" | "commentary") json_type message)"),
      alternatives(calls, "json_type message"), R"(\x01<|start|>)", kTo, kTags, rules);
}

}  // namespace forerun::internal
