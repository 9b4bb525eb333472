#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/kv_pages.h"
#include "forerun/tensor/cpu/thread_team.h"
#include "forerun/tensor/row_plan.h"

namespace forerun {

/// Attention of the rows of one pass over the pages of their sequences, with integer products:
/// queries, keys, values and the softmax's weights in 8 bits. Query heads that share a key head are
/// rows of one product. Keys are split into chunks of 256 at fixed positions, each with a partial
/// softmax, merged in order: the work of a long prompt spreads over all threads, and a row's result
/// depends neither on that nor on other rows.
/// Source: Dao et al. 2023, Flash-Decoding, for the split over keys.
class PagedAttention {
 public:
  struct Shape {
    std::int64_t heads, kv_heads, head_dim;
    double softcap;  ///< 0 = none
  };
  /// The new rows of one sequence after `length` kept positions.
  struct Sequence {
    const KvPages* pages;
    std::int64_t length, rows;
    const RowPlan* plan = nullptr;  ///< whom they follow and see; null: a chain
  };

  /// Attention mask of the rows of a layer.
  struct Visibility {
    std::int64_t window = 0;  ///< positions closer than this; 0 = any
    bool groups = true;       ///< rows see their group
  };

  explicit PagedAttention(Shape shape);

  /// Sets up a pass; allocates only if it is larger than previous ones.
  void plan(std::span<const Sequence> sequences, int threads);
  /// The query of packed row `row` and head `head`, [head_dim] float32 after the rotary embedding;
  /// scores are its products with the keys, times `scale`.
  void set_query(std::int64_t row, std::int64_t head, const float* q, float scale);
  /// The layer's attention, as a phase of a job. Keys and values of the new rows are in the pages:
  /// those of the straight rows of a plan at their positions, those of its branches in the places
  /// after the capacity. Scores and weights are indexed by position in either case, so a row of a
  /// tree has the bits of the same row in a chain.
  void attend(ThreadTeam::Worker& worker, std::int64_t layer, const Visibility& mask);
  /// The output of a row and head, [head_dim] float32.
  /// @param sink  a further score that takes part in the softmax and brings no value; or null
  void output(std::int64_t row, std::int64_t head, float* out, const float* sink = nullptr) const;

 private:
  struct Row {
    std::int64_t position, end;  // end of the positions it sees, its group's included
    std::int64_t ordered;  // what it sees before this position is in the pages, at its position
    std::span<const std::int32_t> seen;  // as RowPlan::seen; empty for a chain
  };
  struct Item {
    std::size_t sequence;
    std::int64_t kv_head, first, count;             // of the sequence's new rows
    std::int64_t chunk, chunks;                     // from chunk to chunk + chunks
    std::int64_t lowest, causal_end, end, ordered;  // of its rows, `ordered` if before their end
  };
  // A position of a chunk that a row does not read from the pages of positions.
  struct Detour {
    std::int64_t at, branch;  // branch < 0: it does not see the position
  };
  // Index of a row and head in buffers that keep the rows of a key head together.
  std::int64_t index(std::int64_t row, std::int64_t head) const noexcept {
    return (head / group_ * rows_ + row) * group_ + head % group_;
  }
  // Working memory of a thread.
  struct Scratch {
    float *scores, *units, *out;
    float* branch_scores;
    std::uint8_t* weights;
    kernel::SoftmaxPart* parts;
    const std::int8_t** values;
    std::vector<Detour>* detours;
  };
  // Pages of a chunk: of its positions, and of branches.
  struct Extent {
    std::int64_t page, blocks, branches;
  };
  void add_rows(const Sequence& sequence);
  // Items of all sequences if each has so many rows; how many those of a pass have.
  std::int64_t items_of(std::int64_t positions) const noexcept;
  std::int64_t positions_of_items(int threads) const noexcept;
  void make_room(int threads, std::int64_t chunks);
  Item item_of(std::size_t sequence, std::int64_t kv_head, std::int64_t first,
               std::int64_t count) const;
  // The keys of [begin, begin + 256) that the row sees, but for detours.
  static kernel::Seen seen_of(const Row& row, std::int64_t begin, const Visibility& mask) noexcept;
  static void find_detours(const Row& row, const Sequence& sequence, std::int64_t begin,
                           const kernel::Seen& seen, std::vector<Detour>& detours);
  std::int64_t scratch_size() const noexcept;  // floats of a thread
  Scratch scratch(int thread) noexcept;
  // @param next  keys that this thread needs next, or null
  void attend_chunk(const Item& item, std::int64_t chunk, std::int64_t layer,
                    const Visibility& mask, const Scratch& s, const std::uint8_t* next);
  // The first keys of item `i`, or null after the last.
  const std::uint8_t* keys_of(std::size_t i, std::int64_t layer) const noexcept;
  // Scores of the item's rows; then their weights, whose softmax parts go to `parts`.
  void score(const Item& item, std::int64_t layer, const Extent& extent, const Scratch& s);
  void score_page(const Item& item, std::int64_t layer, std::int64_t page, float* out,
                  std::int64_t stride, const std::uint8_t* next);
  void weigh(const Item& item, std::int64_t layer, std::int64_t chunk, const Extent& extent,
             const Visibility& mask, const Scratch& s, kernel::SoftmaxPart* parts);
  kernel::SoftmaxPart weigh_row(std::int64_t row, float scale, const float* value_scales,
                                const kernel::Seen& seen, const Extent& extent,
                                const Scratch& s) const;

  Shape shape_;
  std::int64_t group_, dim_, rotation_;
  bool whole_;  // KvPages::whole

  std::vector<Sequence> sequences_;
  std::vector<std::int64_t> first_row_;
  std::vector<Row> plan_;  // of all sequences
  std::vector<Item> items_;
  std::int64_t rows_ = 0;
  bool split_ = false;  // the chunks of a row are merged when it is read
  std::int64_t scratch_rows_ = 0;
  std::int64_t branch_pages_ = 0;           // most of a sequence
  std::int64_t stride_ = 0;                 // of a row's weights: a chunk, and the branches
  AlignedBuffer<std::int8_t> queries_;      // [kv_heads, rows, group, dim]
  AlignedBuffer<float> query_scales_;       // [kv_heads, rows, group]
  AlignedBuffer<std::int32_t> starts_;      // likewise
  AlignedBuffer<float> outputs_;            // [chunks, kv_heads, rows, group, dim]
  std::vector<kernel::SoftmaxPart> parts_;  // [chunks, kv_heads, rows, group]
  // Of each thread: floats, weights [scratch rows, stride], parts [scratch rows], pages of values.
  AlignedBuffer<float> scratch_;
  AlignedBuffer<std::uint8_t> weights_;
  std::vector<kernel::SoftmaxPart> thread_parts_;
  std::vector<const std::int8_t*> values_;
  std::vector<std::vector<Detour>> detours_;
};

}  // namespace forerun
