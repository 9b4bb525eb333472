#include "forerun/base/harmony_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace forerun {
namespace {

constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kEnd = "<|end|>",
                           kStart = "<|start|>", kCall = "<|call|>", kReturn = "<|return|>",
                           kTo = " to=", kFunctions = "functions.";
constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>", kApart = "\n\n";
constexpr std::string_view kEnds[] = {kEnd, kCall, kReturn, kStart};

// Bytes at the end of `text` that one of the tags may begin with.
std::size_t begun(std::string_view text) {
  std::size_t most = 0;
  for (const std::string_view tag : kEnds) {
    for (std::size_t n = std::min(text.size(), tag.size() - 1); n > most; --n) {
      if (text.ends_with(tag.substr(0, n))) most = n;
    }
  }
  return most;
}

// The word behind `tag`, up to a space or the next tag.
std::string_view word_after(std::string_view header, std::string_view tag) {
  const std::size_t at = header.find(tag);
  if (at == header.npos) return {};
  const std::string_view rest = header.substr(at + tag.size());
  return rest.substr(0, rest.find_first_of(" <\n"));
}

bool is_json(const std::string& text) { return nlohmann::json::accept(text.begin(), text.end()); }

}  // namespace

bool HarmonyText::in_template(std::string_view chat_template) noexcept {
  return chat_template.find(kChannel) != chat_template.npos &&
         chat_template.find(kMessage) != chat_template.npos;
}

HarmonyParts HarmonyText::push(std::string_view piece) {
  held_ += piece;
  pushed_ += piece.size();
  HarmonyParts out;
  for (bool more = true; more && !held_.empty();) {
    switch (place_) {
      case Place::kStart:
        more = start(out);
        break;
      case Place::kHeader:
        more = header(out);
        break;
      case Place::kBody:
        more = body(out);
        break;
      case Place::kBetween:
        more = between();
        break;
      case Place::kPlain:
        out.content += std::exchange(held_, {});
        break;
    }
  }
  return out;
}

// From here on no analysis comes.
void HarmonyText::answer(std::size_t end) {
  if (!std::exchange(answered_, true)) analysis_end_ = analysis_ ? end : 0;
}

// Each of these returns whether the text has come past its place.
bool HarmonyText::start(HarmonyParts& out) {
  for (const std::string_view tag : {kChannel, kTo, kStart}) {
    if (held_.starts_with(tag)) {
      place_ = Place::kHeader;
      return true;
    }
    if (tag.starts_with(held_)) return false;
  }
  place_ = Place::kPlain;
  answer(0);
  out.content += std::exchange(held_, {});
  return true;
}

bool HarmonyText::header(HarmonyParts& out) {
  constexpr std::size_t kLongest = 1024;
  const std::size_t at = held_.find(kMessage);
  if (std::min(at, held_.size()) > kLongest) {  // none after all
    answer(pushed_ - held_.size());
    place_ = Place::kPlain;
    return true;
  }
  if (at == held_.npos) return false;
  const std::string all = held_.substr(0, at);
  held_.erase(0, at + kMessage.size());
  open(all, out);
  place_ = Place::kBody;
  return true;
}

void HarmonyText::open(std::string_view header, HarmonyParts& out) {
  const std::string_view to = word_after(header, kTo);
  const bool call = to.starts_with(kFunctions);
  if (!call && word_after(header, kChannel) == "analysis") {
    kind_ = Kind::kAnalysis;
    analysis_ = true;
    if (!answered_ && thought_) out.analysis += kApart;
    return;
  }
  kind_ = call ? Kind::kCall : Kind::kContent;
  answer(pushed_ - held_.size());
  if (call) {
    name_ = to.substr(kFunctions.size());
    arguments_.clear();
  } else if (content_) {
    out.content += kApart;
  }
}

void HarmonyText::write(std::string_view text, HarmonyParts& out) {
  if (kind_ == Kind::kCall) {
    arguments_ += text;
  } else if (kind_ == Kind::kContent) {
    out.content += text;
    content_ |= !text.empty();
  } else if (!answered_) {
    out.analysis += text;
    thought_ |= !text.empty();
  }
}

bool HarmonyText::body(HarmonyParts& out) {
  std::size_t at = held_.npos, size = 0;
  for (const std::string_view tag : kEnds) {
    const std::size_t found = held_.find(tag);
    if (found < at) {
      at = found;
      size = tag == kStart ? 0 : tag.size();
    }
  }
  const bool over = at != held_.npos;
  const std::size_t bytes = over ? at : held_.size() - begun(held_);
  write(std::string_view(held_).substr(0, bytes), out);
  held_.erase(0, over ? at + size : bytes);
  if (!over) return false;
  if (kind_ == Kind::kCall) close_call(true, out.content);
  place_ = Place::kBetween;
  return true;
}

// Up to the next header.
bool HarmonyText::between() {
  const std::size_t at = held_.find(kStart);
  if (at == held_.npos) {
    constexpr std::size_t kKept = kStart.size() - 1;
    if (held_.size() > kKept) held_.erase(0, held_.size() - kKept);
    return false;
  }
  held_.erase(0, at);
  place_ = Place::kHeader;
  return true;
}

HarmonyParts HarmonyText::finish() {
  HarmonyParts out;
  const bool opened = analysis_ || answered_;
  if (place_ == Place::kPlain || !opened) {
    answer(0);
    const bool header =
        held_.starts_with("<|") && (kChannel.starts_with(held_) || kStart.starts_with(held_) ||
                                    held_.starts_with(kChannel) || held_.starts_with(kStart));
    if (place_ != Place::kPlain && header) held_.clear();  // cut within it
    out.content = std::exchange(held_, {});
  } else if (place_ == Place::kBody) {
    write(std::exchange(held_, {}), out);
    if (kind_ == Kind::kCall) close_call(false, out.content);
    place_ = Place::kBetween;
  }
  return out;
}

// Arguments that are no JSON: of a call that was cut off it stays open, else they are shown.
void HarmonyText::close_call(bool whole, std::string& out) {
  using nlohmann::json;
  const bool blank = arguments_.find_first_not_of(" \n\r\t") == arguments_.npos;
  const bool valid = blank || is_json(arguments_);
  if (whole && !valid) {
    out += arguments_;
    return;
  }
  called_ = true;
  out += kOpen;
  out += R"({"name": )" + json(name_).dump(-1, ' ', false, json::error_handler_t::replace);
  out += R"(, "arguments": )" + (blank ? "{}" : arguments_);
  if (valid) (out += "}") += kClose;
}

HarmonyParts harmony_parts(std::string_view text) {
  HarmonyText reader;
  HarmonyParts out = reader.push(text);
  const HarmonyParts rest = reader.finish();
  out.analysis += rest.analysis;
  out.content += rest.content;
  if (reader.called()) {
    out.content.resize(std::min(out.content.find(kOpen), out.content.size()));
  }
  return out;
}

}  // namespace forerun
