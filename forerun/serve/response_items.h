#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/serve/json.h"

namespace forerun::serve {

/// Where a message comes from: "input.3".
struct ItemPlace {
  std::string message;
  std::vector<std::string> calls = {};  ///< those of its calls
};

/// The items of a request to /v1/responses as messages of a chat. Reasoning, text and calls of one
/// turn become one message.
class ItemMessages {
 public:
  void add_instructions(const std::string& text);
  /// @param input  "input": a text, or a list of items
  /// @throws ApiError 400  an item that is wrong, or that the server does not read
  void add(const nlohmann::json& input);

  const nlohmann::json& messages() const noexcept { return messages_; }
  const std::vector<ItemPlace>& places() const noexcept { return places_; }  ///< by message

 private:
  // What the last message, of the assistant, has so far.
  enum class Turn : std::uint8_t { kNone, kReasoned, kSpoken, kCalled };

  void push(nlohmann::json message, const std::string& where);
  void add_item(const nlohmann::json& item, const std::string& where);
  void add_message(const Fields& item, const std::string& where);
  void add_reasoning(const Fields& item, const std::string& where);
  void add_call(const Fields& item, const std::string& where);
  void add_result(const Fields& item, const std::string& where);

  nlohmann::json messages_ = nlohmann::json::array();
  std::vector<ItemPlace> places_;
  Turn turn_ = Turn::kNone;
};

}  // namespace forerun::serve
