#include "forerun/serve/reasoning.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "forerun/serve/api_error.h"
#include "forerun/serve/tags.h"

namespace forerun::serve {
namespace {

constexpr std::string_view kThink = "<think>", kThought = "</think>", kSpace = " \n\r\t";

std::string_view without_space_after(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

// The end of a prompt as its tokens spell it: with the names of special ones, which come between
// what a user wrote and the answer.
std::string end_of(std::span<const Token> prompt, const Model& model) {
  constexpr std::size_t kEnough = 64;
  std::string out;
  for (std::size_t i = prompt.size(); i > 0 && out.size() < kEnough; --i) {
    out.insert(0, model.piece(prompt[i - 1]));
  }
  return out;
}

bool has_tags(const std::string& chat_template) {
  return chat_template.find(kThink) != std::string::npos ||
         chat_template.find(kThought) != std::string::npos ||
         HarmonyText::in_template(chat_template);
}

std::string template_of(const Model& model) {
  return model.tokenizer_info().chat_template.value_or("");
}

}  // namespace

std::optional<ReasoningFormat> reasoning_format_from_name(std::string_view name) {
  if (name == "auto" || name == "deepseek") return ReasoningFormat::kAuto;
  if (name == "none") return ReasoningFormat::kNone;
  return std::nullopt;
}

std::optional<ReasoningStart> reasoning_of(const Fields& fields, const ChatPrompt& chat,
                                           std::span<const Token> prompt,
                                           const ServedModel& served) {
  ReasoningFormat format = served.reasoning;
  if (const auto name = fields.text("reasoning_format")) {
    const auto known = reasoning_format_from_name(*name);
    if (!known) throw bad_field("reasoning_format", "is wrong: send auto or none");
    format = *known;
  }
  const std::string text = template_of(served.model);
  if (format == ReasoningFormat::kNone || !has_tags(text)) return std::nullopt;
  // A message that goes on says itself whether its reasoning is over.
  const bool goes_on = chat.input.continue_last;
  const std::string_view last = goes_on ? std::string_view(chat.messages.back().content) : "";
  if (const std::size_t solid = last.find_first_not_of(kSpace); solid != last.npos) {
    const bool inside = last.substr(solid).starts_with(kThink) && last.find(kThought) == last.npos;
    return inside ? std::optional(ReasoningStart::kInside) : std::nullopt;
  }
  if (!goes_on && served.model.answers_in_channels()) return ReasoningStart::kChannels;
  const std::string end = end_of(prompt, served.model);
  if (without_space_after(end).ends_with(kThink)) return ReasoningStart::kInside;
  if (goes_on) return std::nullopt;
  return without_space_after(end).ends_with(kThought) ? ReasoningStart::kAfter
                                                      : ReasoningStart::kBefore;
}

void add_effort(nlohmann::json& variables, const Fields& fields, const Model& model) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                           "high", "xhigh",   "max"};
  constexpr const char* kField = "reasoning_effort";
  constexpr const char* kSwitch = "enable_thinking";
  const std::optional<std::string> effort = fields.text(kField);
  if (!effort) return;
  if (std::find(std::begin(kEfforts), std::end(kEfforts), *effort) == std::end(kEfforts)) {
    throw bad_field(kField, fmt::format("is wrong: send {}", fmt::join(kEfforts, ", ")));
  }
  const std::string text = template_of(model);
  const auto knows = [&](const char* name) { return text.find(name) != text.npos; };
  const auto set = [&](const char* name, const nlohmann::json& value) {
    if (!variables.contains(name)) variables[name] = value;
  };
  if (HarmonyText::in_template(text) && *effort != "low" && *effort != "medium" &&
      *effort != "high") {
    throw bad_field(kField, "is not known to the model: send low, medium or high");
  }
  if (*effort == "none" && knows(kSwitch)) return set(kSwitch, false);
  if (knows(kField)) return set(kField, *effort);
  if (*effort == "medium" || !has_tags(text)) return;  // as it is; there is no reasoning
  throw bad_field(kField, knows(kSwitch) ? "is not known to the model's template: send none or "
                                           "medium, or leave it out"
                                         : "is not known to the model's template: leave it out");
}

void ReasoningReader::add(const HarmonyParts& parts) {
  reasoning_ += parts.analysis;
  content_ += parts.content;
}

void ReasoningReader::push(std::string_view text, std::string_view token) {
  if (harmony_) return add(channels_.push(text, token));
  pushed_ += text.size();
  held_ += text;
  if (place_ == Place::kStart && !start()) return;
  if (place_ == Place::kReasoning && !reason()) return;
  if (place_ == Place::kGap && !skip_space()) return;
  content_ += held_;
  held_.clear();
}

// Each of these returns whether the text has come past its place.
bool ReasoningReader::start() {
  const std::size_t solid = std::min(held_.find_first_not_of(kSpace), held_.size());
  const std::string_view rest = std::string_view(held_).substr(solid);
  if (rest.starts_with(kThink)) {
    held_.erase(0, solid + kThink.size());
    place_ = Place::kReasoning;
  } else if (kThink.starts_with(rest)) {
    return false;
  } else if (inside_) {
    place_ = Place::kReasoning;
  } else {
    place_ = Place::kContent;
    end_ = 0;
  }
  return true;
}

bool ReasoningReader::reason() {
  const std::size_t at = held_.find(kThought);
  const bool over = at != held_.npos;
  const std::size_t bytes = over ? at : held_.size() - begun(held_, kThought);
  add_reasoning(without_space_after(std::string_view(held_).substr(0, bytes)).size());
  if (!over) return false;
  held_.erase(0, held_.find(kThought) + kThought.size());
  end_ = pushed_ - held_.size();
  place_ = Place::kGap;
  return true;
}

// Space before the first solid byte belongs to the tag.
void ReasoningReader::add_reasoning(std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t from = began_ ? 0 : held_.find_first_not_of(kSpace);
  reasoning_.append(held_, from, bytes - from);
  held_.erase(0, bytes);
  began_ = true;
}

bool ReasoningReader::skip_space() {
  held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
  if (held_.empty()) return false;
  place_ = Place::kContent;
  return true;
}

void ReasoningReader::finish() {
  if (harmony_) return add(channels_.finish());
  if (place_ == Place::kStart && !inside_) {
    content_ += held_;
    end_ = 0;
  } else if (place_ == Place::kStart || place_ == Place::kReasoning) {
    add_reasoning(without_space_after(held_).size());
  }
  held_.clear();
}

std::string ReasoningReader::take_reasoning() { return std::exchange(reasoning_, {}); }

std::string ReasoningReader::take_content() { return std::exchange(content_, {}); }

}  // namespace forerun::serve
