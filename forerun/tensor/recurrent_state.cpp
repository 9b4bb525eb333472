#include "forerun/tensor/recurrent_state.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace forerun {
namespace {

constexpr std::size_t bytes_of(std::size_t floats) { return floats * sizeof(float); }

std::shared_ptr<void> charged(const std::shared_ptr<KvPool>& pool, std::size_t floats) {
  return pool ? pool->charge(bytes_of(floats)) : nullptr;
}

}  // namespace

std::size_t RecurrentState::bytes() const noexcept {
  return bytes_of(state_.size() * (1 + checkpoints_.size()) + journal_.size());
}

std::int64_t RecurrentState::settled(const RowPlan& rows) const noexcept {
  std::int64_t out = std::min({rows.straight(), rows.rows() - kJournal, held_ - length()});
  for (std::int64_t i = rows.straight(); i < rows.rows(); ++i) {
    out = std::min(out, rows.parent(i) + 1);
  }
  return std::max<std::int64_t>(0, out);
}

std::int64_t RecurrentState::rows_for(const RowPlan& rows) const noexcept {
  return std::max(journal_rows_, kept() - settled_kept() + rows.rows() - settled(rows));
}

std::size_t RecurrentState::bytes_to_reserve(const RowPlan& rows) const noexcept {
  const std::int64_t wanted = rows_for(rows);
  const std::size_t state = state_.size() == 0 ? state_floats() : 0;
  return bytes_of(state + (wanted > journal_rows_ ? journal_floats(wanted) : 0));
}

void RecurrentState::allocate(std::shared_ptr<void> charge) {
  spare_ = AlignedBuffer<float>(static_cast<std::size_t>(shape_.window_size()));
  state_ = AlignedBuffer<float>(state_floats());
  state_charge_ = std::move(charge);
}

void RecurrentState::grow_journal(std::int64_t rows) {
  if (rows <= journal_rows_) return;
  std::shared_ptr<void> charge = charged(pool_, journal_floats(rows));
  AlignedBuffer<float> grown(journal_floats(rows));
  for (std::int64_t l = 0; l < shape_.layers; ++l) {
    for (const std::int32_t row : path_) {
      std::copy_n(journal_row(l, row), shape_.row(),
                  grown.data() + (l * rows + row) * shape_.row());
    }
  }
  journal_ = std::move(grown);
  journal_rows_ = rows;
  journal_charge_ = std::move(charge);
}

void RecurrentState::reserve(const RowPlan& rows) {
  const bool first = state_.size() == 0;
  std::shared_ptr<void> charge = first ? charged(pool_, state_floats()) : nullptr;
  grow_journal(rows_for(rows));
  if (first) allocate(std::move(charge));
}

// Where memory is short there is none: it only saves time.
void RecurrentState::add_checkpoint() noexcept {
  constexpr std::size_t kShare = 4;  // of what is free
  if (pool_ && pool_->available() / kShare < bytes_of(state_floats())) return;
  if (base_ == 0 || (!checkpoints_.empty() && checkpoints_.back().position >= base_)) return;
  try {
    Checkpoint added{base_, nullptr, charged(pool_, state_floats())};
    auto copy = std::make_shared<AlignedBuffer<float>>(state_floats());
    std::copy_n(state_.data(), state_floats(), copy->data());
    added.state = std::move(copy);
    checkpoints_.push_back(std::move(added));
  } catch (const std::exception&) {
    return;
  }
  if (checkpoints_.size() <= kCheckpoints) return;
  // The one whose neighbours are closest to each other goes; never the newest.
  std::size_t least = 0;
  std::int64_t closest = checkpoints_[1].position;
  for (std::size_t i = 1; i + 1 < checkpoints_.size(); ++i) {
    const std::int64_t apart = checkpoints_[i + 1].position - checkpoints_[i - 1].position;
    if (apart < closest) {
      closest = apart;
      least = i;
    }
  }
  checkpoints_.erase(checkpoints_.begin() + static_cast<std::ptrdiff_t>(least));
}

const float* RecurrentState::input_before(std::int64_t layer, std::int64_t back) noexcept {
  if (back <= kept()) return kept_row(layer, kept() - back).inputs;
  return state(layer) + (shape_.window - (back - kept())) * shape_.channels;
}

void RecurrentState::begin() {
  if (open_) throw std::logic_error("RecurrentState: a pass failed on its way, the state is lost");
  open_ = true;
}

void RecurrentState::advance(const RowPlan& rows) {
  open_ = false;
  settled_ = settled(rows);
  stayed_ = kept() - settled_kept();
  base_ += kept() - stayed_ + settled_;
  const std::int64_t known = stayed_ + (rows.chain() ? rows.rows() - settled_ : 0);
  path_.resize(static_cast<std::size_t>(known));
  std::iota(path_.begin(), path_.end(), 0);
  if (due_ < 0 || base_ < due_) return;
  due_ = -1;
  add_checkpoint();
}

void RecurrentState::keep(std::span<const std::int32_t> path) {
  if (static_cast<std::int64_t>(path.size()) < settled_) {
    throw std::logic_error("RecurrentState: rows that are in the state cannot be dropped");
  }
  for (std::size_t i = static_cast<std::size_t>(settled_); i < path.size(); ++i) {
    path_.push_back(path[i] + static_cast<std::int32_t>(stayed_ - settled_));
  }
}

const RecurrentState::Checkpoint* RecurrentState::checkpoint(
    std::int64_t positions) const noexcept {
  const Checkpoint* found = nullptr;
  for (const Checkpoint& c : checkpoints_) {
    if (c.position <= positions) found = &c;
  }
  return found;
}

std::int64_t RecurrentState::reachable(std::int64_t positions) const noexcept {
  if (positions >= base_) return std::min(positions, length());
  const Checkpoint* from = checkpoint(positions);
  return from != nullptr ? from->position : 0;
}

std::int64_t RecurrentState::truncate(std::int64_t length) noexcept {
  if (length >= base_) {
    path_.resize(static_cast<std::size_t>(std::min(kept(), length - base_)));
    return this->length();
  }
  path_.clear();
  const Checkpoint* from = checkpoint(length);
  base_ = from != nullptr ? from->position : 0;
  if (state_.size() > 0) {
    if (from != nullptr) {
      std::copy_n(from->state->data(), state_floats(), state_.data());
    } else {
      std::fill_n(state_.data(), state_floats(), 0.0F);
    }
  }
  std::erase_if(checkpoints_, [&](const Checkpoint& c) { return c.position > base_; });
  return base_;
}

RecurrentState RecurrentState::share(std::int64_t positions) const {
  RecurrentState out(shape_, pool_);
  positions = reachable(positions);
  if (positions == 0) return out;
  out.allocate(charged(pool_, state_floats()));
  for (const Checkpoint& c : checkpoints_) {
    if (c.position <= positions) out.checkpoints_.push_back(c);
  }
  if (positions < base_) {
    out.base_ = positions;
    std::copy_n(out.checkpoints_.back().state->data(), state_floats(), out.state_.data());
    return out;
  }
  out.base_ = base_;
  std::copy_n(state_.data(), state_floats(), out.state_.data());
  const auto rows = positions - base_;
  out.grow_journal(rows);
  for (std::int64_t l = 0; l < shape_.layers; ++l) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int32_t row = path_[static_cast<std::size_t>(i)];
      std::copy_n(journal_.data() + (l * journal_rows_ + row) * shape_.row(), shape_.row(),
                  out.journal_row(l, i));
    }
  }
  out.path_.resize(static_cast<std::size_t>(rows));
  std::iota(out.path_.begin(), out.path_.end(), 0);
  return out;
}

}  // namespace forerun
