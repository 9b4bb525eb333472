#pragma once

#include <string>
#include <string_view>

#include "forerun/base/result.h"

namespace forerun::internal {

/// Character classes of the reference as ranges for a PCRE2 class. The reference cuts words with
/// Oniguruma (\s is Unicode's White_Space, letters and numbers are those of Unicode 16) and digits
/// with Rust's char::is_numeric (Unicode 17); Debian 12's PCRE2 10.42 knows Unicode 14 and has
/// U+180E in \s.
extern const std::string_view kWhiteSpaceRanges;
extern const std::string_view kLetterRanges;
extern const std::string_view kNumberRanges;
extern const std::string_view kNumericRanges;

/// A pattern of tokenizer.json (Oniguruma, Ruby syntax) as one for PCRE2 that matches the same.
/// Taken: literals, alternatives, classes, \s, \p{L} \p{N} \p{M} \p{P} \p{S} \p{Lu} \p{Ll} \p{Lt}
/// \p{Lm} \p{Lo} and their complements (those of \p outside of [ ] alone), \r \n \t,
/// escaped punctuation, quantifiers (greedy, lazy, possessive), ( (?: (?i: (?= and (?!. Error:
/// anything else, by name, since the two engines may differ on it.
Result<std::string> translate_regex(std::string_view pattern);

}  // namespace forerun::internal
