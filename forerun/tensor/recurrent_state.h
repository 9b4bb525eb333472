#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/kv_pool.h"
#include "forerun/tensor/row_plan.h"

namespace forerun {

/// What the recurrent layers of a model carry along one sequence: the state as of a base position,
/// and a journal of the rows after it, which may still be dropped. A pass first takes the rows of
/// the journal that were kept into the state, then journals its own. A long pass takes all of its
/// rows but the last kJournal into the state at once. Copies of earlier states (checkpoints, the
/// last four of those that were asked for) serve texts that begin alike.
class RecurrentState {
 public:
  struct Shape {
    std::int64_t layers = 0;
    std::int64_t channels = 0, window = 0;  ///< inputs of a convolution, earlier rows that it reads
    std::int64_t key_heads = 0, key_dim = 0;
    std::int64_t value_heads = 0, value_dim = 0;  ///< of each a matrix; 0: none

    std::int64_t window_size() const noexcept { return window * channels; }
    std::int64_t matrix() const noexcept { return key_dim * value_dim; }
    /// Floats of a layer: its window [window, channels], oldest first, and its matrices
    /// [value_heads, key_dim * value_dim], stored as recurrent::Step has them.
    std::int64_t state() const noexcept { return window_size() + value_heads * matrix(); }
    /// Floats of a row of the journal, in the order of `Row`.
    std::int64_t row() const noexcept {
      return channels + key_heads * key_dim + value_heads * (value_dim + 1);
    }
  };
  /// A row of a layer: what it adds to the state.
  struct Row {
    float* inputs;  ///< [channels]: of the convolution
    float* keys;    ///< [key_heads, key_dim]
    float* deltas;  ///< [value_heads, value_dim]: a matrix becomes decay * matrix + key delta^T
    float* decays;  ///< [value_heads]
  };
  static constexpr std::int64_t kJournal = 16;

  /// @param pool  counts the memory; none: nobody does
  explicit RecurrentState(const Shape& shape, std::shared_ptr<KvPool> pool = nullptr)
      : shape_(shape), pool_(std::move(pool)) {}
  RecurrentState(RecurrentState&&) = default;
  RecurrentState& operator=(RecurrentState&&) = default;  // `share` copies

  const Shape& shape() const noexcept { return shape_; }
  std::int64_t length() const noexcept { return base_ + kept(); }
  std::size_t bytes() const noexcept;

  /// The position that `share` and `truncate` reach for `positions`: those, if they end within the
  /// last pass (of a long one, within its last kJournal rows) or from the held position on, else
  /// the last checkpoint before them, or 0.
  std::int64_t reachable(std::int64_t positions) const noexcept;
  /// A state of the first `positions` positions, as far as reachable.
  /// @throws KvPoolFull
  RecurrentState share(std::int64_t positions) const;

  /// Memory for a pass over such rows.
  /// @throws KvPoolFull  nothing has changed then
  void reserve(const RowPlan& rows);
  /// What `reserve` takes from the pool. A journal that it replaces goes back then.
  std::size_t bytes_to_reserve(const RowPlan& rows) const noexcept;

  /// Positions from this one on can be dropped whatever passes follow, until another is given. What
  /// earlier passes have taken into the state stays there. Not shared.
  void hold(std::int64_t position) noexcept { held_ = position; }
  /// Keeps a checkpoint of the first state from here on, for texts that begin alike.
  void remember() noexcept { due_ = length(); }
  /// The start of a pass. @throws std::logic_error  the one before it failed on its way
  void begin();

  // What follows reads and writes a layer during a pass, between `begin` and `advance`.
  /// Rows of the journal that belong to the text: they come before the pass.
  std::int64_t kept() const noexcept { return static_cast<std::int64_t>(path_.size()); }
  Row kept_row(std::int64_t layer, std::int64_t i) noexcept {
    return row_at(journal_row(layer, path_[static_cast<std::size_t>(i)]));
  }
  /// Kept rows that a pass takes into the state: not those from the held position on.
  std::int64_t settled_kept() const noexcept {
    return std::clamp<std::int64_t>(held_ - base_, 0, kept());
  }
  /// First rows of a pass that it takes into the state at once: no row follows one before the last
  /// of them.
  std::int64_t settled(const RowPlan& rows) const noexcept;
  /// A matrix as of the base; the pass adds the rows that are settled.
  float* matrix(std::int64_t layer, std::int64_t value_head) noexcept {
    return state(layer) + shape_.window_size() + value_head * shape_.matrix();
  }
  /// Inputs of the convolution `back` >= 1 positions before the pass, back <= window + kept().
  const float* input_before(std::int64_t layer, std::int64_t back) noexcept;
  /// The parts of a row of the journal's layout.
  Row row_at(float* row) const noexcept {
    float* const keys = row + shape_.channels;
    float* const deltas = keys + shape_.key_heads * shape_.key_dim;
    return {row, keys, deltas, deltas + shape_.value_heads * shape_.value_dim};
  }
  /// The end of a layer's part of the pass. Its matrices are those after the settled rows.
  /// @param write  called as write(i, row): writes row i of the pass, inputs alone or all of it
  template <class Write>
  void close(std::int64_t layer, const RowPlan& rows, const Write& write) {
    const std::int64_t first = settled(rows), window = shape_.window;
    const std::int64_t stay = kept() - settled_kept();  // in the journal
    for (std::int64_t i = 0; i < window; ++i) {         // position i of the new window
      const std::int64_t back = window - i + stay;      // before the first row that is not settled
      float* to = spare_.data() + i * shape_.channels;
      if (back <= first) {
        write(first - back, Row{to, nullptr, nullptr, nullptr});
      } else {
        std::copy_n(input_before(layer, back - first), shape_.channels, to);
      }
    }
    std::copy_n(spare_.data(), shape_.window_size(), state(layer));
    for (std::int64_t i = 0; i < stay; ++i) {  // rising: no row is overwritten before it moves
      float* const to = journal_row(layer, i);
      const float* const from = kept_row(layer, kept() - stay + i).inputs;
      if (to != from) std::copy_n(from, shape_.row(), to);
    }
    for (std::int64_t i = first; i < rows.rows(); ++i) {
      write(i, row_at(journal_row(layer, stay + i - first)));
    }
  }

  /// The end of a pass, all of whose layers are closed: a chain is kept, other rows are pending.
  void advance(const RowPlan& rows);
  /// Which of the pending rows stay, once for a pass: a path from the text's end, settled rows
  /// first.
  /// @throws std::logic_error  a settled row is not among them; nothing has changed then
  void keep(std::span<const std::int32_t> path);
  /// Keeps the first `length` positions, as far as reachable. @return  how many are kept
  std::int64_t truncate(std::int64_t length) noexcept;

 private:
  struct Checkpoint {
    std::int64_t position;
    std::shared_ptr<const AlignedBuffer<float>> state;
    std::shared_ptr<void> charge;
  };
  static constexpr std::size_t kCheckpoints = 4;

  std::size_t state_floats() const noexcept {
    return static_cast<std::size_t>(shape_.layers * shape_.state());
  }
  std::size_t journal_floats(std::int64_t rows) const noexcept {
    return static_cast<std::size_t>(shape_.layers * rows * shape_.row());
  }
  float* state(std::int64_t layer) noexcept { return state_.data() + layer * shape_.state(); }
  float* journal_row(std::int64_t layer, std::int64_t row) noexcept {
    return journal_.data() + (layer * journal_rows_ + row) * shape_.row();
  }
  std::int64_t rows_for(const RowPlan& rows) const noexcept;
  void allocate(std::shared_ptr<void> charge);
  void grow_journal(std::int64_t rows);
  void add_checkpoint() noexcept;
  // The newest of at most `positions`, or null.
  const Checkpoint* checkpoint(std::int64_t positions) const noexcept;

  Shape shape_;
  std::shared_ptr<KvPool> pool_;
  AlignedBuffer<float> state_, spare_, journal_;  // spare: a window
  std::shared_ptr<void> state_charge_, journal_charge_;
  std::int64_t base_ = 0, journal_rows_ = 0;
  // Of the last pass: rows that are in the state, and rows of the journal before its others.
  std::int64_t settled_ = 0, stayed_ = 0;
  std::int64_t held_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> path_;       // kept rows of the journal
  std::vector<Checkpoint> checkpoints_;  // by position
  std::int64_t due_ = -1;                // a checkpoint is wanted from this base on; -1: none
  bool open_ = false;                    // a pass has begun
};

}  // namespace forerun
