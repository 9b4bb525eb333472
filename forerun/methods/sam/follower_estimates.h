#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/hit_rates.h"
#include "forerun/methods/sam/corpus_index.h"

namespace forerun {

/// The likeliest tokens after a text, by what followed its ends in a corpus.
struct FollowerEstimates {
  struct Estimate {
    Token token = 0;
    double probability = 0.0;
  };
  static constexpr std::size_t kMost = 8;

  std::array<Estimate, kMost> best{};  ///< by falling probability
  std::size_t size = 0;
  std::size_t length = 0;  ///< of the longest end that occurs

  std::span<const Estimate> all() const noexcept { return {best.data(), size}; }
};

/// Of all ends that occur, the longest first: each gives its followers by their counts less a
/// discount, and leaves what the discounts add up to for the shorter ones.
/// Source: interpolated absolute discounting, Ney et al. 1994; Chen and Goodman 1999.
FollowerEstimates estimate_followers(const CorpusIndex& index, std::span<const Token> text);

/// What is known of an estimated token: length of the longest end, the estimate, its rank.
struct EstimateCells {
  static HitRates rates();
  /// @param length  at least 1
  static HitRates::Cell cell(std::size_t length, double probability, std::size_t rank);
};

}  // namespace forerun
