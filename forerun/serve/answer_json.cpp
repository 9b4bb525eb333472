#include "forerun/serve/answer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "forerun/base/utf8.h"

namespace forerun::serve {
namespace {

using nlohmann::json;

// Null: a special token, which has a name but stands for no text.
json bytes_of(const Model& model, Token token) {
  if (model.decode({&token, 1}).empty() && !model.piece(token).empty()) return nullptr;
  json out = json::array();
  for (const char c : model.piece(token)) out.push_back(static_cast<unsigned char>(c));
  return out;
}

json chat_token(const Model& model, Token token, double log_probability) {
  return {{"token", text_of(model, token)},
          {"logprob", log_probability},
          {"bytes", bytes_of(model, token)}};
}

// As OpenAI's completions write a part of a character, so that tokens differ as keys.
std::string completion_text(const Model& model, Token token) {
  const std::string_view piece = model.piece(token);
  if (is_valid_utf8(piece)) return std::string(piece);
  std::string out = "bytes:";
  for (const char c : piece) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

double per(double amount, double of) { return of > 0.0 ? amount / of : 0.0; }

// A draft that follows the last kept one was rejected there.
bool rejected_there(const RoundTrace& trace) {
  const std::int32_t last = trace.kept.empty() ? -1 : trace.kept.back();
  return std::find(trace.parents.begin(), trace.parents.end(), last) != trace.parents.end();
}

}  // namespace

std::string text_of(const Model& model, Token token) {
  return replace_invalid_utf8(model.piece(token));
}

std::string text_with_special(const Model& model, std::span<const Token> tokens) {
  const auto is_special = [&](Token token) {
    const std::string_view name = model.piece(token);
    return name.find_first_not_of(' ') != name.npos && model.decode({&token, 1}).empty();
  };
  std::string out;
  for (std::size_t i = 0; i < tokens.size();) {
    std::size_t end = i;
    while (end < tokens.size() && !is_special(tokens[end])) ++end;
    out += model.decode(tokens.subspan(i, end - i));
    if (end < tokens.size()) out += model.piece(tokens[end]);
    i = end + 1;
  }
  return out;
}

json chat_logprobs(const Model& model, std::span<const TokenOutput> tokens) {
  json content = json::array();
  for (const TokenOutput& t : tokens) {
    json entry = chat_token(model, t.token, t.log_probability);
    json top = json::array();
    for (const auto& [token, log_probability] : t.top) {
      top.push_back(chat_token(model, token, log_probability));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json response_logprobs(const Model& model, std::span<const TokenOutput> tokens) {
  json out = std::move(chat_logprobs(model, tokens)["content"]);
  const auto as_list = [](json& entry) {
    if (entry["bytes"].is_null()) entry["bytes"] = json::array();
  };
  for (json& entry : out) {
    as_list(entry);
    for (json& top : entry["top_logprobs"]) as_list(top);
  }
  return out;
}

void CompletionLogprobs::add_text(std::string text) {
  offsets_.push_back(offset_);
  offset_ += static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
  texts_.push_back(std::move(text));
}

void CompletionLogprobs::add_first(const Model& model, Token token) {
  add_text(completion_text(model, token));
  log_probabilities_.push_back(nullptr);
  top_.push_back(nullptr);
}

void CompletionLogprobs::add(const Model& model, const TokenOutput& t) {
  add_text(completion_text(model, t.token));
  log_probabilities_.push_back(t.log_probability);
  // The token itself is there too, as at OpenAI.
  json top = json::object();
  top[completion_text(model, t.token)] = t.log_probability;
  for (const auto& [token, log_probability] : t.top) {
    top[completion_text(model, token)] = log_probability;
  }
  top_.push_back(std::move(top));
}

json CompletionLogprobs::take() {
  json out = {{"tokens", std::exchange(texts_, {})},
              {"token_logprobs", std::exchange(log_probabilities_, json::array())},
              {"top_logprobs", std::exchange(top_, json::array())},
              {"text_offset", std::exchange(offsets_, {})}};
  return out;
}

void Totals::add(const TextResult& text) {
  cached_tokens += text.shared_tokens;
  tokens += text.tokens.size();
  prompt_seconds = std::max(prompt_seconds, text.prefill_seconds);
  seconds = std::max(seconds, text.seconds);
  statistics.add(text.statistics);
}

json usage_json(const Totals& t) {
  return {
      {"prompt_tokens", t.prompt_tokens},
      {"completion_tokens", t.tokens},
      {"total_tokens", t.prompt_tokens + t.tokens},
      {"prompt_tokens_details", {{"cached_tokens", std::min(t.cached_tokens, t.prompt_tokens)}}},
      {"completion_tokens_details", {{"reasoning_tokens", t.reasoning_tokens}}}};
}

json timings_json(const Totals& t) {
  const auto read =
      static_cast<double>(t.prompt_tokens - std::min(t.prompt_tokens, t.cached_tokens));
  const auto made = static_cast<double>(t.tokens);
  return {{"cache_n", t.cached_tokens},
          {"prompt_n", static_cast<std::size_t>(read)},
          {"prompt_ms", 1e3 * t.prompt_seconds},
          {"prompt_per_token_ms", per(1e3 * t.prompt_seconds, read)},
          {"prompt_per_second", per(read, t.prompt_seconds)},
          {"predicted_n", t.tokens},
          {"predicted_ms", 1e3 * t.seconds},
          {"predicted_per_token_ms", per(1e3 * t.seconds, made)},
          {"predicted_per_second", per(made, t.seconds)},
          {"draft_n", t.statistics.drafted},
          {"draft_n_accepted", t.statistics.kept()}};
}

json metrics_json(const Totals& t, std::size_t max_draft) {
  std::uint64_t steps = 0, accepted = 0;
  json histogram = json::object();
  for (std::size_t kept = 0; kept < t.rounds_by_kept.size(); ++kept) {
    const std::uint64_t n = t.rounds_by_kept[kept];
    if (n == 0) continue;
    histogram[std::to_string(kept)] = n;
    steps += n;
    accepted += n * kept;
  }
  if (steps == 0) return {{"speculative_decoding", nullptr}};
  const auto s = static_cast<double>(steps);
  return {{"speculative_decoding",
           {{"mean_acceptance_length", 1.0 + static_cast<double>(accepted) / s},
            {"draft_acceptance_rate",
             per(static_cast<double>(accepted), static_cast<double>(t.statistics.drafted))},
            {"acceptance_histogram", std::move(histogram)},
            {"num_accepted_draft_tokens", accepted},
            {"num_draft_tokens", t.statistics.drafted},
            {"num_spec_steps", steps},
            {"num_spec_tokens", max_draft}}}};
}

json round_json(const Model& model, const RoundReport& round, std::string_view text) {
  const RoundTrace& trace = round.trace;
  json pieces = json::array();
  for (std::size_t i = 0; i < round.bytes.size(); ++i) {
    const bool last = i + 1 == round.bytes.size();
    const std::size_t n = last ? text.size() : std::min(text.size(), round.bytes[i]);
    const char* how = i < trace.kept.size()   ? "kept"
                      : trace.drafts.empty()  ? "plain"
                      : rejected_there(trace) ? "corrected"
                                              : "bonus";
    pieces.push_back({{"text", text.substr(0, n)}, {"how", how}});
    text.remove_prefix(n);
  }
  json drafts = json::array();
  for (std::size_t i = 0; i < trace.drafts.size(); ++i) {
    drafts.push_back({{"text", text_of(model, trace.drafts[i])},
                      {"parent", trace.parents[i]},
                      {"kept", std::find(trace.kept.begin(), trace.kept.end(),
                                         static_cast<std::int32_t>(i)) != trace.kept.end()}});
  }
  return {{"pieces", std::move(pieces)},
          {"drafts", std::move(drafts)},
          {"drafter_ms", 1e3 * trace.drafter_seconds},
          {"target_ms", 1e3 * trace.target_seconds}};
}

}  // namespace forerun::serve
