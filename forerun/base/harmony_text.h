#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

namespace forerun {

/// What an answer says, or a piece of it.
struct HarmonyParts {
  std::string analysis, content;
};

/// Around {"name": ..., "arguments": ...} of a call in the content: bytes that no text has.
inline constexpr std::string_view kHarmonyCall = "\xFE", kHarmonyCallEnd = "\xFD";
/// Content with its calls as <tool_call>...</tool_call>.
std::string spelled_calls(std::string_view content);

struct HarmonyOptions {
  bool by_token = false;  ///< a tag is a token of its own: what spells one is text
  bool whole = false;     ///< all but the calls is content, with its headers: nothing is told apart
};

/// Reads an answer in OpenAI's harmony format, which gpt-oss writes, while it arrives in pieces: a
/// message after the other, behind "<|start|>assistant". Those of the channel "analysis" are the
/// reasoning, calls of functions stand between kHarmonyCall and kHarmonyCallEnd in the content,
/// others are content as they are. Messages of one kind are two lines apart. Analysis behind the
/// first other message is left out. A text that begins with no header is content.
/// Source: OpenAI, Harmony response format.
class HarmonyText {
 public:
  /// Whether a chat template writes this format.
  static bool in_template(std::string_view chat_template) noexcept;
  /// Whether a token that stands for `piece` is a tag.
  static bool is_tag(std::string_view piece) noexcept;
  /// The tags that texts hold; others end them.
  static std::span<const std::string_view> tags() noexcept;

  HarmonyText() = default;
  explicit HarmonyText(const HarmonyOptions& options) : options_(options) {}

  /// @param token  the piece of the token that came, for HarmonyOptions::by_token: its text may
  /// come later
  /// @return  what has become certain
  HarmonyParts push(std::string_view text, std::string_view token = {});
  /// No more text comes. A call whose arguments are no JSON was cut off, and stays open; one that
  /// has ended shows them. A header that was cut off is left out.
  HarmonyParts finish();
  bool called() const noexcept { return called_; }  ///< there was a call
  /// Bytes of the text up to the first message that is no analysis: 0 without analysis, SIZE_MAX
  /// where that message has not come.
  std::size_t analysis_end() const noexcept { return analysis_end_; }

 private:
  enum class Place : std::uint8_t { kStart, kHeader, kBody, kBetween, kPlain };
  enum class Kind : std::uint8_t { kAnalysis, kContent, kCall };

  void add(std::string_view text);
  HarmonyParts read();
  bool start(HarmonyParts& out);
  bool header(HarmonyParts& out);
  bool body(HarmonyParts& out);
  bool between(HarmonyParts& out);
  void answer(std::size_t end);
  void open(std::string_view header, HarmonyParts& out);
  void write(std::string_view text, HarmonyParts& out);
  bool close_call(bool whole, std::string& out);

  HarmonyOptions options_;
  std::string waiting_;                   // text before the first of awaited_
  std::deque<std::string_view> awaited_;  // tags that came, and whose text did not
  Place place_ = Place::kStart;
  Kind kind_ = Kind::kContent;
  std::string held_, header_, arguments_, name_;  // those of a call
  std::size_t pushed_ = 0, analysis_end_ = SIZE_MAX;
  bool analysis_ = false, answered_ = false;  // such messages, and others, have begun
  bool content_ = false, thought_ = false;    // some was written
  bool apart_ = false;                        // two lines come before the message's text
  bool called_ = false;
};

/// Of a whole answer: its analysis, and its content up to the first call.
HarmonyParts harmony_parts(std::string_view text);

}  // namespace forerun
