#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/hit_rates.h"
#include "forerun/core/rng_key.h"
#include "forerun/methods/sam/corpus_index.h"

namespace forerun {

/// The likeliest tokens after a text, by what followed its ends in a corpus.
struct FollowerEstimates {
  struct Estimate {
    Token token = 0;
    double probability = 0.0;
  };
  static constexpr std::size_t kMost = 8;
  static constexpr std::size_t kAll = 4 * CorpusIndex::kFollowers;

  std::array<Estimate, kAll> best{};  ///< by falling probability
  std::size_t size = 0;
  std::size_t length = 0;  ///< of the longest end that occurs

  std::span<const Estimate> all() const noexcept { return {best.data(), size}; }
  /// Puts the likeliest `most` in order, the lower token first among equals; the others go.
  void keep_best(std::size_t most);
};

/// Of all ends that occur, the longest first: each gives its followers by their counts less a
/// discount, and leaves what the discounts add up to for the shorter ones.
/// Source: interpolated absolute discounting, Ney et al. 1994; Chen and Goodman 1999.
/// @param most  tokens, at most kAll
FollowerEstimates estimate_followers(const CorpusIndex& index, std::span<const Token> text,
                                     std::size_t most = FollowerEstimates::kMost);

/// How likely each token is the output, now that the noise of its position is known: the output is
/// argmax log p + g, of which the estimates stand for log p up to an error of some nats. Tokens
/// that are not estimated win with what the estimates leave. Keeps the likeliest kMost.
/// Source: Gumbel-max, Maddison et al. 2014, arXiv:1411.0030, section 2.
/// @param temperature  of the output, above 0
void weigh_by_noise(FollowerEstimates& estimates, float temperature, const RngKey& position);

/// What is known of an estimated token: length of the longest end, the estimate, its rank.
struct EstimateCells {
  static HitRates rates();
  /// @param length   at least 1
  /// @param weighed  by noise
  static HitRates::Cell cell(std::size_t length, double probability, std::size_t rank,
                             bool weighed);
};

}  // namespace forerun
