#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "forerun/core/token.h"

namespace forerun::internal {

/// A set of byte strings, for finding the longest one that a text starts with.
class Trie {
 public:
  struct Match {
    Token id;
    std::size_t size;  ///< bytes
  };

  void insert(std::string_view key,
              Token id);  ///< of equal keys the last one counts; empty ones are ignored
  bool empty() const noexcept { return ids_.empty(); }

  /// The longest key that `text` starts with.
  std::optional<Match> longest_prefix(std::string_view text) const;

 private:
  static constexpr Token kNone = -1;
  static std::uint64_t edge(std::size_t node, char byte) {
    return (std::uint64_t{node} << 8) | static_cast<unsigned char>(byte);
  }

  std::unordered_map<std::uint64_t, std::size_t> next_;  // (node, byte) to node; node 0 is the root
  std::vector<Token> ids_;                               // [nodes]
  std::array<bool, 256> starts_{};                       // bytes that some key begins with
};

}  // namespace forerun::internal
