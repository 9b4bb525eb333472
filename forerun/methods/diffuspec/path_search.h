#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "forerun/core/log_sum_exp.h"
#include "forerun/core/ngram_law.h"
#include "forerun/core/token.h"

namespace forerun {

/// A token that may stand at a place.
struct PlaceToken {
  Token token = 0;
  double log_q = 0.0;  ///< of the place alone, in nats
};
/// The candidates of a place, by falling log_q.
using Place = std::vector<PlaceToken>;

struct PathSearchOptions {
  std::size_t beams = 3;
  double mass = 0.8;      ///< candidates of a place: the fewest that have so much of it,
  std::size_t most = 15;  ///< at most so many
  double marginal = 0.5;  ///< weight of the place; the n-gram law has the rest
  /// Their weighted mean. False: that of their logarithms, as the paper prints it; a token that one
  /// of them finds unlikely is then never drafted.
  bool linear = true;
  bool per_token = true;  ///< compares paths of different lengths by score a token, else by score
};

/// Tokens of a path and the sum of their scores.
struct DraftPath {
  std::vector<Token> tokens;
  double score = 0.0;
};

/// Cuts the candidates of a place to the fewest that have the mass wanted. Tokens that end a text
/// stay.
void cut_place(Place& place, const PathSearchOptions& options,
               const std::function<bool(Token)>& ends);

/// The paths through the places that marginals and n-grams together find best, from left to right
/// with a beam; a token that ends a text ends its path. Of equal paths the one whose tokens are
/// likelier in their places is first.
/// @param places  cut; none empty
/// @param text    before the places
/// @return        at most options.beams, the best first
/// Source: DiffuSpec, arXiv:2510.02358, section 3 (causal-consistency path search).
std::vector<DraftPath> search_paths(std::span<const Place> places, std::span<const Token> text,
                                    const NgramLaw& law, const std::function<bool(Token)>& ends,
                                    const PathSearchOptions& options);

/// The token `back` places before the end of text and path, whose last one has 1; kNoToken before
/// the text.
Token token_before(std::span<const Token> text, const std::vector<Token>& path, std::size_t back);

/// Score of a token: log-probabilities of its place and of the n-gram law, combined.
inline double path_score(double log_q, double log_ngram, const PathSearchOptions& options) {
  const double w = options.marginal;
  return options.linear ? log_mix(w, log_q, log_ngram) : w * log_q + (1.0 - w) * log_ngram;
}
/// Its exponential, of the probabilities themselves.
inline double path_weight(double q, double ngram, const PathSearchOptions& options) {
  const double w = options.marginal;
  return options.linear ? w * q + (1.0 - w) * ngram : std::pow(q, w) * std::pow(ngram, 1.0 - w);
}

}  // namespace forerun
