#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/base/huge_pages.h"
#include "forerun/core/token.h"

namespace forerun {

/// Stands before every document of a text of several; no token.
inline constexpr Token kDocumentStart = -1;

/// The places of a text in the order of what they end: by the token there, then the one before it,
/// and so on, to the start of the document. It is the suffix array of the reversed text.
/// Places whose last `depth` tokens are equal stay in any order. Time n log n log(depth), whatever
/// repeats.
/// Source: Larsson and Sadakane 2007, "Faster suffix sorting".
/// @param text   tokens below `vocab`, kDocumentStart at the first place
/// @param depth  tokens that are compared, a power of two
/// @return       every place of the text once, document starts first
HugeVector<std::uint32_t> context_order(std::span<const Token> text, std::size_t vocab,
                                        std::size_t depth);

}  // namespace forerun
