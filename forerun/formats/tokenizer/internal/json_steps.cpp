#include "forerun/formats/tokenizer/internal/json_steps.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "forerun/base/json_text.h"
#include "forerun/base/quote.h"

namespace forerun::internal {
namespace {

using nlohmann::json;

std::string type_of(const json& step) {
  Result<std::string> type = json_field<std::string>(step, "type");
  return type ? *std::move(type) : std::string();
}

// The steps of a Sequence, of one inside it, or the step itself. Depth is bounded by parse_json.
void flatten(const json& step, std::string_view list, std::vector<json>& out) {
  if (step.is_null()) return;
  if (type_of(step) == "Sequence" && step.contains(list) && step[std::string(list)].is_array()) {
    for (const json& inner : step[std::string(list)]) flatten(inner, list, out);
  } else {
    out.push_back(step);
  }
}

std::vector<json> steps_of(const json& root, std::string_view list) {
  std::vector<json> out;
  flatten(root, list, out);
  return out;
}

struct Pattern {
  std::string text;
  bool is_regex;
};

Result<Pattern> pattern_of(const json& step) {
  const auto found = step.find("pattern");
  if (found != step.end() && found->is_object()) {
    if (Result<std::string> text = json_field<std::string>(*found, "Regex"))
      return Pattern{*std::move(text), true};
    if (Result<std::string> text = json_field<std::string>(*found, "String"))
      return Pattern{*std::move(text), false};
  }
  return Error{"'pattern' must be {\"Regex\": \"...\"} or {\"String\": \"...\"}"};
}

Result<NormalizeStep> normalize_step(const json& step) {
  const std::string type = type_of(step);
  if (type == "NFC") return NormalizeStep(Nfc{});
  if (type == "Prepend") {
    Result<std::string> text = json_field<std::string>(step, "prepend");
    if (!text) return text.error();
    return NormalizeStep(Prepend{*std::move(text)});
  }
  if (type == "Replace") {
    Result<Pattern> pattern = pattern_of(step);
    if (!pattern) return pattern.error();
    if (pattern->is_regex) return Error{"Replace takes a String pattern here, not a Regex"};
    Result<std::string> content = json_field<std::string>(step, "content");
    if (!content) return content.error();
    return NormalizeStep(Replace{pattern->text, *std::move(content)});
  }
  return Error{fmt::format("{} is not supported; supported are NFC, Replace, Prepend, Sequence",
                           quote(type))};
}

Result<SplitStep> split_step(const json& step) {
  Result<Pattern> pattern = pattern_of(step);
  if (!pattern) return pattern.error();
  Result<std::string> behavior = json_field<std::string>(step, "behavior");
  if (!behavior) return behavior.error();
  Result<bool> invert = json_field_or<bool>(step, "invert", false);
  if (!invert) return invert.error();
  using Keep = Split::Keep;
  constexpr std::pair<std::string_view, Keep> kNames[] = {
      {"Isolated", Keep::kIsolated},
      {"Removed", Keep::kRemoved},
      {"MergedWithPrevious", Keep::kWithPrevious},
      {"MergedWithNext", Keep::kWithNext},
      {"Contiguous", Keep::kContiguous}};
  for (const auto& [name, keep] : kNames) {
    if (name == *behavior) return SplitStep(Split{pattern->text, pattern->is_regex, keep, *invert});
  }
  return Error{fmt::format("Split behavior {} is not known", quote(*behavior))};
}

Result<SplitStep> metaspace_step(const json& step) {
  Result<std::string> replacement = json_field_or<std::string>(step, "replacement", "\u2581");
  Result<bool> split = json_field_or<bool>(step, "split", true);
  Result<bool> add_prefix =
      json_field_or<bool>(step, "add_prefix_space", true);  // before tokenizers 0.15
  if (!replacement || !split || !add_prefix) return Error{"Metaspace has a field of another type"};
  using To = Metaspace::PrependTo;
  Result<std::string> scheme =
      json_field_or<std::string>(step, "prepend_scheme", *add_prefix ? "always" : "never");
  if (!scheme) return scheme.error();
  if (*scheme != "always" && *scheme != "first" && *scheme != "never") {
    return Error{fmt::format("Metaspace prepend_scheme {} is not known", quote(*scheme))};
  }
  if (*replacement != "\u2581") return Error{"Metaspace replacement must be U+2581"};
  const To prepend = *scheme == "always" ? To::kEvery : *scheme == "first" ? To::kFirst : To::kNone;
  return SplitStep(Metaspace{*replacement, prepend, *split});
}

Result<SplitStep> any_split_step(const json& step) {
  const std::string type = type_of(step);
  if (type == "Split") return split_step(step);
  if (type == "Metaspace") return metaspace_step(step);
  if (type == "Digits") {
    const Result<bool> individual = json_field_or<bool>(step, "individual_digits", false);
    if (!individual) return individual.error();
    return SplitStep(Digits{*individual});
  }
  if (type == "ByteLevel") {
    const Result<bool> prefix = json_field_or<bool>(step, "add_prefix_space", true);
    const Result<bool> regex = json_field_or<bool>(step, "use_regex", true);
    if (!prefix || !regex) return Error{"ByteLevel has a field of another type"};
    return SplitStep(ByteLevel{*prefix, *regex});
  }
  return Error{fmt::format(
      "{} is not supported; supported are Split, Digits, ByteLevel, Metaspace, Sequence",
      quote(type))};
}

}  // namespace

Result<std::vector<NormalizeStep>> normalize_steps(const json& normalizer) {
  std::vector<NormalizeStep> out;
  for (const json& step : steps_of(normalizer, "normalizers")) {
    Result<NormalizeStep> one = normalize_step(step);
    if (!one) return Error{"normalizer: " + one.error().message};
    out.push_back(*std::move(one));
  }
  return out;
}

Result<std::vector<SplitStep>> split_steps(const json& pre_tokenizer) {
  std::vector<SplitStep> out;
  for (const json& step : steps_of(pre_tokenizer, "pretokenizers")) {
    Result<SplitStep> one = any_split_step(step);
    if (!one) return Error{"pre_tokenizer: " + one.error().message};
    // Splitting after ByteLevel would see its alphabet instead of the text.
    if (!out.empty() && std::holds_alternative<ByteLevel>(out.back())) {
      return Error{"pre_tokenizer: ByteLevel must be the last step"};
    }
    out.push_back(*std::move(one));
  }
  return out;
}

bool drops_first_space(const json& decoder) {
  for (const json& step : steps_of(decoder, "decoders")) {
    if (type_of(step) == "Metaspace") {
      const Result<SplitStep> meta = metaspace_step(step);
      return meta && std::get<Metaspace>(*meta).prepend != Metaspace::PrependTo::kNone;
    }
    const Result<std::string> content = json_field_or<std::string>(step, "content", "");
    const Result<std::int64_t> start = json_field_or<std::int64_t>(step, "start", 0);
    if (type_of(step) == "Strip" && content && *content == " " && start && *start > 0) return true;
  }
  return false;
}

}  // namespace forerun::internal
