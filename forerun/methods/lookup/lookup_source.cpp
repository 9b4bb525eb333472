#include "forerun/methods/lookup/lookup_source.h"

#include <algorithm>
#include <cmath>

#include "forerun/methods/lookup/match_cells.h"

namespace forerun {

HitRates LookupSource::rates() const { return MatchCells::rates(); }

bool LookupSource::begin(const TokenSequence& sequence) {
  text_ = sequence.tokens();
  SuffixIndex& index = indices_[sequence.id()];
  index.extend(text_);
  nodes_.clear();
  nodes_.push_back({.matches = index.all(text_), .path = {}});
  return !nodes_.front().matches.empty();
}

// Past the end of the text a match continues in the path itself, so a loop of any period is
// followed.
Token LookupSource::token_at(const Node& node, std::size_t index) const {
  return index < text_.size() ? text_[index] : node.path[index - text_.size()];
}

void LookupSource::add(std::size_t parent, Token token) {
  const Node& from = nodes_[parent];
  Node node{.matches = {}, .path = from.path};
  node.path.push_back(token);
  for (const SuffixIndex::Match& match : from.matches) {
    if (token_at(from, match.next) == token) {
      node.matches.push_back({match.next + 1, match.length + 1});
    }
  }
  nodes_.push_back(std::move(node));
}

void LookupSource::children(std::vector<TreeChild>& out) {
  struct Continuation {
    Token token;
    std::size_t length;  // of its longest match
    double weight;
  };
  const Node& node = nodes_.back();
  std::vector<Continuation> all;
  double sum = 0.0;
  for (const SuffixIndex::Match& match : node.matches) {
    const Token token = token_at(node, match.next);
    // A longer match tells much more.
    const double weight = std::exp2(static_cast<double>(std::min<std::size_t>(match.length, 32)));
    sum += weight;
    const auto at = std::find_if(all.begin(), all.end(),
                                 [&](const Continuation& c) { return c.token == token; });
    if (at == all.end()) {
      all.push_back({token, match.length, weight});
    } else {
      at->length = std::max(at->length, match.length);
      at->weight += weight;
    }
  }
  const std::size_t most = std::min(all.size(), MatchCells::kRanks);
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most), all.end(),
                    [](const Continuation& a, const Continuation& b) {
                      return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
                    });
  for (std::size_t rank = 0; rank < most; ++rank) {
    out.push_back({.token = all[rank].token,
                   .cell = MatchCells::cell(all[rank].length, all[rank].weight / sum, rank)});
  }
}

}  // namespace forerun
