#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "forerun/core/hit_rates.h"

namespace forerun {

/// What is known of a token that followed earlier occurrences of a text's end: how long the match
/// is, how many of its continuations the token has, its rank among them.
struct MatchCells {
  static constexpr std::size_t kLengths = 8, kShares = 4, kRanks = 4;

  static HitRates rates() {
    // Of a token after a match of 1, 2, 3, 4 to 5, 6 to 9, 10 to 17, 18 to 33, more tokens; by its
    // share.
    constexpr std::array<double, kLengths> kByLength = {0.1, 0.3, 0.45, 0.6, 0.75, 0.85, 0.9, 0.95};
    constexpr std::array<double, kShares> kByShare = {1.0, 0.7, 0.4, 0.15};
    std::vector<double> priors;
    for (const double by_length : kByLength) {
      for (const double by_share : kByShare) priors.push_back(by_length * by_share);
    }
    return {kLengths * kShares * kRanks, priors};
  }
  /// @param length  of the match, at least 1
  static HitRates::Cell cell(std::size_t length, double share, std::size_t rank) {
    const std::size_t group = length_bin(length) * kShares + share_bin(share);
    return {static_cast<std::uint16_t>(group * kRanks + std::min(rank, kRanks - 1)),
            static_cast<std::uint16_t>(group)};
  }

 private:
  static std::size_t length_bin(std::size_t length) {
    if (length < 4) return length - 1;
    return std::min(kLengths - 1, static_cast<std::size_t>(std::bit_width(length - 2)) + 1);
  }
  static std::size_t share_bin(double share) {
    return share > 0.95 ? 0 : share > 0.6 ? 1 : share > 0.3 ? 2 : 3;
  }
};

}  // namespace forerun
