#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "forerun/model.h"

namespace forerun::serve {

/// A token as text: its bytes where they are UTF-8, else U+FFFD for what is not.
std::string text_of(const Model& model, Token token);
/// As Model::decode, with the names of special tokens, which that leaves out.
std::string text_with_special(const Model& model, std::span<const Token> tokens);

/// "logprobs" of a chat's choice: {"content": [...], "refusal": null}.
nlohmann::json chat_logprobs(const Model& model, std::span<const TokenOutput> tokens);

/// "logprobs" of a response's text: the same list; a token without a text has no bytes, not null.
nlohmann::json response_logprobs(const Model& model, std::span<const TokenOutput> tokens);

/// "logprobs" of a completion, token by token.
class CompletionLogprobs {
 public:
  /// A token that nothing comes before has no log-probability.
  void add_first(const Model& model, Token token);
  void add(const Model& model, const TokenOutput& token);
  /// Those since the last call; offsets go on.
  nlohmann::json take();

 private:
  void add_text(std::string text);

  std::size_t offset_ = 0;  // characters
  std::vector<std::size_t> offsets_;
  std::vector<std::string> texts_;
  nlohmann::json log_probabilities_ = nlohmann::json::array(), top_ = nlohmann::json::array();
};

/// What the texts of a request took, all together.
struct Totals {
  std::size_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
  std::size_t reasoning_tokens = 0;            ///< of those, with the tags
  double prompt_seconds = 0.0, seconds = 0.0;  ///< of the text that took longest
  RunStatistics statistics;
  std::vector<std::uint64_t> rounds_by_kept;  ///< rounds with drafts, by how many were kept

  void add(const TextResult& text);
};

nlohmann::json usage_json(const Totals& totals);
/// The fields of llama.cpp's server.
nlohmann::json timings_json(const Totals& totals);
/// "metrics": the fields that vLLM and AIPerf have for one text.
nlohmann::json metrics_json(const Totals& totals, std::size_t max_draft);

/// How a round went, with the text that it finished cut into the pieces that its tokens added.
/// @param text  of the round
nlohmann::json round_json(const Model& model, const RoundReport& round, std::string_view text);

}  // namespace forerun::serve
