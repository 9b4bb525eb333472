#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace forerun {

/// Bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin, end;
};

/// A text with ranges that came from a caller: nothing in them is parsed as a special token.
struct MarkedText {
  std::string text;
  std::vector<TextRange> plain;  ///< rising, apart
};

}  // namespace forerun
