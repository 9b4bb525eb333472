#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forerun::internal {

/// Grammars of answers in OpenAI's harmony format (HarmonyText). A tag is a token, whose text is
/// its name behind this character, which no other token has: what spells a tag is text.
inline constexpr char kTagMark = '\x01';

/// A form of the final message, behind analysis alone, or without any header.
/// @param held  the rest of the form's rule, and those that it uses
std::string form_in_channels(std::string_view held);

/// What the calls of an answer in channels are.
struct ChannelCalls {
  /// Names of functions, and the rules of their arguments.
  std::vector<std::pair<std::string, std::string>> functions;
  bool required = false;  ///< the answer ends with a call
  std::string answer;     ///< the rule of a final message; empty: any
};

/// The rules of such answers, from root on. One call ends an answer. Others than those of the
/// functions cannot be written.
/// @param rules  that those of the arguments and of the answer use, and "ws"
std::string calls_in_channels(const ChannelCalls& calls, std::string_view rules);

}  // namespace forerun::internal
