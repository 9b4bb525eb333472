#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "forerun/core/token.h"

namespace forerun::internal {

/// What two neighbouring tokens merge into; the lowest rank goes first.
struct Merge {
  std::uint32_t rank;
  Token into;
};

class MergeTable {
 public:
  void reserve(std::size_t n) { table_.reserve(n); }
  void insert(Token left, Token right, Merge merge) { table_[key(left, right)] = merge; }
  const Merge* find(Token left, Token right) const {
    const auto found = table_.find(key(left, right));
    return found == table_.end() ? nullptr : &found->second;
  }

 private:
  static std::uint64_t key(Token left, Token right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }
  std::unordered_map<std::uint64_t, Merge> table_;
};

/// Byte pair encoding: merges the pair of the lowest rank, leftmost first, until none is left.
/// Takes n log n steps for n symbols. Source: Sennrich et al. 2016, arXiv:1508.07909.
std::vector<Token> apply_merges(const std::vector<Token>& symbols, const MergeTable& table);

}  // namespace forerun::internal
