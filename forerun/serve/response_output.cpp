#include "forerun/serve/response_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "forerun/serve/tool_calls.h"

namespace forerun::serve {
namespace {

using nlohmann::json;

constexpr const char* kInProgress = "in_progress";
constexpr const char* kCompleted = "completed";
constexpr const char* kIncomplete = "incomplete";

}  // namespace

ResponseOutput::ResponseOutput(const std::string& id, json head, Send send)
    : head_(std::move(head)), send_(std::move(send)), suffix_(id.substr(id.find('_') + 1)) {
  head_["id"] = id;
  head_["object"] = "response";
}

void ResponseOutput::event(std::string_view type, json fields) {
  if (!send_) return;
  fields["type"] = "response." + std::string(type);
  fields["sequence_number"] = sequence_++;
  send_(fields);
}

void ResponseOutput::begin() {
  for (const char* type : {"created", "in_progress"}) {
    event(type, {{"response", document(kInProgress)}});
  }
}

std::string ResponseOutput::new_item(const char* prefix) {
  return fmt::format("{}_{}_{}", prefix, suffix_, items_.size());
}

// An event of the open item's only part.
void ResponseOutput::part_event(std::string_view type, json fields) {
  fields["item_id"] = item_id_;
  fields["output_index"] = items_.size();
  fields["content_index"] = 0;
  event(type, std::move(fields));
}

json ResponseOutput::part() const {
  if (open_ == Open::kReasoning) return {{"type", "reasoning_text"}, {"text", text_}};
  return {{"type", "output_text"},
          {"text", text_},
          {"annotations", json::array()},
          {"logprobs", logprobs_}};
}

json ResponseOutput::item(const char* status) const {
  json content = json::array();
  if (status != kInProgress) content.push_back(part());
  json out = {{"id", item_id_}, {"status", status}, {"content", std::move(content)}};
  if (open_ == Open::kReasoning) {
    out["type"] = "reasoning";
    out["summary"] = json::array();
    out["encrypted_content"] = nullptr;
  } else {
    out["type"] = "message";
    out["role"] = "assistant";
  }
  return out;
}

void ResponseOutput::open(Open kind) {
  if (open_ == kind) return;
  close(kCompleted);
  open_ = kind;
  item_id_ = new_item(kind == Open::kReasoning ? "rs" : "msg");
  event("output_item.added", {{"output_index", items_.size()}, {"item", item(kInProgress)}});
  part_event("content_part.added", {{"part", part()}});
}

void ResponseOutput::close(const char* status) {
  if (open_ == Open::kNone) return;
  if (open_ == Open::kReasoning) {
    part_event("reasoning_text.done", {{"text", text_}});
  } else {
    part_event("output_text.done", {{"text", text_}, {"logprobs", logprobs_}});
  }
  part_event("content_part.done", {{"part", part()}});
  json done = item(status);
  event("output_item.done", {{"output_index", items_.size()}, {"item", done}});
  items_.push_back(std::move(done));
  open_ = Open::kNone;
  text_.clear();
  logprobs_ = json::array();
}

void ResponseOutput::reason(const std::string& text) {
  if (text.empty()) return;
  open(Open::kReasoning);
  text_ += text;
  part_event("reasoning_text.delta", {{"delta", text}});
}

void ResponseOutput::say(const std::string& text, const json& logprobs) {
  if (text.empty() && logprobs.empty()) return;
  open(Open::kMessage);
  text_ += text;
  logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
  part_event("output_text.delta", {{"delta", text}, {"logprobs", logprobs}});
}

void ResponseOutput::call(const std::string& call) {
  close(kCompleted);
  const std::size_t place = items_.size();
  const std::string id = new_item("fc");
  const json written = call_json(call, "call" + id.substr(2));
  const json& arguments = written["function"]["arguments"];
  json item = {{"id", id},
               {"type", "function_call"},
               {"status", kInProgress},
               {"call_id", written["id"]},
               {"name", written["function"]["name"]},
               {"arguments", ""}};
  event("output_item.added", {{"output_index", place}, {"item", item}});
  const json fields = {{"item_id", id}, {"output_index", place}};
  json delta = fields, done = fields;
  delta["delta"] = arguments;
  event("function_call_arguments.delta", std::move(delta));
  done["arguments"] = arguments;
  done["name"] = item["name"];
  event("function_call_arguments.done", std::move(done));
  item["arguments"] = arguments;
  item["status"] = kCompleted;
  event("output_item.done", {{"output_index", place}, {"item", item}});
  items_.push_back(std::move(item));
}

json ResponseOutput::document(const char* status) const {
  json out = head_;
  out["status"] = status;
  out["output"] = items_;
  out["error"] = nullptr;
  out["incomplete_details"] = nullptr;
  out["usage"] = nullptr;
  return out;
}

json ResponseOutput::end(bool cut, const Totals& totals, const json& more) {
  // An answer without a text has a message all the same, unless its tokens were used up before.
  const bool answered = std::any_of(items_.begin(), items_.end(),
                                    [](const json& i) { return i["type"] != "reasoning"; });
  if (!cut && !answered) open(Open::kMessage);
  const char* const status = cut ? kIncomplete : kCompleted;
  close(status);
  json out = document(status);
  if (cut) out["incomplete_details"] = {{"reason", "max_output_tokens"}};
  if (!cut) out["completed_at"] = static_cast<std::int64_t>(std::time(nullptr));
  out["usage"] = response_usage(totals);
  out.update(more);
  event(status, {{"response", out}});
  return out;
}

void ResponseOutput::fail(bool by_request, const std::string& message) {
  json out = document("failed");
  out["error"] = {{"code", by_request ? "invalid_prompt" : "server_error"}, {"message", message}};
  event("failed", {{"response", std::move(out)}});
}

json response_usage(const Totals& t) {
  return {
      {"input_tokens", t.prompt_tokens},
      {"input_tokens_details",
       {{"cached_tokens", std::min(t.cached_tokens, t.prompt_tokens)}, {"cache_write_tokens", 0}}},
      {"output_tokens", t.tokens},
      {"output_tokens_details", {{"reasoning_tokens", t.reasoning_tokens}}},
      {"total_tokens", t.prompt_tokens + t.tokens}};
}

}  // namespace forerun::serve
