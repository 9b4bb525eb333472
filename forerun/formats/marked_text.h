#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace forerun {

/// Bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin, end;
};

/// A text of which some parts are somebody else's words: nothing in them is a special token,
/// whatever they spell.
struct MarkedText {
  std::string text;
  std::vector<TextRange> plain;  ///< rising, apart
};

}  // namespace forerun
