#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "forerun/formats/tokenizer/tokenizer.h"

namespace forerun {

/// How two vocabularies differ, in one line, or none if every id stands for the same piece in both:
/// a drafter's tokens mean nothing to a target with another vocabulary.
/// @param shown  how many differing ids to quote
std::optional<std::string> vocabulary_difference(const Tokenizer& a, const Tokenizer& b,
                                                 std::size_t shown = 3);

/// A hash of all pieces in order: equal if the vocabularies do not differ.
std::string vocabulary_hash(const Tokenizer& tokenizer);

/// How `other` differs from a vocabulary that has all of `a`, in one line, or none if it has: it
/// may have tokens beyond the end of `a`.
std::optional<std::string> missing_of(const Tokenizer& a, const Tokenizer& other,
                                      std::size_t shown = 3);

}  // namespace forerun
