#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "forerun/serve/answer_json.h"

namespace forerun::serve {

/// The answer of /v1/responses: items, one after another, and the events of a stream that tell how
/// they come about. Whole answers hold what a stream's last event does.
class ResponseOutput {
 public:
  /// Takes the events of a stream, each with its "type".
  using Send = std::function<void(const nlohmann::json& event)>;

  /// @param id    "resp_..."; those of the items are made of it
  /// @param head  the fields of the response beside its id, status, output and usage
  /// @param send  empty: there is no stream
  ResponseOutput(const std::string& id, nlohmann::json head, Send send);

  /// The events that begin a stream.
  void begin();
  void reason(const std::string& text);
  /// @param logprobs  of the tokens that `text` came with, a list
  void say(const std::string& text, const nlohmann::json& logprobs);
  /// @param call  as ToolCallReader hands it over
  void call(const std::string& call);
  /// Ends the last item, and the response.
  /// @param cut   for want of tokens
  /// @param more  further fields of the response
  /// @return      the response
  nlohmann::json end(bool cut, const Totals& totals, const nlohmann::json& more);
  /// Ends a stream.
  void fail(bool by_request, const std::string& message);
  /// A message has begun, and no other item since.
  bool speaks() const noexcept { return open_ == Open::kMessage; }

 private:
  enum class Open : std::uint8_t { kNone, kReasoning, kMessage };

  void event(std::string_view type, nlohmann::json fields);
  void part_event(std::string_view type, nlohmann::json fields);
  std::string new_item(const char* prefix);
  nlohmann::json part() const;
  nlohmann::json item(const char* status) const;
  void open(Open kind);
  void close(const char* status);
  nlohmann::json document(const char* status) const;

  nlohmann::json head_;
  Send send_;
  std::string suffix_;  // of the ids
  std::uint64_t sequence_ = 0;
  nlohmann::json items_ = nlohmann::json::array();  // that are done
  // Of the one that is not.
  Open open_ = Open::kNone;
  std::string item_id_, text_;
  nlohmann::json logprobs_ = nlohmann::json::array();
};

/// "usage" of a response.
nlohmann::json response_usage(const Totals& totals);

}  // namespace forerun::serve
