#include "forerun/methods/recycling/recycling_source.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>

#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {
namespace {

// Of a token in the middle of its bin, and how often one token of context is enough, or two, three.
constexpr std::array<double, Successors::kScores> kMiddles = {0.01, 0.03, 0.08, 0.18,
                                                              0.35, 0.57, 0.8,  0.95};
constexpr std::array<double, Successors::kOrders> kTrust = {0.35, 0.55, 0.7};
constexpr std::int64_t kFewRows = 3;  // one thread is enough for fewer
// Logits of a row that the outputs did not reach. The tokens of most vocabularies lie in the order
// in which they were merged, the most frequent ones in front; of a text of others all are asked
// for.
constexpr std::int64_t kUnreached = 8192;
constexpr double kMemory = 64.0, kLeastShare = 0.5;

bool reached(std::span<const float> logits) { return !std::isnan(logits[0]); }

// Those of a row that the pass has computed.
std::span<const float> known(std::span<const float> logits) {
  return reached(logits) ? logits : logits.first(std::min<std::size_t>(logits.size(), kUnreached));
}

}  // namespace

std::int64_t RecyclingSource::unreached_logits() const {
  return frequent_ < kLeastShare ? std::numeric_limits<std::int64_t>::max() : kUnreached;
}

HitRates RecyclingSource::rates() const {
  std::vector<double> priors;
  for (const double trust : kTrust) {
    for (std::size_t stable = 0; stable < Successors::kStable; ++stable) {
      for (const double middle : kMiddles) priors.push_back(trust * middle);
    }
  }
  return {priors.size() * Successors::kTokens, priors};
}

void RecyclingSource::remember(std::any& memory) {
  if (!memory.has_value()) memory = Successors();
  successors_ = std::any_cast<Successors>(&memory);
}

RecyclingSource::Node RecyclingSource::node_of(std::span<const Token> text) {
  Node node{.known = std::min(text.size(), Successors::kOrders)};
  std::copy(text.end() - static_cast<std::ptrdiff_t>(node.known), text.end(),
            node.context.end() - static_cast<std::ptrdiff_t>(node.known));
  return node;
}

RecyclingSource::Node RecyclingSource::below(const Node& parent, Token token) {
  Node node{.known = std::min(parent.known + 1, Successors::kOrders)};
  std::copy(parent.context.begin() + 1, parent.context.end(), node.context.begin());
  node.context.back() = token;
  return node;
}

bool RecyclingSource::begin(const TokenSequence& sequence) {
  if (successors_ == nullptr) remember(own_);
  nodes_.assign(1, node_of(sequence.tokens()));
  return successors_->size() > 0;
}

void RecyclingSource::add(std::size_t parent, Token token) {
  nodes_.push_back(below(nodes_[parent], token));
}

void RecyclingSource::children(std::vector<TreeChild>& out) {
  const Node& node = nodes_.back();
  for (std::size_t order = std::min(node.known, Successors::kOrders); order >= 1; --order) {
    const Successors::Prediction* found = successors_->after(node.tokens(), order);
    if (found == nullptr) continue;
    for (std::size_t rank = 0; rank < found->count; ++rank) {
      const std::size_t group =
          ((order - 1) * Successors::kStable + found->stable) * Successors::kScores +
          found->score[rank];
      out.push_back({.token = found->tokens[rank],
                     .cell = {static_cast<std::uint16_t>(group * Successors::kTokens + rank),
                              static_cast<std::uint16_t>(group)}});
    }
  }
}

void RecyclingSource::observe(const VerifiedDraft& verified) {
  if (successors_ == nullptr) remember(own_);
  const std::vector<Successors::Prediction> predictions = predictions_of(verified);
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (predictions[i].count == 0 || !reached(verified.logits(i))) continue;
    frequent_ += ((predictions[i].tokens[0] < kUnreached ? 1.0 : 0.0) - frequent_) / kMemory;
  }
  std::vector<Node> rows = {node_of(verified.text)};
  successors_->learn(rows.front().tokens(), predictions.front());
  for (std::size_t i = 0; i < verified.draft.size(); ++i) {
    const auto parent = static_cast<std::size_t>(verified.draft.parent(i)) + 1;
    rows.push_back(below(rows[parent], verified.draft.tokens[i]));
    successors_->learn(rows.back().tokens(), predictions[i + 1]);
  }
}

// Of the text and of every drafted token, in order. Rows of logits lie in the caches of the cores
// that have computed them: reading a few of them takes longer than waking the other threads.
std::vector<Successors::Prediction> RecyclingSource::predictions_of(const VerifiedDraft& verified) {
  std::vector<Successors::Prediction> out(verified.draft.size() + 1);
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      try {
        out[at] = Successors::prediction_of(known(verified.logits(at)));
      } catch (const std::bad_alloc&) {  // the text goes on; the row is not learned
        out[at] = {};
      }
    }
  };
  const auto rows = static_cast<std::int64_t>(out.size());
  const int threads = at::get_num_threads();
  if (threads == 1 || rows < kFewRows) {
    some(0, rows);
    return out;
  }
  ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) { w.each(rows, 1, some); });
  return out;
}

}  // namespace forerun
