#pragma once

#include <cstdint>
#include <vector>

namespace forerun {

/// Keys and values of one image's known tokens in a causal network, and of its class. A value:
/// copies are independent.
class MarCache {
 public:
  /// Number of tokens whose rows are kept; the class's row comes before them.
  std::int64_t tokens() const noexcept { return rows_ > 0 ? rows_ - 1 : 0; }
  /// Nothing is kept, not even the class.
  bool empty() const noexcept { return rows_ == 0; }
  std::int64_t label() const noexcept { return label_; }
  /// Keeps the class and the first `tokens` tokens, if there are more.
  void truncate(std::int64_t tokens) noexcept {
    if (tokens >= 0 && rows_ > tokens + 1) rows_ = tokens + 1;
  }

 private:
  friend class MarNetwork;
  std::int64_t label_ = 0, rows_ = 0;
  std::vector<float> keys_, values_;  // [depth, tokens, hidden]
};

}  // namespace forerun
