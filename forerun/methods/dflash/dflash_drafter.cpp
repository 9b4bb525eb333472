#include "forerun/methods/dflash/dflash_drafter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

// More pending rows than a few rounds leave are taken in by passes of their own.
constexpr std::int64_t kPending = 32, kMostRows = 512;
constexpr float kForbidden = -std::numeric_limits<float>::infinity();

}  // namespace

DFlashDrafter::DFlashDrafter(std::shared_ptr<const DFlashPasses> network, Reshape reshape,
                             DraftMode mode, bool scored)
    : network_(std::move(network)), reshape_by_(reshape), mode_(mode), scored_(scored) {}

// Keeps the states of the tokens that stay: all of the text but the newest token, which the target
// has not read yet.
void DFlashDrafter::take(const TokenLane& lane, const KeptStates& states) {
  if (lane.done()) {
    lanes_.erase(lane.request());
    return;
  }
  LaneState& state = lanes_[lane.request()];
  if (!state.context) state.context = network_->make_context();
  const std::int64_t known = state.context->length() + pending_rows(state);
  const std::int64_t behind = static_cast<std::int64_t>(lane.tokens().size()) - 1;
  const float* from = states.rows + (known - states.first) * width();
  state.pending.insert(state.pending.end(), from, from + (behind - known) * width());
}

std::vector<LanePlan> DFlashDrafter::foresee(std::span<TokenLane* const> lanes,
                                             std::span<const std::size_t> most,
                                             const DraftLength&) const {
  std::vector<LanePlan> plans;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const auto found = lanes_.find(lanes[i]->request());
    const bool ready = found != lanes_.end();
    const std::int64_t rows = ready ? pending_rows(found->second) : 0;
    plans.push_back({.request = lanes[i]->request(),
                     .limit = ready ? std::min(most[i], block()) : 0,
                     .unread = rows > kPending ? static_cast<std::size_t>(rows) : 0,
                     .remaining = lanes[i]->remaining()});
  }
  return plans;
}

void DFlashDrafter::catch_up(LaneState& lane) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t rows = pending_rows(lane);
  for (std::int64_t done = 0; done < rows; done += kMostRows) {
    const BlockSpan span{.context = lane.context.get(),
                         .features = lane.pending.data() + done * width(),
                         .fresh = std::min(kMostRows, rows - done)};
    network_->forward({&span, 1});
  }
  lane.pending.clear();
  prefilled_.tokens += static_cast<std::size_t>(rows);
  prefilled_.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<TokenDraft> DFlashDrafter::propose(std::span<TokenLane* const> lanes,
                                               std::span<const std::size_t> lengths) {
  std::vector<TokenDraft> drafts(lanes.size());
  std::vector<BlockSpan> spans;
  std::vector<std::size_t> who;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    drafts[i].origin =
        mode_ == DraftMode::kGreedy || reshape_by_.greedy() ? Origin::kSearched : Origin::kSampled;
    const auto found = lanes_.find(lanes[i]->request());
    if (lengths[i] == 0 || found == lanes_.end()) continue;
    LaneState& lane = found->second;
    if (pending_rows(lane) > kPending) catch_up(lane);
    spans.push_back({.context = lane.context.get(),
                     .features = lane.pending.data(),
                     .fresh = pending_rows(lane),
                     .anchor = lanes[i]->tokens().back(),
                     .drafts = static_cast<std::int64_t>(std::min(lengths[i], block()))});
    who.push_back(i);
  }
  rows_used_ = 0;
  if (spans.empty()) return drafts;
  const DFlashPasses::Blocks blocks = network_->forward(spans);
  std::int64_t row = 0;
  for (std::size_t j = 0; j < who.size(); ++j) {
    lanes_.at(lanes[who[j]]->request()).pending.clear();
    fill(*lanes[who[j]], drafts[who[j]], blocks.logits, row, spans[j].drafts);
    row += spans[j].drafts;
  }
  return drafts;
}

void DFlashDrafter::fill(const TokenLane& lane, TokenDraft& draft, const at::Tensor& logits,
                         std::int64_t row, std::int64_t count) {
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  Token previous = lane.tokens().back();
  for (std::int64_t k = 0; k < count; ++k) {
    const std::span<float> own(logits.data_ptr<float>() + static_cast<std::size_t>(row + k) * vocab,
                               vocab);
    if (network_->has_markov()) network_->add_markov(previous, own);
    const auto position = lane.tokens().size() + static_cast<std::size_t>(k);
    previous = pick(own, lane.draws_at(position), draft);
    draft.tokens.push_back(previous);
  }
}

Token DFlashDrafter::pick(std::span<float> logits, const Draws& draws, TokenDraft& draft) {
  const bool point = draft.origin == Origin::kSearched && !(scored_ && !reshape_by_.greedy());
  if (!point) return pick_scored(logits, draws, draft);
  return network_->token(argmax(logits));
}

// The law over the target's vocabulary: zero for what cannot be drafted.
Token DFlashDrafter::pick_scored(std::span<float> logits, const Draws& draws, TokenDraft& draft) {
  if (rows_used_ == rows_.size()) rows_.emplace_back();
  std::vector<float>& row = rows_[rows_used_++];
  row.assign(static_cast<std::size_t>(network_->config().vocab), kForbidden);
  // Reshaping the short row first: what is forbidden there stays so.
  static_cast<void>(reshape_(logits, reshape_by_));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    row[static_cast<std::size_t>(network_->token(static_cast<std::int64_t>(i)))] = logits[i];
  }
  const Categorical q(row);
  draft.laws.push_back(q);
  if (draft.origin == Origin::kSearched) return q.argmax();
  if (mode_ == DraftMode::kSharedNoise) return sample_shared_noise(q, draws).token;
  return q.sample(draws.uniform(Purpose::kDraft));
}

}  // namespace forerun
