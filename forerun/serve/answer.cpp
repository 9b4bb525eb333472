#include "forerun/serve/answer.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "forerun/serve/api_error.h"
#include "forerun/serve/json.h"

namespace forerun::serve {
namespace {

using nlohmann::json;

double seconds_between(Answer::Clock::time_point from, Answer::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

const char* reason_of(Finish finish) { return finish == Finish::kLength ? "length" : "stop"; }

}  // namespace

Answer::Answer(std::string id, GenerationRequest request, Exchange exchange,
               const ServedModel& served, Clock::time_point arrived)
    : id_(std::move(id)),
      request_(std::move(request)),
      exchange_(std::move(exchange)),
      served_(served),
      arrived_(arrived),
      created_(static_cast<std::int64_t>(std::time(nullptr))),
      choices_(request_.choices()),
      left_(request_.choices()) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].last = arrived;
    if (request_.echo) choices_[i].text = request_.prompt_texts[i / request_.n];
  }
  // n texts share their prompt, which counts once.
  for (const auto& prompt : request_.prompts) totals_.prompt_tokens += prompt.size();
}

json Answer::frame(const char* object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", served_.id},
          {"system_fingerprint", "forerun-" FORERUN_VERSION}};
}

void Answer::event(json document) {
  if (!gone) exchange_.write("data: " + dump(document) + "\n\n");
}

void Answer::begin() {
  if (!request_.stream) return;
  streaming_ = true;
  exchange_.begin();
  for (std::size_t i = 0; i < choices_.size() && !gone; ++i) {
    if (request_.api == Api::kChat) {
      json document = frame("chat.completion.chunk");
      document["choices"] = json::array({{{"index", i},
                                          {"delta", {{"role", "assistant"}, {"content", ""}}},
                                          {"logprobs", nullptr},
                                          {"finish_reason", nullptr}}});
      if (request_.usage_chunk) document["usage"] = nullptr;
      event(std::move(document));
    } else if (request_.echo) {
      send_chunk(i, choices_[i].text, false);
    }
  }
}

void Answer::scored(std::size_t prompt, std::span<const TokenScore> scores) {
  for (std::size_t i = prompt * request_.n; i < (prompt + 1) * request_.n; ++i) {
    CompletionLogprobs& out = choices_[i].logprobs;
    out.add_first(served_.model, request_.prompts[prompt].front());
    for (const TokenScore& s : scores) {
      out.add(served_.model, {0, s.token, s.log_probability, s.top});
    }
  }
}

json Answer::logprobs_of(Choice& choice) {
  if (!request_.top) return nullptr;
  if (request_.api == Api::kChat) {
    json out = chat_logprobs(served_.model, choice.tokens);
    choice.tokens.clear();
    return out;
  }
  for (const TokenOutput& t : choice.tokens) choice.logprobs.add(served_.model, t);
  choice.tokens.clear();
  return choice.logprobs.take();
}

// The calls since the last chunk, each whole.
void Answer::add_calls(Choice& choice, json& message) {
  const std::vector<std::string> calls = choice.calls.take_calls();
  if (calls.empty()) return;
  if (!streaming_ && choice.text.empty()) message["content"] = nullptr;
  for (const std::string& call : calls) {
    const std::size_t place = choice.calls_sent++;
    json one = call_json(call, "call_" + id_.substr(id_.find('-') + 1) + "_" +
                                   std::to_string(&choice - choices_.data()) + "_" +
                                   std::to_string(place));
    if (streaming_) one["index"] = place;
    message["tool_calls"].push_back(std::move(one));
  }
}

// @param last  with the reason why the text ended
json Answer::choice_json(std::size_t index, const std::string& text, bool last) {
  Choice& choice = choices_[index];
  json out = {{"index", index}, {"finish_reason", last ? json(choice.finish) : json()}};
  out["logprobs"] = logprobs_of(choice);
  if (request_.api == Api::kCompletions) {
    out["text"] = text;
  } else if (streaming_) {
    out["delta"] = text.empty() ? json::object() : json{{"content", text}};
    add_calls(choice, out["delta"]);
  } else {
    out["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
    add_calls(choice, out["message"]);
  }
  if (request_.rounds) out["forerun"] = {{"rounds", std::exchange(choice.rounds, json::array())}};
  return out;
}

void Answer::send_chunk(std::size_t index, const std::string& text, bool last) {
  const bool chat = request_.api == Api::kChat;
  json document = frame(chat ? "chat.completion.chunk" : "text_completion");
  document["choices"] = json::array({choice_json(index, text, last)});
  if (request_.usage_chunk) document["usage"] = nullptr;
  if (last && left_ == 0) add_extras(document);
  event(std::move(document));
}

void Answer::add_extras(json& document) const {
  document["timings"] = timings_json(totals_);
  document["metrics"] = choices_.size() == 1 ? metrics_json(totals_, request_.options.max_draft)
                                             : json{{"speculative_decoding", nullptr}};
  document["forerun"] = {
      {"seed", request_.options.seed},
      {"rule", name_of(request_.options.rule)},
      {"exact", request_.options.exact() && request_.drafter.keeps_law()},
      {"drafter", request_.drafter.name().substr(0, request_.drafter.name().find(':'))}};
}

void Answer::count(Choice& choice, const RoundReport& round, Metrics& metrics) {
  const auto now = Clock::now();
  const std::string& drafter = request_.drafter.name();
  metrics.round(drafter.substr(0, drafter.find(':')), round.trace,
                seconds_between(choice.last, now), !choice.began);
  choice.last = now;
  choice.began = true;
  if (first_token_ < 0.0) first_token_ = seconds_between(arrived_, now);
  if (round.trace.drafts.empty()) return;
  const std::size_t kept = round.trace.kept.size();
  totals_.rounds_by_kept.resize(std::max(totals_.rounds_by_kept.size(), kept + 1));
  ++totals_.rounds_by_kept[kept];
}

void Answer::finish(Choice& choice, const TextResult& result, bool first, Metrics& metrics) {
  choice.ended = true;
  choice.finish = reason_of(result.finish);
  --left_;
  totals_.add(result);
  if (first) tokens_ = result.tokens;
  const std::string& drafter = request_.drafter.name();
  metrics.finished(
      drafter.substr(0, drafter.find(':')), result,
      request_.prompts[static_cast<std::size_t>(&choice - choices_.data()) / request_.n].size());
  // The end token has no text: what clients put together from a chat's tokens is its content.
  if (request_.api == Api::kChat && result.finish == Finish::kEndToken && !choice.tokens.empty()) {
    choice.tokens.pop_back();
  }
}

void Answer::take(std::size_t index, std::span<const ChoiceEvent> events, Metrics& metrics) {
  Choice& choice = choices_[index];
  std::string text;
  const Failed* failure = nullptr;
  const RoundReport* round = nullptr;
  for (const ChoiceEvent& e : events) {
    if (const auto* token = std::get_if<TokenOutput>(&e.event)) choice.tokens.push_back(*token);
    if (const auto* piece = std::get_if<TextPiece>(&e.event)) text += piece->text;
    if (const auto* end = std::get_if<TextFinished>(&e.event)) {
      finish(choice, end->result, index == 0, metrics);
    }
    if (const auto* report = std::get_if<RoundReport>(&e.event)) {
      round = report;
      count(choice, *report, metrics);
    }
    if (const auto* failed = std::get_if<Failed>(&e.event)) {
      choice.ended = true;
      --left_;
      failure = failed;
    }
  }
  if (failure != nullptr) return fail(failure->by_request ? 400 : 500, failure->message);
  if (failed_ || gone) return;
  if (round != nullptr && request_.rounds) {
    choice.rounds.push_back(round_json(served_.model, *round, text));
  }
  bool called = false;
  if (request_.calls_tools) {
    choice.calls.push(text);
    if (choice.ended) choice.calls.finish();
    text = choice.calls.take_content();
    called = choice.calls.waiting();
    if (choice.ended && choice.calls.called() && choice.finish == "stop") {
      choice.finish = "tool_calls";
    }
  }
  if (!streaming_) {
    choice.text += text;
    return;
  }
  if (!text.empty() || called || choice.ended) {
    const bool more = !text.empty() || called;
    if (choice.ended && more) send_chunk(index, text, false);
    send_chunk(index, choice.ended ? std::string() : text, choice.ended);
  }
}

void Answer::fail(unsigned status, const std::string& message) {
  if (failed_) return;
  failed_ = true;
  status_ = status;
  if (gone) return;
  const ApiError error(status, message);
  if (streaming_) {
    exchange_.write("data: " + error.body() + "\n\n");
    exchange_.end();
  } else {
    exchange_.send(to_response(error));
  }
}

void Answer::end() {
  if (failed_ || gone) return;
  if (streaming_) {
    if (request_.usage_chunk) {
      json document =
          frame(request_.api == Api::kChat ? "chat.completion.chunk" : "text_completion");
      document["choices"] = json::array();
      document["usage"] = usage_json(totals_);
      event(std::move(document));
    }
    exchange_.write("data: [DONE]\n\n");
    return exchange_.end();
  }
  json document = frame(request_.api == Api::kChat ? "chat.completion" : "text_completion");
  document["choices"] = json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    document["choices"].push_back(choice_json(i, choices_[i].text, true));
  }
  document["usage"] = usage_json(totals_);
  add_extras(document);
  exchange_.send({.body = dump(document)});
}

}  // namespace forerun::serve
