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
    choices_[i].calls = in_channels()
                            ? ToolCallReader(kHarmonyCall, kHarmonyCallEnd)
                            : ToolCallReader(request_.calls_or_form, request_.native_calls);
    choices_[i].thoughts =
        in_channels() ? ReasoningReader(ReasoningStart::kChannels, !request_.reasoning)
                      : ReasoningReader(request_.reasoning.value_or(ReasoningStart::kAfter));
    if (request_.echo) choices_[i].text = request_.prompt_texts[i / request_.n];
  }
  // n texts share their prompt, which counts once.
  for (const auto& prompt : request_.prompts) totals_.prompt_tokens += prompt.size();
  if (request_.api == Api::kResponses) {
    json head = *request_.response;
    head["created_at"] = created_;
    head["model"] = served_.id;
    ResponseOutput::Send send;
    if (request_.stream) {
      send = [this](const json& e) {
        if (gone) return;
        exchange_.write("event: " + e["type"].get_ref<const std::string&>() + "\ndata: " + dump(e) +
                        "\n\n");
      };
    }
    response_.emplace(id_, std::move(head), std::move(send));
  }
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
  if (response_) return response_->begin();
  for (std::size_t i = 0; i < choices_.size() && !gone; ++i) {
    if (request_.api == Api::kChat) {
      json document = frame("chat.completion.chunk");
      document["choices"] = json::array({{{"index", i},
                                          {"delta", {{"role", "assistant"}, {"content", ""}}},
                                          {"logprobs", nullptr},
                                          {"finish_reason", nullptr}}});
      if (request_.usage_chunk) document["usage"] = usage_so_far();
      event(std::move(document));
    } else if (request_.echo) {
      send_chunk(i, {choices_[i].text, {}}, false);
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
json Answer::choice_json(std::size_t index, const Part& part, bool last) {
  Choice& choice = choices_[index];
  json out = {{"index", index}, {"finish_reason", last ? json(choice.finish) : json()}};
  out["logprobs"] = logprobs_of(choice);
  if (request_.api == Api::kCompletions) {
    out["text"] = part.text;
  } else {
    json message = json::object();
    if (!streaming_) message = {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}};
    if (!part.text.empty()) message["content"] = part.text;
    if (!part.reasoning.empty()) message["reasoning_content"] = part.reasoning;
    // In streams calls follow the reasoning.
    if (!streaming_ || part.reasoning.empty()) add_calls(choice, message);
    out[streaming_ ? "delta" : "message"] = std::move(message);
  }
  if (request_.rounds) out["forerun"] = {{"rounds", std::exchange(choice.rounds, json::array())}};
  return out;
}

void Answer::send_chunk(std::size_t index, const Part& part, bool last) {
  const bool chat = request_.api == Api::kChat;
  json document = frame(chat ? "chat.completion.chunk" : "text_completion");
  document["choices"] = json::array({choice_json(index, part, last)});
  if (request_.usage_chunk) document["usage"] = usage_so_far();
  if (last && left_ == 0) document.update(extras());
  event(std::move(document));
}

// What chunks before the last one say of the usage, as vLLM has it.
json Answer::usage_so_far() const {
  if (!request_.usage_so_far) return nullptr;
  return {{"prompt_tokens", totals_.prompt_tokens},
          {"completion_tokens", made_},
          {"total_tokens", totals_.prompt_tokens + made_}};
}

json Answer::extras() const {
  return {{"timings", timings_json(totals_)},
          {"metrics", choices_.size() == 1 ? metrics_json(totals_, request_.options.max_draft)
                                           : json{{"speculative_decoding", nullptr}}},
          {"forerun",
           {{"seed", request_.options.seed},
            {"rule", name_of(request_.options.rule)},
            {"exact", request_.options.exact() && request_.drafter.keeps_law()},
            {"drafter", request_.drafter.name().substr(0, request_.drafter.name().find(':'))}}}};
}

void Answer::count(Choice& choice, const RoundReport& round, Metrics& metrics) {
  const auto now = Clock::now();
  const std::string& drafter = request_.drafter.name();
  metrics.round(drafter.substr(0, drafter.find(':')), round.trace,
                seconds_between(choice.last, now), !choice.began);
  choice.last = now;
  choice.began = true;
  if (first_token_ < 0.0) first_token_ = seconds_between(arrived_, now);
  made_ += round.trace.outputs.size();
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
  if (request_.api != Api::kCompletions && result.finish == Finish::kEndToken &&
      !choice.tokens.empty()) {
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
  const Part part = read(choice, std::move(text), round);
  if (response_) return respond(choice, part);
  if (streaming_) return show(index, part);
  choice.text += part.text;
  choice.reasoning += part.reasoning;
}

// The text is HarmonyText, and is read.
bool Answer::in_channels() const {
  return request_.calls_in_channels || request_.reasoning == ReasoningStart::kChannels;
}

// What a round's text says: reasoning, content, calls.
Answer::Part Answer::read(Choice& choice, std::string text, const RoundReport* round) {
  json shown;
  if (round != nullptr && request_.rounds) shown = round_json(served_.model, *round, text);
  Part out{.text = std::move(text), .reasoning = {}};
  if (request_.reasoning || in_channels()) {
    out = read_parts(choice, out.text, round, shown.is_null() ? nullptr : &shown["pieces"]);
    count_reasoning(choice,
                    round != nullptr ? std::span(round->bytes) : std::span<const std::size_t>());
    if (choice.ended) totals_.reasoning_tokens += choice.reasoning_tokens;
  }
  if (!shown.is_null()) choice.rounds.push_back(std::move(shown));
  if (!request_.calls_tools) {
    if (in_channels()) out.text = spelled_calls(out.text);
    return out;
  }
  choice.calls.push(out.text);
  if (choice.ended) choice.calls.finish();
  if (!response_) out.text = choice.calls.take_content();
  if (choice.ended && choice.calls.called() && choice.finish == "stop") {
    choice.finish = "tool_calls";
  }
  return out;
}

// @param round, pieces  of the text, or null; the text of the pieces becomes that of the content,
// beside "reasoning"
Answer::Part Answer::read_parts(Choice& choice, std::string_view text, const RoundReport* round,
                                json* pieces) {
  Part out;
  const auto take = [&] {
    Part part{choice.thoughts.take_content(), choice.thoughts.take_reasoning()};
    out.text += part.text;
    out.reasoning += part.reasoning;
    return part;
  };
  const std::size_t tokens = round != nullptr ? round->bytes.size() : 0;
  for (std::size_t i = 0; i < tokens; ++i) {
    // As in round_json: what is left belongs to the last one.
    const std::size_t n = i + 1 == tokens ? text.size() : std::min(text.size(), round->bytes[i]);
    choice.thoughts.push(text.substr(0, n), served_.model.piece(round->trace.outputs[i]));
    text.remove_prefix(n);
    if (choice.ended && i + 1 == tokens) choice.thoughts.finish();
    Part part = take();
    if (pieces == nullptr) continue;
    (*pieces)[i]["text"] = in_channels() ? spelled_calls(part.text) : std::move(part.text);
    if (!part.reasoning.empty()) (*pieces)[i]["reasoning"] = std::move(part.reasoning);
  }
  choice.thoughts.push(text);
  if (choice.ended && tokens == 0) choice.thoughts.finish();
  take();
  return out;
}

// Tokens count whose text begins before the end of the reasoning, and where there turns out to be
// none, none of them.
// @param bytes  of text, by token of a round
void Answer::count_reasoning(Choice& choice, std::span<const std::size_t> bytes) {
  const std::size_t end = choice.thoughts.end();
  for (const std::size_t n : bytes) {
    if (choice.bytes < end) ++choice.reasoning_tokens;
    choice.bytes += n;
  }
  if (end == 0) choice.reasoning_tokens = 0;
}

// Reasoning and content come in chunks of their own: clients look for one or the other.
void Answer::show(std::size_t index, const Part& part) {
  const Choice& choice = choices_[index];
  if (!part.reasoning.empty()) send_chunk(index, {{}, part.reasoning}, false);
  if (!part.text.empty() || choice.calls.waiting()) send_chunk(index, {part.text, {}}, false);
  if (choice.ended) send_chunk(index, {}, true);
}

// What a round adds to a response: items of its own.
void Answer::respond(Choice& choice, const Part& part) {
  response_->reason(part.reasoning);
  if (!request_.calls_tools) {
    if (!part.text.empty()) response_->say(part.text, spoken_logprobs(choice));
    return;
  }
  for (const TextOrCall& said : choice.calls.take()) {
    said.call ? response_->call(said.text) : response_->say(said.text, json::array());
  }
}

// Of the tokens since the last time; those of the reasoning come first.
json Answer::spoken_logprobs(Choice& choice) {
  if (!request_.top) return json::array();
  const std::size_t reasoning =
      std::min(choice.tokens.size(), choice.reasoning_tokens - choice.left_out);
  choice.left_out += reasoning;
  json out = response_logprobs(served_.model, std::span(choice.tokens).subspan(reasoning));
  choice.tokens.clear();
  return out;
}

void Answer::end_response() {
  Choice& choice = choices_.front();
  if (response_->speaks()) response_->say("", spoken_logprobs(choice));
  const json document = response_->end(choice.finish == "length", totals_, extras());
  streaming_ ? exchange_.end() : exchange_.send({.body = dump(document)});
}

void Answer::fail(unsigned status, const std::string& message) {
  if (failed_) return;
  failed_ = true;
  status_ = status;
  if (gone) return;
  const ApiError error(status, message);
  if (streaming_) {
    response_ ? response_->fail(status == 400, message)
              : exchange_.write("data: " + error.body() + "\n\n");
    exchange_.end();
  } else {
    exchange_.send(to_response(error));
  }
}

void Answer::end() {
  if (failed_ || gone) return;
  if (response_) return end_response();
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
    document["choices"].push_back(choice_json(i, {choices_[i].text, choices_[i].reasoning}, true));
  }
  document["usage"] = usage_json(totals_);
  document.update(extras());
  exchange_.send({.body = dump(document)});
}

}  // namespace forerun::serve
