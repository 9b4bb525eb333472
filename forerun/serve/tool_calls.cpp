#include "forerun/serve/tool_calls.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "forerun/serve/tags.h"

namespace forerun::serve {
namespace {

bool blank(std::string_view text) {
  return text.find_first_not_of(" \n\r\t") == std::string_view::npos;
}

// What call_json reads. The grammar holds calls to this, but a tag of reasoning may cut one in two.
bool is_call(const std::string& text) {
  const auto parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() && parsed.contains("arguments") && parsed.contains("name") &&
         parsed["name"].is_string();
}

}  // namespace

// Where the call ends; npos: not yet. The tag may also stand in a string of its arguments.
std::size_t ToolCallReader::close() {
  if (native_) return native_->read(held_);
  for (; seen_ < held_.size(); ++seen_) {
    const char c = held_[seen_];
    if (quoted_) {
      quoted_ = c != '"' || escaped_;
      escaped_ = c == '\\' && !escaped_;
    } else if (c == '"') {
      quoted_ = true;
    } else if (const auto rest = std::string_view(held_).substr(seen_, close_.size());
               close_.starts_with(rest)) {
      return rest.size() == close_.size() ? seen_ : std::string::npos;
    }
  }
  return std::string::npos;
}

// The call that ends there; empty: it is none.
std::optional<std::string> ToolCallReader::call(std::size_t end) {
  if (native_) return native_->take();
  std::string written = held_.substr(0, end);
  return is_call(written) ? std::optional(std::move(written)) : std::nullopt;
}

// Decides, once it can be told, whether the text begins with a call. False: it is not read for any.
bool ToolCallReader::may_hold_calls() {
  if (undecided_) {
    const std::size_t at = std::min(held_.find_first_not_of(" \n\r\t"), held_.size());
    const std::string_view begin = std::string_view(held_).substr(at, open_.size());
    if (begin.size() < open_.size() && open_.starts_with(begin)) return false;
    undecided_ = false;
    plain_ = begin != open_;
  }
  if (plain_) add(std::exchange(held_, {}));
  return !plain_;
}

void ToolCallReader::push(std::string_view piece) {
  held_ += piece;
  if (!may_hold_calls()) return;
  for (;;) {
    const std::string_view tag = inside_ ? close_ : open_;
    const std::size_t at = inside_ ? close() : held_.find(tag);
    if (at == std::string::npos) break;
    if (inside_) {
      if (std::optional<std::string> one = call(at)) {
        add(*std::move(one), true);
        called_ = true;
      } else {
        add(fmt::format("{}{}{}", open_, held_.substr(0, at), close_));
      }
    } else {
      // The space around calls belongs to their form.
      const std::string before = held_.substr(0, at);
      if (!blank(before)) add(before.substr(0, before.find_last_not_of(" \n\r\t") + 1));
    }
    held_.erase(0, at + tag.size());
    inside_ = !inside_;
    seen_ = 0;
  }
  if (inside_) return;
  const std::size_t keep = begun(held_, open_);
  // Space waits too: it may come before a call.
  const std::size_t solid = held_.find_last_not_of(" \n\r\t", held_.size() - keep - 1);
  if (held_.size() == keep || solid == std::string::npos) return;
  add(held_.substr(0, solid + 1));
  held_.erase(0, solid + 1);
}

void ToolCallReader::finish() {
  if (!inside_ && !(called_ && blank(held_))) add(held_);
  held_.clear();
}

void ToolCallReader::add(std::string text, bool call) {
  if (text.empty() && !call) return;
  waiting_ += call ? 1 : 0;
  if (!call && !parts_.empty() && !parts_.back().call) {
    parts_.back().text += text;
  } else {
    parts_.push_back({std::move(text), call});
  }
}

std::vector<std::string> ToolCallReader::take_those(bool calls) {
  std::vector<std::string> out;
  for (TextOrCall& part : parts_) {
    if (part.call == calls) out.push_back(std::move(part.text));
  }
  std::erase_if(parts_, [&](const TextOrCall& part) { return part.call == calls; });
  return out;
}

std::string ToolCallReader::take_content() {
  std::string out;
  for (const std::string& text : take_those(false)) out += text;
  return out;
}

std::vector<std::string> ToolCallReader::take_calls() {
  waiting_ = 0;
  return take_those(true);
}

std::vector<TextOrCall> ToolCallReader::take() {
  waiting_ = 0;
  return std::exchange(parts_, {});
}

nlohmann::json call_json(const std::string& call, const std::string& id) {
  // The grammar has held the call to its form; properties stay in their order.
  const auto parsed = nlohmann::ordered_json::parse(call);
  return {{"id", id},
          {"type", "function"},
          {"function",
           {{"name", parsed.at("name").get<std::string>()},
            {"arguments", parsed.at("arguments").dump()}}}};
}

}  // namespace forerun::serve
