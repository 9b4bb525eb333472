#include "forerun/formats/grammar/regex_grammar.h"

#include <fmt/format.h>

#include "forerun/formats/grammar/internal/after_reasoning.h"
#include "forerun/formats/grammar/internal/channels.h"
#include "forerun/formats/grammar/internal/regex_tree.h"

namespace forerun {
namespace {

constexpr std::size_t kMostRegexBytes = 8192;

}  // namespace

Result<std::string> regex_grammar(std::string_view expression, ReasoningStart reasoning) {
  const auto wrong = [](const std::string& what) {
    return Error{"regular expression: it " + what};
  };
  if (expression.size() > kMostRegexBytes) {
    return wrong(fmt::format("has {} bytes: {} at most", expression.size(), kMostRegexBytes));
  }
  Result<internal::RegexTree> regex = internal::parse_regex(expression, internal::RegexUse::kWhole);
  if (regex && reasoning == ReasoningStart::kChannels) {
    regex = internal::without(*regex, internal::kTagMark);
  }
  if (!regex) return wrong(regex.error().message);
  if (!internal::size_of(*regex).is_fair()) {
    return wrong("is too large: bound its repetitions by less, or nest fewer optional parts");
  }
  return internal::after_reasoning(fmt::format("root ::= {}\n", internal::ebnf_of(*regex)),
                                   reasoning);
}

}  // namespace forerun
