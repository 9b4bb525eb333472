#include "forerun/methods/sam/sam_source.h"

#include <algorithm>

#include "forerun/methods/lookup/match_cells.h"

namespace forerun {
namespace {

constexpr std::size_t kLevels = 6;     // ends of the text, the longest first
constexpr std::size_t kFollowers = 4;  // of an end
constexpr std::size_t kMost = 8;       // candidates of a node
}  // namespace

HitRates SamSource::rates() const { return MatchCells::rates(); }

bool SamSource::begin(const TokenSequence& sequence) {
  SuffixAutomaton& automaton = texts_[sequence.id()];
  automaton.extend(sequence.tokens());
  automaton_ = &automaton;
  nodes_.assign(1, automaton.repeated());
  return nodes_.front().length > 0;
}

void SamSource::add(std::size_t parent, Token token) {
  nodes_.push_back(automaton_->step(nodes_[parent], token));
}

// The followers of the longest match, most frequent first, then those of shorter ones.
void SamSource::children(std::vector<TreeChild>& out) {
  struct Follower {
    Token token;
    std::uint32_t count;
  };
  const std::size_t first = out.size();
  SuffixAutomaton::Match match = nodes_.back();
  for (std::size_t level = 0; level < kLevels && match.length > 0;
       ++level, match = automaton_->shorter(match)) {
    std::vector<Follower> followers;
    double sum = 0.0;
    for (const Token token : automaton_->followers(match.state)) {
      followers.push_back({token, automaton_->occurrences(automaton_->next(match.state, token))});
      sum += followers.back().count;
    }
    const std::size_t most = std::min(followers.size(), kFollowers);
    std::partial_sort(followers.begin(), followers.begin() + static_cast<std::ptrdiff_t>(most),
                      followers.end(), [](const Follower& a, const Follower& b) {
                        return a.count != b.count ? a.count > b.count : a.token < b.token;
                      });
    for (std::size_t rank = 0; rank < most; ++rank) {
      if (out.size() - first == kMost) return;
      const Follower& f = followers[rank];
      const bool there = std::any_of(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                                     [&](const TreeChild& c) { return c.token == f.token; });
      if (there) continue;
      out.push_back(
          {.token = f.token,
           .cell = MatchCells::cell(match.length, f.count / std::max(1.0, sum), level + rank)});
    }
  }
}

}  // namespace forerun
