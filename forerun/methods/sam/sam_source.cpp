#include "forerun/methods/sam/sam_source.h"

#include <algorithm>
#include <array>
#include <bit>

namespace forerun {
namespace {

constexpr std::size_t kLengths = 8, kShares = 4, kRanks = 4;
constexpr std::size_t kLevels = 6;     // ends of the text, the longest first
constexpr std::size_t kFollowers = 4;  // of an end
constexpr std::size_t kMost = 8;       // candidates of a node
// Of a token after a match of 1, 2, 3, 4 to 5, 6 to 9, 10 to 17, 18 to 33, more tokens; by its
// share of the occurrences.
constexpr std::array<double, kLengths> kByLength = {0.1, 0.3, 0.45, 0.6, 0.75, 0.85, 0.9, 0.95};
constexpr std::array<double, kShares> kByShare = {1.0, 0.7, 0.4, 0.15};

std::size_t length_bin(std::size_t match) {
  return match < 4 ? match - 1
                   : std::min<std::size_t>(kLengths - 1,
                                           static_cast<std::size_t>(std::bit_width(match - 2)) + 1);
}
std::size_t share_bin(double share) {
  return share > 0.95 ? 0 : share > 0.6 ? 1 : share > 0.3 ? 2 : 3;
}

}  // namespace

HitRates SamSource::rates() const {
  std::vector<double> priors;
  for (const double by_length : kByLength) {
    for (const double by_share : kByShare) priors.push_back(by_length * by_share);
  }
  return {kLengths * kShares * kRanks, priors};
}

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
      const std::size_t group =
          length_bin(match.length) * kShares + share_bin(f.count / std::max(1.0, sum));
      out.push_back(
          {.token = f.token,
           .cell = {static_cast<std::uint16_t>(group * kRanks + std::min(level + rank, kRanks - 1)),
                    static_cast<std::uint16_t>(group)}});
    }
  }
}

}  // namespace forerun
