#include "forerun/cli/final_message.h"

#include <algorithm>
#include <string_view>

#include "forerun/base/utf8.h"

namespace forerun::cli {

HarmonyParts parts_in_channels(const Generated& answer, const Model& model) {
  HarmonyText reader({.by_token = true});
  HarmonyParts out;
  const auto add = [&](const HarmonyParts& parts) {
    out.analysis += parts.analysis;
    out.content += parts.content;
  };
  std::size_t left = answer.text.size();  // a stop string is cut off
  for (const Token token : answer.tokens) {
    const std::string_view piece = model.piece(token);
    // Control tokens have a name and no text.
    const std::size_t size = model.decode({&token, 1}).empty() ? 0 : std::min(left, piece.size());
    add(reader.push(piece.substr(0, size), piece));
    left -= size;
  }
  add(reader.finish());
  return {replace_invalid_utf8(out.analysis), replace_invalid_utf8(spelled_calls(out.content))};
}

}  // namespace forerun::cli
