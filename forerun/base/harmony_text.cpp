#include "forerun/base/harmony_text.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace forerun {
namespace {

constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kEnd = "<|end|>",
                           kStart = "<|start|>", kCall = "<|call|>", kReturn = "<|return|>",
                           kConstrain = "<|constrain|>", kTo = " to=", kFunctions = "functions.",
                           kApart = "\n\n";
constexpr std::string_view kTags[] = {kStart, kChannel, kConstrain, kMessage, kEnd};
constexpr std::string_view kEnds[] = {kEnd, kCall, kReturn, kStart};
// Stands for '<' of text, where tags are tokens: a byte that UTF-8 has not.
constexpr char kPlainLess = '\xFF';

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

std::string restored(std::string text) {
  std::replace(text.begin(), text.end(), kPlainLess, '<');
  return text;
}

bool is_json(const std::string& text) { return nlohmann::json::accept(text.begin(), text.end()); }

}  // namespace

bool HarmonyText::in_template(std::string_view chat_template) noexcept {
  return chat_template.find(kChannel) != chat_template.npos &&
         chat_template.find(kMessage) != chat_template.npos;
}

bool HarmonyText::is_tag(std::string_view piece) noexcept {
  return std::find(std::begin(kTags), std::end(kTags), piece) != std::end(kTags);
}

std::span<const std::string_view> HarmonyText::tags() noexcept { return kTags; }

std::string spelled_calls(std::string_view content) {
  std::string out;
  for (const char c : content) {
    if (c == kHarmonyCall.front()) {
      out += "<tool_call>";
    } else if (c == kHarmonyCallEnd.front()) {
      out += "</tool_call>";
    } else {
      out += c;
    }
  }
  return out;
}

HarmonyParts HarmonyText::push(std::string_view text, std::string_view token) {
  if (!options_.by_token) {
    held_ += text;
    pushed_ += text.size();
    return read();
  }
  std::copy_if(std::begin(kTags), std::end(kTags), std::back_inserter(awaited_),
               [&](std::string_view tag) { return tag == token; });
  waiting_ += text;
  while (!awaited_.empty()) {
    const std::size_t at = waiting_.find(awaited_.front());
    if (at == waiting_.npos) return read();
    const std::size_t size = awaited_.front().size();
    add(std::string_view(waiting_).substr(0, at));
    held_ += awaited_.front();
    pushed_ += size;
    awaited_.pop_front();
    waiting_.erase(0, at + size);
  }
  add(std::exchange(waiting_, {}));
  return read();
}

// Text without tags.
void HarmonyText::add(std::string_view text) {
  const std::size_t from = held_.size();
  held_ += text;
  pushed_ += text.size();
  std::replace(held_.begin() + static_cast<std::ptrdiff_t>(from), held_.end(), '<', kPlainLess);
}

HarmonyParts HarmonyText::read() {
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
        more = between(out);
        break;
      case Place::kPlain:
        out.content += std::exchange(held_, {});
        break;
    }
  }
  return {restored(std::move(out.analysis)), restored(std::move(out.content))};
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
  if (!call && options_.whole) {
    kind_ = Kind::kContent;
    answer(0);
    (out.content += header) += kMessage;
    return;
  }
  if (!call && word_after(header, kChannel) == "analysis") {
    kind_ = Kind::kAnalysis;
    analysis_ = true;
    apart_ = thought_;
    return;
  }
  kind_ = call ? Kind::kCall : Kind::kContent;
  answer(pushed_ - held_.size());
  if (call) {
    name_ = to.substr(kFunctions.size());
    arguments_.clear();
    header_ = header;
  } else {
    apart_ = content_;
  }
}

void HarmonyText::write(std::string_view text, HarmonyParts& out) {
  if (text.empty()) return;
  if (kind_ == Kind::kCall) {
    arguments_ += text;
    return;
  }
  const bool content = kind_ == Kind::kContent;
  if (!content && answered_) return;
  std::string& to = content ? out.content : out.analysis;
  if (std::exchange(apart_, false)) to += kApart;
  to += text;
  (content ? content_ : thought_) = true;
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
  held_.erase(0, bytes);
  if (!over) return false;
  const bool call = kind_ == Kind::kCall && close_call(true, out.content);
  if (options_.whole && !call) out.content.append(held_, 0, size);
  held_.erase(0, size);
  place_ = Place::kBetween;
  return true;
}

// Up to the next header.
bool HarmonyText::between(HarmonyParts& out) {
  constexpr std::size_t kKept = kStart.size() - 1;
  const std::size_t at = held_.find(kStart);
  const bool over = at != held_.npos;
  const std::size_t bytes = over ? at : held_.size() - std::min(held_.size(), kKept);
  if (options_.whole) out.content.append(held_, 0, bytes);
  held_.erase(0, bytes);
  if (over) place_ = Place::kHeader;
  return over;
}

HarmonyParts HarmonyText::finish() {
  awaited_.clear();
  HarmonyParts out = push({});
  const bool opened = analysis_ || answered_;
  if (place_ == Place::kPlain || !opened) {
    answer(0);
    const bool header =
        (held_.starts_with("<|") && (kChannel.starts_with(held_) || kStart.starts_with(held_) ||
                                     held_.starts_with(kChannel) || held_.starts_with(kStart))) ||
        (held_.starts_with(kTo) && held_.substr(kTo.size()).starts_with(kFunctions));
    if (place_ != Place::kPlain && header && !options_.whole) held_.clear();  // cut within it
    out.content += std::exchange(held_, {});
  } else if (place_ == Place::kBody) {
    write(std::exchange(held_, {}), out);
    if (kind_ == Kind::kCall) close_call(false, out.content);
    place_ = Place::kBetween;
  } else if (options_.whole) {
    out.content += std::exchange(held_, {});
  }
  return {restored(std::move(out.analysis)), restored(std::move(out.content))};
}

// Whether it is a call. Arguments that are no JSON: of one that was cut off it stays open, else
// they are shown.
bool HarmonyText::close_call(bool whole, std::string& out) {
  using nlohmann::json;
  arguments_ = restored(std::move(arguments_));
  const bool blank = arguments_.find_first_not_of(" \n\r\t") == arguments_.npos;
  const bool valid = blank || is_json(arguments_);
  if (whole && !valid) {
    if (options_.whole) (out += header_) += kMessage;
    out += arguments_;
    return false;
  }
  called_ = true;
  out += kHarmonyCall;
  out += R"({"name": )";
  out += json(restored(name_)).dump(-1, ' ', false, json::error_handler_t::replace);
  out += R"(, "arguments": )";
  out += blank ? "{}" : arguments_;
  if (valid) (out += "}") += kHarmonyCallEnd;
  return true;
}

HarmonyParts harmony_parts(std::string_view text) {
  HarmonyText reader;
  HarmonyParts out = reader.push(text);
  const HarmonyParts rest = reader.finish();
  out.analysis += rest.analysis;
  out.content += rest.content;
  if (reader.called()) {
    out.content.resize(std::min(out.content.find(kHarmonyCall), out.content.size()));
  }
  return out;
}

}  // namespace forerun
