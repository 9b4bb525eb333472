#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/int8_matrix.h"

namespace forerun {

/// Logits of rows that greedy decoding may reach. A row that follows another is reached only if its
/// token has the other's largest logit: as soon as any logit there is larger, the row and all that
/// follow it are excluded, and no more of their logits are computed than asked for. The first
/// panels of the vocabulary, its most frequent tokens, exclude most rows of a tree. What is
/// computed has the bits of Int8Matrix::multiply, on any number of threads.
class GreedyHead {
 public:
  using Worker = ThreadTeam::Worker;
  static constexpr std::int32_t kNone = -1;

  void clear() {
    rows_.clear();
    first_panels_ = 0;
  }
  /// The next row: it follows row `parent`, an earlier one, with `token`; kNone: it is needed
  /// whatever the logits.
  void add(std::int32_t parent, Token token = 0) { rows_.push_back({parent, token, 0.0F}); }
  std::size_t rows() const noexcept { return rows_.size(); }
  /// Of every row at least the first `outputs` logits are computed.
  void need_first(std::int64_t outputs) noexcept {
    first_panels_ = std::max(first_panels_, (outputs + kernel::kPanel - 1) / kernel::kPanel);
  }
  /// Whether any row follows another.
  bool conditional() const noexcept { return !conditions_.empty(); }
  /// After all rows were added: makes room for a pass by so many threads.
  void start(const Int8Matrix& head, int threads);
  /// Run by all threads if any row is conditional: out is [rows, outputs of the head], that of an
  /// excluded row incomplete.
  /// @param x  the rows
  void multiply(Worker& w, const Int8Matrix& head, const kernel::Int8Rows& x, float* out);
  /// Makes the first logit of every excluded row NaN, so that none of them is taken for a law.
  void mark_excluded(float* out, std::int64_t vocab) const;

 private:
  struct Row {
    std::int32_t parent;
    Token token;
    float logit;  // of the token after the parent
  };
  struct Condition {
    std::int32_t row, parent_at;  // parent_at: among the needed rows of a thread
  };
  // What a thread computes: the rows that are needed still, side by side.
  struct Local {
    Int8Activations room;
    kernel::Int8Rows x{};
    AlignedBuffer<float> out;  // [needed rows, kPanel]
    std::vector<std::int32_t> needed;
    std::vector<Condition> conditions;
    std::uint32_t version = 0;
    bool all = false;  // rows, excluded or not
  };

  bool excluded(std::int32_t row) const noexcept {
    return excluded_[static_cast<std::size_t>(row)].load(std::memory_order_relaxed);
  }
  void exclude(std::int32_t row);
  void find_logits(Worker& w, const Int8Matrix& head, const kernel::Int8Rows& x);
  void gather(Local& local, const kernel::Int8Rows& x, bool all) const;
  void find_conditions(Local& local) const;
  void compare(const Local& local, std::int64_t width);

  std::vector<Row> rows_;
  std::int64_t first_panels_ = 0;         // of every row
  std::vector<std::int32_t> conditions_;  // rows that follow another
  std::vector<std::atomic<bool>> excluded_;
  std::vector<Local> locals_;
  std::atomic<std::uint32_t> version_{0};  // grows with every exclusion
};

}  // namespace forerun
