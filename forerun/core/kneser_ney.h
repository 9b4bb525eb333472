#pragma once

#include <span>

#include "forerun/core/backoff_ngram.h"
#include "forerun/core/token.h"

namespace forerun {

/// Trigrams of documents, smoothed by modified Kneser-Ney with interpolation at every order; the
/// lowest is interpolated with the uniform law over all tokens seen, the end and the unknown one.
/// What lower orders count is the number of different tokens before; n-grams that begin a document
/// are counted as they are. An order with too few n-grams seen once to four times has the discounts
/// 0.5, 1, 1.5.
/// @param documents  each with the beginning before and the end behind; ids below 2^21 - 4
/// @throws std::invalid_argument  no document, or an id out of range
/// Source: Chen and Goodman 1998, TR-10-98, section 3; conventions of Heafield et al. 2013 (KenLM).
BackoffNgram estimate_kneser_ney(std::span<const std::span<const Token>> documents);

}  // namespace forerun
