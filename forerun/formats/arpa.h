#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "forerun/base/result.h"
#include "forerun/core/backoff_ngram.h"

namespace forerun {

/// N-grams of token ids as an ARPA file: words are decimal ids, <s>, </s> and <unk>; probabilities
/// and back-off weights log10, seven digits. Orders 1 to 3. N-grams are sorted by their ids.
/// Source: the format of the CMU and SRI toolkits, as KenLM reads it.
std::string to_arpa(const BackoffNgram& law);

/// Reads one. What stands before \data\ is skipped.
Result<BackoffNgram> parse_arpa(std::string_view text);

/// @throws FormatError  the path, the line, and what is wrong there
BackoffNgram load_arpa(const std::filesystem::path& path);

}  // namespace forerun
