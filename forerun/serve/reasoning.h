#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "forerun/base/harmony_text.h"
#include "forerun/core/reasoning.h"
#include "forerun/core/token.h"
#include "forerun/serve/chat_messages.h"
#include "forerun/serve/json.h"
#include "forerun/serve/served_model.h"

namespace forerun::serve {

/// Where the answer to a chat begins, if its reasoning is to be told from it: the request's
/// "reasoning_format", or the server's, wants it, and the model's chat template has the tags.
/// @param prompt  the tokens of `chat`
/// @throws ApiError 400  another format
std::optional<ReasoningStart> reasoning_of(const Fields& fields, const ChatPrompt& chat,
                                           std::span<const Token> prompt,
                                           const ServedModel& served);

/// Adds to the variables of a chat's template what "reasoning_effort" asks for: "none" is no
/// thinking, where the template can do without; the others are given to templates that know them.
/// @throws ApiError 400  no effort, or one that would change nothing though the model reasons
void add_effort(nlohmann::json& variables, const Fields& fields, const Model& model);

/// Tells a text's reasoning, between <think> at its very beginning and the first </think>, from the
/// answer that follows, while the text arrives in pieces. White space around the reasoning belongs
/// to neither. What might begin a tag waits until that is known.
class ReasoningReader {
 public:
  /// @param start  kInside: a <think> that repeats this is left out; kChannels: the text is
  /// HarmonyText, whose tags are tokens
  /// @param whole  of HarmonyText: the reasoning is part of the content
  explicit ReasoningReader(ReasoningStart start = ReasoningStart::kBefore, bool whole = false)
      : inside_(start == ReasoningStart::kInside),
        harmony_(start == ReasoningStart::kChannels),
        channels_({.by_token = true, .whole = whole}) {}

  /// @param token  the piece of the token that came with it, of HarmonyText
  void push(std::string_view text, std::string_view token = {});
  /// No more text comes: what waits is no tag.
  void finish();
  /// Each since the last time.
  std::string take_reasoning();
  /// Of HarmonyText with the marks of its calls.
  std::string take_content();
  /// Bytes of the text up to the end of </think>: 0 without reasoning, SIZE_MAX where that end has
  /// not come.
  std::size_t end() const noexcept { return harmony_ ? channels_.analysis_end() : end_; }

 private:
  enum class Place : std::uint8_t { kStart, kReasoning, kGap, kContent };

  void add(const HarmonyParts& parts);
  bool start();
  bool reason();
  bool skip_space();
  void add_reasoning(std::size_t bytes);

  std::string held_, reasoning_, content_;
  Place place_ = Place::kStart;
  std::size_t pushed_ = 0, end_ = SIZE_MAX;
  bool inside_, harmony_, began_ = false;  // began_: some of the reasoning is solid
  HarmonyText channels_;                   // if harmony_
};

}  // namespace forerun::serve
