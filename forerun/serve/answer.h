#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/engine.h"
#include "forerun/serve/answer_json.h"
#include "forerun/serve/engine_loop.h"
#include "forerun/serve/generation_request.h"
#include "forerun/serve/http/http.h"
#include "forerun/serve/metrics.h"
#include "forerun/serve/reasoning.h"
#include "forerun/serve/response_output.h"
#include "forerun/serve/served_model.h"
#include "forerun/serve/tool_calls.h"
#include "forerun/text.h"

namespace forerun::serve {

/// The answer to a request for texts, from its admission to its last byte. Belongs to the I/O
/// thread.
class Answer {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param arrived  when the request's head was read
  Answer(std::string id, GenerationRequest request, Exchange exchange, const ServedModel& served,
         Clock::time_point arrived);

  /// Begins a stream; a whole answer waits for its end.
  void begin();
  /// The log-probabilities of an echoed prompt. They come before its texts begin.
  void scored(std::size_t prompt, std::span<const TokenScore> scores);
  /// What a round brought for one text, in order.
  void take(std::size_t choice, std::span<const ChoiceEvent> events, Metrics& metrics);
  /// Ends it with an error: the response, or the last event of a stream.
  void fail(unsigned status, const std::string& message);

  bool complete() const noexcept { return left_ == 0; }
  /// The texts have ended: sends what is left.
  void end();

  const GenerationRequest& request() const noexcept { return request_; }
  const std::string& id() const noexcept { return id_; }
  unsigned status() const noexcept { return status_; }
  const Totals& totals() const noexcept { return totals_; }
  double seconds_to_first_token() const noexcept { return first_token_; }  ///< < 0: none came
  Clock::time_point arrived() const noexcept { return arrived_; }
  /// The tokens of text 0, once it has ended.
  const std::vector<Token>& tokens() const noexcept { return tokens_; }

  bool gone = false;  ///< the client has left: nothing is written any more

 private:
  struct Choice {
    std::string text, reasoning;
    ReasoningReader thoughts;
    std::size_t bytes = 0;             // of all text
    std::size_t reasoning_tokens = 0;  // so far, perhaps
    ToolCallReader calls;
    std::size_t calls_sent = 0;
    std::vector<TokenOutput> tokens;  // not sent yet
    std::size_t left_out = 0;         // of them, as they are reasoning
    CompletionLogprobs logprobs;
    nlohmann::json rounds = nlohmann::json::array();
    std::string finish;
    Clock::time_point last;
    bool began = false, ended = false;
  };

  // What a round adds to a text.
  struct Part {
    std::string text, reasoning;
  };

  nlohmann::json frame(const char* object) const;
  nlohmann::json choice_json(std::size_t index, const Part& part, bool last);
  nlohmann::json logprobs_of(Choice& choice);
  void add_calls(Choice& choice, nlohmann::json& message);
  void send_chunk(std::size_t index, const Part& part, bool last);
  Part read(Choice& choice, std::string text, const RoundReport* round);
  bool in_channels() const;
  Part read_parts(Choice& choice, std::string_view text, const RoundReport* round,
                  nlohmann::json* pieces);
  static void count_reasoning(Choice& choice, std::span<const std::size_t> bytes);
  void show(std::size_t index, const Part& part);
  void respond(Choice& choice, const Part& part);
  nlohmann::json spoken_logprobs(Choice& choice);
  void end_response();
  void event(nlohmann::json document);
  nlohmann::json extras() const;
  nlohmann::json usage_so_far() const;
  void count(Choice& choice, const RoundReport& round, Metrics& metrics);
  void finish(Choice& choice, const TextResult& result, bool first, Metrics& metrics);

  std::string id_;
  GenerationRequest request_;
  Exchange exchange_;
  const ServedModel& served_;
  Clock::time_point arrived_;
  std::int64_t created_;
  std::vector<Choice> choices_;
  std::optional<ResponseOutput> response_;  // of /v1/responses, in place of chunks
  std::size_t left_;
  Totals totals_;
  std::size_t made_ = 0;  // tokens so far
  std::vector<Token> tokens_;
  double first_token_ = -1.0;
  unsigned status_ = 200;
  bool streaming_ = false, failed_ = false;
};

}  // namespace forerun::serve
