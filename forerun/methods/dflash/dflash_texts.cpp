#include "forerun/methods/dflash/dflash_texts.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace forerun {
namespace {

// More pending rows than a few rounds leave are read by passes of their own, over several rounds
// that draft nothing if they are many: no round takes long.
constexpr std::int64_t kPendingRows = 32, kMostRows = 128;

}  // namespace

void DFlashTexts::append(const TokenSequence& sequence, const HiddenStates& states,
                         std::int64_t end) {
  State& state = sequences_[sequence.id()];
  if (!state.context) state.context = network_->make_context();
  const std::int64_t known = state.context->length() + pending_rows(state);
  if (end <= known) return;
  if (known < states.first || end > states.first + states.count) {
    throw std::logic_error("DFlash: a sequence's hidden states have a gap");
  }
  const float* from = states.rows + (known - states.first) * width();
  state.pending.insert(state.pending.end(), from, from + (end - known) * width());
}

bool DFlashTexts::share(SequenceId from, SequenceId to, std::int64_t positions) {
  const auto found = sequences_.find(from);
  if (found == sequences_.end()) return false;
  const State& source = found->second;
  const std::int64_t read = std::min(positions, source.context->length());
  const std::int64_t pending = positions - read;
  if (pending > pending_rows(source)) return false;
  State state{.context = source.context->share(read), .pending = {}};
  state.pending.assign(source.pending.begin(), source.pending.begin() + pending * width());
  sequences_[to] = std::move(state);
  return true;
}

std::size_t DFlashTexts::unread(SequenceId id) const {
  const auto found = sequences_.find(id);
  const std::int64_t rows = found == sequences_.end() ? 0 : pending_rows(found->second);
  return rows > kPendingRows ? static_cast<std::size_t>(rows) : 0;
}

// Reads some of the pending rows; false: many are left.
bool DFlashTexts::catch_up(State& state) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t rows = std::min(kMostRows, pending_rows(state));
  const BlockSpan span{
      .context = state.context.get(), .features = state.pending.data(), .fresh = rows};
  network_->forward({&span, 1});
  state.pending.erase(state.pending.begin(), state.pending.begin() + rows * width());
  prefilled_.tokens += static_cast<std::size_t>(rows);
  prefilled_.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return pending_rows(state) <= kPendingRows;
}

DFlashTexts::Blocks DFlashTexts::forward(std::span<const Wanted> wanted) {
  Blocks out{.rows = {}, .first = std::vector<std::int64_t>(wanted.size(), -1)};
  std::vector<BlockSpan> spans;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    State& state = sequences_.at(wanted[i].sequence->id());
    if (pending_rows(state) > kPendingRows && !catch_up(state)) continue;
    spans.push_back({.context = state.context.get(),
                     .features = state.pending.data(),
                     .fresh = pending_rows(state),
                     .anchor = wanted[i].sequence->tokens().back(),
                     .drafts = wanted[i].drafts});
    out.first[i] = row;
    row += wanted[i].drafts;
  }
  if (spans.empty()) return out;
  out.rows = network_->forward(spans);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (out.first[i] >= 0) sequences_.at(wanted[i].sequence->id()).pending.clear();
  }
  return out;
}

}  // namespace forerun
