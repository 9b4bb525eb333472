#include "forerun/formats/tokenizer/internal/splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "forerun/formats/tokenizer/internal/regex_syntax.h"

namespace forerun::internal {
namespace {

// Source: openai/gpt-2, encoder.py.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Part {
  Range range;
  bool is_match;
};

// The whole text, cut at the matches' ends.
std::vector<Part> parts_of(std::string_view text, const std::vector<Range>& matches, bool invert) {
  std::vector<Part> out;
  std::size_t end = 0;
  for (const Range m : matches) {
    if (m.begin > end) out.push_back({{end, m.begin}, invert});
    out.push_back({m, !invert});
    end = m.end;
  }
  if (end < text.size()) out.push_back({{end, text.size()}, invert});
  return out;
}

// Joins neighbours as Hugging Face's SplitDelimiterBehavior says; kRemoved has been dealt with.
std::vector<Range> join(const std::vector<Part>& parts, Split::Keep keep) {
  std::vector<Range> out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool match = parts[i].is_match;
    const bool before = i > 0 && parts[i - 1].is_match;
    bool joins = false;  // the part before
    if (keep == Split::Keep::kContiguous) joins = i > 0 && match == before;
    if (keep == Split::Keep::kWithPrevious) joins = i > 0 && match && !before;
    // A match joins what follows unless that is a match itself.
    if (keep == Split::Keep::kWithNext) joins = i > 0 && before && !match;
    if (joins) {
      out.back().end = parts[i].range.end;
    } else {
      out.push_back(parts[i].range);
    }
  }
  return out;
}

std::vector<Range> find_all(std::string_view text, std::string_view needle) {
  std::vector<Range> out;
  if (needle.empty()) return out;
  for (std::size_t at = text.find(needle); at != text.npos;
       at = text.find(needle, at + needle.size())) {
    out.push_back({at, at + needle.size()});
  }
  return out;
}

std::vector<Range> cut(std::string_view text, const std::vector<Range>& matches, Split::Keep keep,
                       bool invert) {
  std::vector<Part> parts = parts_of(text, matches, invert);
  if (keep == Split::Keep::kRemoved) std::erase_if(parts, [](const Part& p) { return p.is_match; });
  return join(parts, keep == Split::Keep::kRemoved ? Split::Keep::kIsolated : keep);
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t end = 0;
  for (const Range m : find_all(text, from)) {
    out += text.substr(end, m.begin - end);
    out += to;
    end = m.end;
  }
  out += text.substr(end);
  return out;
}

// What a step changes in a word before cutting it.
std::string rewrite(const SplitStep& step, std::string word, bool at_start) {
  if (const auto* bytes = std::get_if<ByteLevel>(&step)) {
    if (bytes->add_prefix_space && !word.starts_with(' ')) word.insert(0, 1, ' ');
  } else if (const auto* meta = std::get_if<Metaspace>(&step)) {
    word = replace_all(word, " ", meta->replacement);
    const bool wanted = meta->prepend == Metaspace::PrependTo::kEvery ||
                        (meta->prepend == Metaspace::PrependTo::kFirst && at_start);
    if (wanted && !word.starts_with(meta->replacement)) word.insert(0, meta->replacement);
  }
  return word;
}

std::vector<Range> cut_word(const SplitStep& step, const std::vector<Regex>& regex,
                            std::string_view word) {
  const std::vector<Range> whole = {{0, word.size()}};
  const auto cut_by = [&](const auto& s) -> std::vector<Range> {
    using T = std::decay_t<decltype(s)>;
    if constexpr (std::is_same_v<T, Split>) {
      return cut(word, s.is_regex ? regex.front().matches(word) : find_all(word, s.pattern), s.keep,
                 s.invert);
    } else if constexpr (std::is_same_v<T, Digits>) {
      const auto keep = s.individual ? Split::Keep::kIsolated : Split::Keep::kContiguous;
      return cut(word, regex.front().matches(word), keep, false);
    } else if constexpr (std::is_same_v<T, ByteLevel>) {
      return s.use_regex ? cut(word, regex.front().matches(word), Split::Keep::kIsolated, false)
                         : whole;
    } else {
      return s.split ? cut(word, find_all(word, s.replacement), Split::Keep::kWithNext, false)
                     : whole;
    }
  };
  return std::visit(cut_by, step);
}

// The pattern of a step, in PCRE2's syntax; empty if it needs none.
Result<std::string> pattern_of(const SplitStep& step) {
  if (const auto* split = std::get_if<Split>(&step); split != nullptr && split->is_regex) {
    return translate_regex(split->pattern);
  }
  if (std::holds_alternative<Digits>(step)) return fmt::format("[{}]", kNumericRanges);
  if (const auto* bytes = std::get_if<ByteLevel>(&step); bytes != nullptr && bytes->use_regex) {
    return translate_regex(kGpt2Pattern);
  }
  return std::string();
}

}  // namespace

Result<Splitter> Splitter::make(const std::vector<SplitStep>& steps) {
  Splitter out;
  for (const SplitStep& step : steps) {
    const Result<std::string> pattern = pattern_of(step);
    if (!pattern) return pattern.error();
    Stage stage{step, {}};
    if (!pattern->empty()) {
      Result<Regex> regex = Regex::compile(*pattern);
      if (!regex) return regex.error();
      stage.regex.push_back(*std::move(regex));
    } else if (const auto* split = std::get_if<Split>(&step); split != nullptr && split->is_regex) {
      return Error{"a split pattern is empty"};
    }
    out.stages_.push_back(std::move(stage));
  }
  return out;
}

std::vector<std::string> Splitter::words(std::string_view text, bool at_start) const {
  std::vector<std::string> words;
  if (!text.empty()) words.emplace_back(text);
  for (const Stage& stage : stages_) {
    std::vector<std::string> next;
    for (std::string& word : words) {
      const std::string whole =
          rewrite(stage.step, std::move(word), at_start && &word == words.data());
      for (const Range r : cut_word(stage.step, stage.regex, whole)) {
        if (r.end > r.begin) next.emplace_back(whole, r.begin, r.end - r.begin);
      }
    }
    words = std::move(next);
  }
  return words;
}

}  // namespace forerun::internal
