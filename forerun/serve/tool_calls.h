#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/serve/native_calls.h"

namespace forerun::serve {

/// A part of a text: what stands beside calls, or a call.
struct TextOrCall {
  std::string text;
  bool call = false;
};

/// Finds the calls of tools in a text that arrives in pieces. What might begin a call waits until
/// that is known; a call that the text breaks off is left out, and tags around anything else are
/// text.
class ToolCallReader {
 public:
  ToolCallReader() = default;
  /// @param first  the text begins with a call, or holds none: a tag in it is text
  /// @param native  the form of the calls; null: CallForm::kJson
  explicit ToolCallReader(bool first, std::shared_ptr<const NativeCalls> native = nullptr)
      : undecided_(first) {
    if (native) native_.emplace(std::move(native));
  }
  /// @param open, close  the tags of calls
  ToolCallReader(std::string_view open, std::string_view close) : open_(open), close_(close) {}
  void push(std::string_view piece);
  /// The text beside the calls, since the last time.
  std::string take_content();
  /// The calls since the last time, each {"name": ..., "arguments": {...}} as it was written, or
  /// as it is read from another form.
  std::vector<std::string> take_calls();
  /// Both, in their order.
  std::vector<TextOrCall> take();
  /// No more text comes: what waits is no call.
  void finish();
  bool called() const noexcept { return called_; }        ///< there was a call
  bool waiting() const noexcept { return waiting_ > 0; }  ///< for take_calls

 private:
  std::size_t close();
  std::optional<std::string> call(std::size_t end);
  bool may_hold_calls();
  void add(std::string text, bool call = false);
  std::vector<std::string> take_those(bool calls);

  std::string_view open_ = "<tool_call>", close_ = "</tool_call>";
  std::optional<NativeCallReader> native_;
  std::string held_;
  std::vector<TextOrCall> parts_;  // not taken yet
  std::size_t waiting_ = 0;        // calls among them
  bool inside_ = false, called_ = false;
  bool undecided_ = false, plain_ = false;  // whether the text begins with a call; it does not
  // Of the call that is being read: bytes of held_ seen, and whether the next is in a JSON string,
  // there after a backslash.
  std::size_t seen_ = 0;
  bool quoted_ = false, escaped_ = false;
};

/// A call in OpenAI's form, with its arguments as text.
nlohmann::json call_json(const std::string& call, const std::string& id);

}  // namespace forerun::serve
