#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/avx512/int8_attention.h"
#include "forerun/tensor/cpu/kv_pages.h"
#include "forerun/tensor/cpu/thread_team.h"

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
  /// The rows of one sequence: `rows` new positions after `length` kept ones.
  struct Sequence {
    const KvPages* pages;
    std::int64_t length, rows;
  };

  /// Attention mask of the rows of a layer.
  struct Visibility {
    std::int64_t window = 0;  ///< positions closer than this; 0 = any
    bool causal = true;       ///< else also the new rows after them
  };

  explicit PagedAttention(Shape shape);

  /// Sets up a pass; allocates only if it is larger than previous ones.
  /// @param ahead  some layer of it is not causal
  void plan(std::span<const Sequence> sequences, int threads, bool ahead = false);
  /// The query of packed row `row` and head `head`, [head_dim] float32 after the rotary embedding;
  /// scores are its products with the keys, times `scale`.
  void set_query(std::int64_t row, std::int64_t head, const float* q, float scale);
  /// The layer's attention, as a phase of a job. Keys and values of the new rows are in the pages.
  void attend(ThreadTeam::Worker& worker, std::int64_t layer, const Visibility& mask);
  /// The output of a row and head, [head_dim] float32; call it once.
  void output(std::int64_t row, std::int64_t head, float* out);

 private:
  struct Item {
    std::size_t sequence;
    std::int64_t kv_head, first, count;  // positions of the sequence's new rows
    std::int64_t chunk, chunks;          // from chunk to chunk + chunks
  };
  // Index of a row and head in buffers that keep the rows of a key head together.
  std::int64_t index(std::int64_t row, std::int64_t head) const noexcept {
    return (head / group_ * rows_ + row) * group_ + head % group_;
  }
  // Working memory of a thread.
  struct Scratch {
    float *scores, *units, *out;
    std::uint8_t* weights;
    avx512::SoftmaxPart* parts;
  };
  // Whether no row of the item sees a key of positions [begin, end).
  static bool all_hidden(const Item& item, const Sequence& sequence, const Visibility& mask,
                         std::int64_t begin, std::int64_t end) noexcept;
  // The keys of [begin, begin + 256) that the sequence's row at `position` sees.
  static avx512::Seen seen_of(std::int64_t position, std::int64_t begin, const Sequence& sequence,
                              const Visibility& mask) noexcept;
  std::int64_t scratch_size() const noexcept;  // floats of a thread
  Scratch scratch(int thread) noexcept;
  // @param next  keys that this thread needs next, or null
  void attend_chunk(const Item& item, std::int64_t chunk, std::int64_t layer,
                    const Visibility& mask, const Scratch& s, const std::uint8_t* next);
  // The first keys of item `i`, or null after the last.
  const std::uint8_t* keys_of(std::size_t i, std::int64_t layer) const noexcept;
  // Scores of the item's rows with `blocks` pages from `page` on; then their weights, whose softmax
  // parts go to `parts`.
  void score(const Item& item, std::int64_t layer, std::int64_t page, std::int64_t blocks,
             const Scratch& s);
  void weigh(const Item& item, std::int64_t layer, std::int64_t chunk, std::int64_t blocks,
             const Visibility& mask, const Scratch& s, avx512::SoftmaxPart* parts);

  Shape shape_;
  std::int64_t group_, dim_, rotation_;

  std::vector<Sequence> sequences_;
  std::vector<std::int64_t> first_row_;
  std::vector<std::int64_t> chunks_of_row_;
  std::vector<Item> items_;
  std::int64_t rows_ = 0;
  bool split_ = false;  // the chunks of a row are merged when it is read
  std::int64_t scratch_rows_ = 0;
  AlignedBuffer<std::int8_t> queries_;      // [kv_heads, rows, group, dim]
  AlignedBuffer<float> query_scales_;       // [kv_heads, rows, group]
  AlignedBuffer<std::int32_t> starts_;      // likewise
  AlignedBuffer<float> outputs_;            // [chunks, kv_heads, rows, group, dim]
  std::vector<avx512::SoftmaxPart> parts_;  // [chunks, kv_heads, rows, group]
  // Of each thread: floats, weights [scratch rows, 256], parts [scratch rows].
  AlignedBuffer<float> scratch_;
  AlignedBuffer<std::uint8_t> weights_;
  std::vector<avx512::SoftmaxPart> thread_parts_;
};

}  // namespace forerun
