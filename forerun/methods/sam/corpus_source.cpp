#include "forerun/methods/sam/corpus_source.h"

#include <algorithm>

#include "forerun/methods/draft_mode.h"
#include "forerun/methods/sam/follower_estimates.h"

namespace forerun {

HitRates CorpusSource::rates() const { return EstimateCells::rates(); }

bool CorpusSource::begin(const TokenSequence& sequence) {
  Node root;
  const std::span<const Token> text = sequence.tokens();
  root.known = std::min(text.size(), root.context.size());
  std::copy(text.end() - static_cast<std::ptrdiff_t>(root.known), text.end(),
            root.context.end() - static_cast<std::ptrdiff_t>(root.known));
  nodes_.assign(1, root);
  sequence_ = &sequence;
  return index_->size() > 0;
}

void CorpusSource::add(std::size_t parent, Token token) {
  Node node = nodes_[parent];
  std::copy(node.context.begin() + 1, node.context.end(), node.context.begin());
  node.context.back() = token;
  ++node.depth;
  node.known = std::min(node.known + 1, node.context.size());
  nodes_.push_back(node);
}

void CorpusSource::children(std::vector<TreeChild>& out) {
  const Node& node = nodes_.back();
  const bool noisy = noise_decides(*sequence_);
  FollowerEstimates estimates = estimate_followers(
      *index_, node.tokens(), noisy ? FollowerEstimates::kAll : FollowerEstimates::kMost);
  if (noisy) {
    weigh_by_noise(estimates, sequence_->sampling().temperature,
                   sequence_->key_at(sequence_->tokens().size() + node.depth));
  }
  for (std::size_t rank = 0; rank < estimates.size; ++rank) {
    const FollowerEstimates::Estimate& e = estimates.best[rank];
    out.push_back({.token = e.token,
                   .cell = EstimateCells::cell(estimates.length, e.probability, rank, noisy)});
  }
}

}  // namespace forerun
