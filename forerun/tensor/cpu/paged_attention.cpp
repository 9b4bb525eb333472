#include "forerun/tensor/cpu/paged_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace forerun {
namespace {

using avx512::kChunk;
constexpr std::int64_t kBlocks = kChunk / avx512::kKeys;
// Rows of one product that share their keys: four blocks of the kernel's six.
constexpr std::int64_t kRows = 24;
constexpr float kHidden = -std::numeric_limits<float>::infinity();

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

PagedAttention::PagedAttention(Shape shape)
    : shape_(shape),
      group_(shape.heads / shape.kv_heads),
      dim_(KvPages::padded(shape.head_dim)),
      rotation_(KvPages::rotation(shape.head_dim)) {}

void PagedAttention::plan(std::span<const Sequence> sequences, int threads, bool ahead) {
  sequences_.assign(sequences.begin(), sequences.end());
  first_row_.clear();
  chunks_of_row_.clear();
  items_.clear();
  rows_ = 0;
  std::int64_t most_chunks = 1, blocks = 0;
  const std::int64_t positions = std::max<std::int64_t>(1, kRows / group_);
  for (const Sequence& sequence : sequences_) {
    first_row_.push_back(rows_);
    rows_ += sequence.rows;
    for (std::int64_t i = 0; i < sequence.rows; ++i) {
      chunks_of_row_.push_back(ceil_div(sequence.length + (ahead ? sequence.rows : i + 1), kChunk));
    }
    most_chunks = std::max(most_chunks, ceil_div(sequence.length + sequence.rows, kChunk));
    blocks += ceil_div(sequence.rows, positions) * shape_.kv_heads;
  }
  // Few rows: their chunks are spread over the threads, if the intermediate results are small.
  constexpr std::int64_t kMostHeld = std::int64_t{1} << 22;  // floats
  split_ = most_chunks > 1 && blocks < 4 * threads &&
           rows_ * shape_.heads * most_chunks * dim_ <= kMostHeld;
  for (std::size_t l = 0; l < sequences_.size(); ++l) {
    const Sequence& sequence = sequences_[l];
    // Items that read the same keys are adjacent: the second finds them in the cache.
    for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
      for (std::int64_t first = 0; first < sequence.rows; first += positions) {
        const std::int64_t count = std::min(positions, sequence.rows - first);
        const std::int64_t seen = ahead ? sequence.rows : first + count;
        const std::int64_t chunks = ceil_div(sequence.length + seen, kChunk);
        if (!split_) items_.push_back({l, head, first, count, 0, chunks});
        for (std::int64_t c = 0; split_ && c < chunks; ++c) {
          items_.push_back({l, head, first, count, c, 1});
        }
      }
    }
  }
  const std::int64_t slots = rows_ * shape_.heads * (split_ ? most_chunks : 1);
  const auto queries = static_cast<std::size_t>(rows_ * shape_.heads);
  queries_.room_for(queries * static_cast<std::size_t>(dim_));
  query_scales_.room_for(queries);
  starts_.room_for(queries);
  outputs_.room_for(static_cast<std::size_t>(slots * dim_));
  if (parts_.size() < static_cast<std::size_t>(slots)) {
    parts_.resize(static_cast<std::size_t>(slots));
  }
  scratch_rows_ = positions * group_;
  scratch_.room_for(static_cast<std::size_t>(threads * scratch_size()));
  weights_.room_for(static_cast<std::size_t>(threads * scratch_rows_ * kChunk));
  thread_parts_.resize(static_cast<std::size_t>(threads * scratch_rows_));
}

void PagedAttention::set_query(std::int64_t row, std::int64_t head, const float* q, float scale) {
  const std::int64_t slot = index(row, head);
  const avx512::Rounded q8 = KvPages::round_head(q, shape_.head_dim, queries_.data() + slot * dim_);
  query_scales_.data()[slot] = q8.scale * scale / static_cast<float>(rotation_);
  starts_.data()[slot] = -128 * q8.sum;
}

void PagedAttention::attend(ThreadTeam::Worker& worker, std::int64_t layer,
                            const Visibility& mask) {
  worker.each(static_cast<std::int64_t>(items_.size()), 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const Item& item = items_[static_cast<std::size_t>(i)];
      const std::int64_t behind = item.chunk + item.chunks;
      for (std::int64_t c = item.chunk; c < behind; ++c) {
        const std::uint8_t* next = c + 1 < behind ? sequences_[item.sequence].pages->keys(
                                                        layer, item.kv_head, (c + 1) * kBlocks)
                                                  : keys_of(static_cast<std::size_t>(i) + 1, layer);
        attend_chunk(item, c, layer, mask, scratch(worker.index()), next);
      }
    }
  });
}

// Scores, outputs and units, one after the other.
std::int64_t PagedAttention::scratch_size() const noexcept {
  return ceil_div(scratch_rows_ * (kChunk + dim_ + 1), 16) * 16;
}

PagedAttention::Scratch PagedAttention::scratch(int thread) noexcept {
  Scratch s{};
  s.scores = scratch_.data() + thread * scratch_size();
  s.out = s.scores + scratch_rows_ * kChunk;
  s.units = s.out + scratch_rows_ * dim_;
  s.weights = weights_.data() + thread * scratch_rows_ * kChunk;
  s.parts = thread_parts_.data() + thread * scratch_rows_;
  return s;
}

avx512::Seen PagedAttention::seen_of(std::int64_t position, std::int64_t begin,
                                     const Sequence& sequence, const Visibility& mask) noexcept {
  std::int64_t end = mask.causal ? position + 1 : sequence.length + sequence.rows;
  if (mask.window > 0) end = std::min(end, position + mask.window);
  const std::int64_t first = mask.window > 0 ? position + 1 - mask.window : 0;
  return {std::clamp<std::int64_t>(first - begin, 0, kChunk),
          std::clamp<std::int64_t>(end - begin, 0, kChunk)};
}

bool PagedAttention::all_hidden(const Item& item, const Sequence& sequence, const Visibility& mask,
                                std::int64_t begin, std::int64_t end) noexcept {
  const std::int64_t first = sequence.length + item.first, last = first + item.count - 1;
  return (mask.causal && begin > last) || (mask.window > 0 && first + 1 - mask.window >= end);
}

const std::uint8_t* PagedAttention::keys_of(std::size_t i, std::int64_t layer) const noexcept {
  if (i >= items_.size()) return nullptr;
  const Item& item = items_[i];
  return sequences_[item.sequence].pages->keys(layer, item.kv_head, item.chunk * kBlocks);
}

void PagedAttention::score(const Item& item, std::int64_t layer, std::int64_t page,
                           std::int64_t blocks, const Scratch& s) {
  const KvPages& pages = *sequences_[item.sequence].pages;
  const std::int64_t slot = index(first_row_[item.sequence] + item.first, item.kv_head * group_);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float* key_scales = pages.key_scales(layer, item.kv_head, page + b);
    for (std::int64_t i = 0; i < 2 * avx512::kKeys; i += 16) __builtin_prefetch(key_scales + i);
    avx512::key_product(
        {.q = queries_.data() + slot * dim_,
         .starts = starts_.data() + slot,
         .keys = pages.keys(layer, item.kv_head, page + b),
         .key_scales = key_scales,
         .out = s.scores + b * avx512::kKeys,
         .stride = kChunk,
         .rows = item.count * group_,
         .quads = dim_ / 4,
         .next = b + 1 < blocks ? pages.keys(layer, item.kv_head, page + b + 1) : nullptr,
         .also =
             reinterpret_cast<const std::uint8_t*>(pages.values(layer, item.kv_head, page + b))});
  }
}

void PagedAttention::weigh(const Item& item, std::int64_t layer, std::int64_t chunk,
                           std::int64_t blocks, const Visibility& mask, const Scratch& s,
                           avx512::SoftmaxPart* parts) {
  const Sequence& sequence = sequences_[item.sequence];
  std::array<float, kChunk> scales;
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::copy_n(sequence.pages->value_scales(layer, item.kv_head, chunk * kBlocks + b),
                avx512::kKeys, scales.data() + b * avx512::kKeys);
  }
  const std::int64_t n = blocks * avx512::kKeys;
  const std::int64_t slot = index(first_row_[item.sequence] + item.first, item.kv_head * group_);
  for (std::int64_t i = 0; i < item.count; ++i) {
    const avx512::Seen seen =
        seen_of(sequence.length + item.first + i, chunk * kChunk, sequence, mask);
    for (std::int64_t r = i * group_; r < (i + 1) * group_; ++r) {
      float* scores = s.scores + r * kChunk;
      float scale = query_scales_.data()[slot + r];
      if (shape_.softcap > 0.0) {
        const auto cap = static_cast<float>(shape_.softcap);
        for (std::int64_t j = seen.begin; j < seen.end; ++j) {
          scores[j] = cap * std::tanh(scores[j] * scale / cap);
        }
        scale = 1.0F;
      }
      parts[r] = avx512::weigh_row(scores, scale, scales.data(), seen, n, s.weights + r * kChunk,
                                   s.units + r);
    }
  }
}

void PagedAttention::attend_chunk(const Item& item, std::int64_t chunk, std::int64_t layer,
                                  const Visibility& mask, const Scratch& s,
                                  const std::uint8_t* next) {
  const Sequence& sequence = sequences_[item.sequence];
  const std::int64_t rows = item.count * group_;
  const std::int64_t begin = chunk * kChunk;
  const std::int64_t last =  // largest position that the item sees
      sequence.length + (mask.causal ? item.first + item.count : sequence.rows) - 1;
  const std::int64_t blocks = std::min(kBlocks, ceil_div(last + 1 - begin, avx512::kKeys));
  const std::int64_t slot = index(first_row_[item.sequence] + item.first, item.kv_head * group_);
  const bool in_place = split_ || chunk == 0;
  const std::int64_t place = (split_ ? chunk * rows_ * shape_.heads : 0) + slot;

  if (all_hidden(item, sequence, mask, begin, begin + blocks * avx512::kKeys)) {
    if (in_place) std::fill_n(parts_.begin() + place, rows, avx512::SoftmaxPart{kHidden, 0.0F});
    return;
  }
  const std::int64_t page = chunk * kBlocks;
  score(item, layer, page, blocks, s);
  avx512::SoftmaxPart* parts = in_place ? parts_.data() + place : s.parts;
  weigh(item, layer, chunk, blocks, mask, s, parts);
  std::array<const std::int8_t*, kBlocks> values{};
  for (std::int64_t b = 0; b < blocks; ++b) {
    values[static_cast<std::size_t>(b)] = sequence.pages->values(layer, item.kv_head, page + b);
  }
  float* out = in_place ? outputs_.data() + place * dim_ : s.out;
  avx512::value_product({.weights = s.weights,
                         .values = values.data(),
                         .pages = blocks,
                         .rows = rows,
                         .columns = dim_,
                         .units = s.units,
                         .out = out,
                         .next = next});
  if (in_place) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    avx512::merge_softmax(outputs_.data() + (place + r) * dim_,
                          &parts_[static_cast<std::size_t>(place + r)], out + r * dim_, parts[r],
                          dim_);
  }
}

void PagedAttention::output(std::int64_t row, std::int64_t head, float* out) {
  const std::int64_t slot = index(row, head);
  float* sum = outputs_.data() + slot * dim_;
  avx512::SoftmaxPart total = parts_[static_cast<std::size_t>(slot)];
  const std::int64_t chunks = split_ ? chunks_of_row_[static_cast<std::size_t>(row)] : 1;
  for (std::int64_t c = 1; c < chunks; ++c) {
    const std::int64_t place = c * rows_ * shape_.heads + slot;
    avx512::merge_softmax(sum, &total, outputs_.data() + place * dim_,
                          parts_[static_cast<std::size_t>(place)], dim_);
  }
  avx512::hadamard_row(sum, dim_, rotation_);
  std::copy_n(sum, shape_.head_dim, out);
  avx512::scale_row(out, shape_.head_dim, 1.0F / (total.sum * static_cast<float>(rotation_)));
}

}  // namespace forerun
