#include "forerun/methods/diffuspec/path_search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace forerun {
namespace {

// An open or ended path while the search runs.
struct Beam {
  DraftPath path;
  bool ended = false;
};

// What becomes of a beam at a place: it stays as it has ended, or gets a token.
struct Step {
  std::size_t beam = 0;
  std::optional<Token> token;
  double score = 0.0, worth = 0.0;
};

double worth(double score, std::size_t tokens, const PathSearchOptions& options) {
  return options.per_token ? score / static_cast<double>(tokens) : score;
}

Beam longer(const Beam& beam, const Step& step, const std::function<bool(Token)>& ends) {
  Beam out = beam;
  if (!step.token) return out;
  out.path.tokens.push_back(*step.token);
  out.path.score = step.score;
  out.ended = ends(*step.token);
  return out;
}

}  // namespace

Token token_before(std::span<const Token> text, const std::vector<Token>& path, std::size_t back) {
  if (back <= path.size()) return path[path.size() - back];
  const std::size_t in_text = back - path.size();
  return in_text <= text.size() ? text[text.size() - in_text] : NgramLaw::kNoToken;
}

void cut_place(Place& place, const PathSearchOptions& options,
               const std::function<bool(Token)>& ends) {
  std::size_t keep = 0;
  for (double mass = 0.0; keep < std::min(place.size(), options.most) && mass < options.mass;) {
    mass += std::exp(place[keep++].log_q);
  }
  const auto first = place.begin() + static_cast<std::ptrdiff_t>(keep);
  place.erase(std::remove_if(first, place.end(),
                             [&](const PlaceToken& candidate) { return !ends(candidate.token); }),
              place.end());
}

std::vector<DraftPath> search_paths(std::span<const Place> places, std::span<const Token> text,
                                    const NgramLaw& law, const std::function<bool(Token)>& ends,
                                    const PathSearchOptions& options) {
  std::vector<Beam> beams(1);
  for (const Place& place : places) {
    std::vector<Token> tokens;
    for (const PlaceToken& candidate : place) tokens.push_back(candidate.token);
    std::vector<Step> steps;
    for (std::size_t b = 0; b < beams.size(); ++b) {
      const DraftPath& path = beams[b].path;
      if (beams[b].ended) {
        steps.push_back({b, {}, path.score, worth(path.score, path.tokens.size(), options)});
        continue;
      }
      const std::vector<double> ngram = law.log_probs(token_before(text, path.tokens, 2),
                                                      token_before(text, path.tokens, 1), tokens);
      for (std::size_t i = 0; i < place.size(); ++i) {
        const double score = path.score + path_score(place[i].log_q, ngram[i], options);
        steps.push_back({b, tokens[i], score, worth(score, path.tokens.size() + 1, options)});
      }
    }
    // Stable: equal paths stay in the order of their tokens' ranks.
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.worth > b.worth; });
    steps.resize(std::min(steps.size(), options.beams));
    std::vector<Beam> next;
    for (const Step& step : steps) next.push_back(longer(beams[step.beam], step, ends));
    beams = std::move(next);
    if (std::all_of(beams.begin(), beams.end(), [](const Beam& beam) { return beam.ended; })) break;
  }
  std::vector<DraftPath> out;
  for (Beam& beam : beams) {
    if (!beam.path.tokens.empty()) out.push_back(std::move(beam.path));
  }
  return out;
}

}  // namespace forerun
