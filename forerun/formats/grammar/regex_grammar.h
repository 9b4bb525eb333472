#pragma once

#include <string>
#include <string_view>

#include "forerun/base/result.h"
#include "forerun/core/reasoning.h"

namespace forerun {

/// The texts that a regular expression matches as a whole, as a grammar in xgrammar's EBNF: all of
/// them match by Python's re.fullmatch, with re.ASCII where it has \D, \W, [^\d] or [^\w].
/// Kept: characters, ., classes, \d \w \s and their opposites, escapes of single characters,
/// groups, |, repetitions up to 9,999 times, ^ at the beginning and $ at the end.
/// Errors: wrong syntax, anything else (lookaround, back-references, flags, word boundaries), and
/// expressions that would take long to compile; the message names it.
/// @param reasoning  which may come first, any text
Result<std::string> regex_grammar(std::string_view expression,
                                  ReasoningStart reasoning = ReasoningStart::kAfter);

}  // namespace forerun
