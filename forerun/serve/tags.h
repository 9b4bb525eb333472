#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace forerun::serve {

/// Bytes at the end of `text` that `tag` may begin with.
inline std::size_t begun(std::string_view text, std::string_view tag) {
  for (std::size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace forerun::serve
