#include "forerun/methods/diffuspec/diffuspec_source.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace forerun {
namespace {

bool begins_with(const std::vector<Token>& path, const std::vector<Token>& beginning) {
  return path.size() > beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), path.begin());
}

}  // namespace

std::size_t DiffuSpecSource::slots_of(const TokenSequence& sequence) {
  id_ = sequence.id();
  paths_.clear();
  return texts_.predicted(id_);
}

void DiffuSpecSource::search() {
  const DiffuSpec& method = texts_.method();
  const auto ends = [&](Token t) { return method.ends(t); };
  std::vector<Place> places;
  for (std::size_t i = 0; i < texts_.predicted(id_); ++i) {
    Place place;
    for (const Ranked& r : candidates(i, SlotCandidates::kDrafted.most)) {
      place.push_back({r.token, std::log(std::max(r.score, std::numeric_limits<double>::min()))});
    }
    if (place.empty()) break;  // scores that are not numbers
    cut_place(place, method.options.search, ends);
    places.push_back(std::move(place));
  }
  paths_ = search_paths(places, sequence().tokens(), texts_.law(sequence()), ends,
                        method.options.search);
}

void DiffuSpecSource::weigh(const Node& node, std::vector<Ranked>& candidates) {
  const DiffuSpec& method = texts_.method();
  if (node.depth > 0 && method.ends(node.token)) {
    candidates.clear();
    return;
  }
  if (!method.searches()) return;
  if (node.depth == 0) search();
  if (method.options.search.linear) add_followers(node, candidates);
  std::vector<Token> next;
  for (const Ranked& r : candidates) next.push_back(r.token);
  std::vector<double> weights = texts_.law(sequence()).probs(before(node), node.token, next);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    weights[i] = path_weight(candidates[i].q, weights[i], method.options.search);
  }
  reweigh(candidates, weights);
}

std::optional<Token> DiffuSpecSource::preferred(const Node& node) const {
  const std::vector<Token> path = path_to(node);
  for (const DraftPath& found : paths_) {
    if (begins_with(found.tokens, path)) return found.tokens[path.size()];
  }
  return {};
}

double DiffuSpecSource::confidence(const Node& node, Token first) const {
  if (paths_.empty()) return 0.0;
  std::vector<Token> path = path_to(node);
  path.push_back(first);
  const auto agree = std::count_if(paths_.begin(), paths_.end(), [&](const DraftPath& found) {
    return found.tokens == path || begins_with(found.tokens, path);
  });
  return static_cast<double>(agree) / static_cast<double>(paths_.size());
}

}  // namespace forerun
