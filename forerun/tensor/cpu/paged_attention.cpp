#include "forerun/tensor/cpu/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace forerun {
namespace {

constexpr std::int64_t kChunk = 256;
constexpr std::int64_t kBlocks = kChunk / avx512::kKeys;
// Rows of one product that share the keys they read: four blocks of the kernel's six.
constexpr std::int64_t kRows = 24;
constexpr float kHidden = -std::numeric_limits<float>::infinity();

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

PagedAttention::PagedAttention(Shape shape)
    : shape_(shape),
      group_(shape.heads / shape.kv_heads),
      dim_(KvPages::padded(shape.head_dim)),
      product_(pair_product()) {}

void PagedAttention::plan(std::span<const Lane> lanes, int threads, bool ahead) {
  lanes_.assign(lanes.begin(), lanes.end());
  first_row_.clear();
  chunks_of_row_.clear();
  items_.clear();
  rows_ = 0;
  std::int64_t most_chunks = 1, blocks = 0;
  const std::int64_t positions = std::max<std::int64_t>(1, kRows / group_);
  for (const Lane& lane : lanes_) {
    first_row_.push_back(rows_);
    rows_ += lane.rows;
    for (std::int64_t i = 0; i < lane.rows; ++i) {
      chunks_of_row_.push_back(ceil_div(lane.length + (ahead ? lane.rows : i + 1), kChunk));
    }
    most_chunks = std::max(most_chunks, ceil_div(lane.length + lane.rows, kChunk));
    blocks += ceil_div(lane.rows, positions) * shape_.kv_heads;
  }
  // Few rows: their chunks are spread over the threads, if what they hold meanwhile is no burden.
  constexpr std::int64_t kMostHeld = std::int64_t{1} << 22;  // floats
  split_ = most_chunks > 1 && blocks < 4 * threads &&
           rows_ * shape_.heads * most_chunks * dim_ <= kMostHeld;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    // Items that read the same keys follow each other: the second finds them in the cache.
    for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
      for (std::int64_t first = 0; first < lane.rows; first += positions) {
        const std::int64_t count = std::min(positions, lane.rows - first);
        const std::int64_t seen = ahead ? lane.rows : first + count;
        const std::int64_t chunks = ceil_div(lane.length + seen, kChunk);
        if (!split_) items_.push_back({l, head, first, count, 0, chunks});
        for (std::int64_t c = 0; split_ && c < chunks; ++c) {
          items_.push_back({l, head, first, count, c, 1});
        }
      }
    }
  }
  const std::int64_t slots = rows_ * shape_.heads * (split_ ? most_chunks : 1);
  const auto old = queries_.size();
  queries_.room_for(static_cast<std::size_t>(rows_ * shape_.heads * dim_));
  if (queries_.size() != old) std::fill_n(queries_.data(), queries_.size(), std::uint16_t{0});
  outputs_.room_for(static_cast<std::size_t>(slots * dim_));
  if (parts_.size() < static_cast<std::size_t>(slots)) {
    parts_.resize(static_cast<std::size_t>(slots));
  }
  scratch_rows_ = positions * group_;
  const auto scratch = static_cast<std::size_t>(threads * scratch_rows_);
  scores_.room_for(scratch * kChunk);
  weights_.room_for(scratch * kChunk);
  part_.room_for(scratch * static_cast<std::size_t>(dim_));
}

void PagedAttention::attend(ThreadTeam::Worker& worker, std::int64_t layer, const Sight& sight) {
  worker.each(static_cast<std::int64_t>(items_.size()), 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const Item& item = items_[static_cast<std::size_t>(i)];
      for (std::int64_t c = item.chunk; c < item.chunk + item.chunks; ++c) {
        attend_chunk(item, c, layer, sight, worker.index());
      }
    }
  });
}

void PagedAttention::mask(float* scores, std::int64_t position, std::int64_t begin, std::int64_t n,
                          const Lane& lane, const Sight& sight) const {
  if (shape_.softcap > 0.0) {
    const auto cap = static_cast<float>(shape_.softcap);
    for (std::int64_t j = 0; j < n; ++j) scores[j] = cap * std::tanh(scores[j] / cap);
  }
  std::int64_t behind = sight.causal ? position + 1 : lane.length + lane.rows;
  if (sight.window > 0) behind = std::min(behind, position + sight.window);
  const std::int64_t end = std::clamp<std::int64_t>(behind - begin, 0, n);
  std::fill(scores + end, scores + n, kHidden);
  if (sight.window == 0) return;
  const std::int64_t seen = std::clamp<std::int64_t>(position + 1 - sight.window - begin, 0, n);
  std::fill(scores, scores + seen, kHidden);
}

bool PagedAttention::out_of_sight(const Item& item, const Lane& lane, const Sight& sight,
                                  std::int64_t begin, std::int64_t end) noexcept {
  const std::int64_t first = lane.length + item.first, last = first + item.count - 1;
  return (sight.causal && begin > last) || (sight.window > 0 && first + 1 - sight.window >= end);
}

void PagedAttention::attend_chunk(const Item& item, std::int64_t chunk, std::int64_t layer,
                                  const Sight& sight, int thread) {
  const Lane& lane = lanes_[item.lane];
  const std::int64_t rows = item.count * group_;
  const std::int64_t begin = chunk * kChunk;
  const std::int64_t last =  // position that the item sees at most
      lane.length + (sight.causal ? item.first + item.count : lane.rows) - 1;
  const std::int64_t blocks = std::min(kBlocks, ceil_div(last + 1 - begin, avx512::kKeys));
  const std::int64_t n = blocks * avx512::kKeys;
  const std::int64_t slot = index(first_row_[item.lane] + item.first, item.kv_head * group_);
  const std::int64_t offset = thread * scratch_rows_;
  float* scores = scores_.data() + offset * kChunk;
  std::uint16_t* weights = weights_.data() + offset * kChunk;
  const bool in_place = split_ || chunk == 0;
  const std::int64_t place = (split_ ? chunk * rows_ * shape_.heads : 0) + slot;
  float* out = in_place ? outputs_.data() + place * dim_ : part_.data() + offset * dim_;

  if (out_of_sight(item, lane, sight, begin, begin + n)) {
    if (in_place) std::fill_n(parts_.begin() + place, rows, avx512::SoftmaxPart{kHidden, 0.0F});
    return;
  }
  const std::int64_t page = chunk * kBlocks;
  for (std::int64_t b = 0; b < blocks; ++b) {
    product_({.a = queries_.data() + slot * dim_,
              .a_stride = dim_,
              .b = lane.pages->keys(layer, item.kv_head, page + b),
              .b_stride = 2 * avx512::kKeys,
              .c = scores + b * avx512::kKeys,
              .c_stride = kChunk,
              .rows = rows,
              .pairs = dim_ / 2,
              .columns = avx512::kKeys,
              .add = false,
              .next = b + 1 < blocks ? lane.pages->keys(layer, item.kv_head, page + b + 1)
                                     : lane.pages->values(layer, item.kv_head, page)});
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    mask(scores + r * kChunk, lane.length + item.first + r / group_, begin, n, lane, sight);
    const avx512::SoftmaxPart part = avx512::exp_row(scores + r * kChunk, n, weights + r * kChunk);
    if (in_place) {
      parts_[static_cast<std::size_t>(place + r)] = part;
    } else {
      scores[r * kChunk] = part.max;  // its scores are no longer needed
      scores[r * kChunk + 1] = part.sum;
    }
  }
  for (std::int64_t b = 0; b < blocks; ++b) {
    product_(
        {.a = weights + b * avx512::kKeys,
         .a_stride = kChunk,
         .b = lane.pages->values(layer, item.kv_head, page + b),
         .b_stride = 2 * dim_,
         .c = out,
         .c_stride = dim_,
         .rows = rows,
         .pairs = avx512::kKeys / 2,
         .columns = dim_,
         .add = b > 0,
         .next = b + 1 < blocks ? lane.pages->values(layer, item.kv_head, page + b + 1) : nullptr});
  }
  if (in_place) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    avx512::merge_softmax(outputs_.data() + (place + r) * dim_,
                          &parts_[static_cast<std::size_t>(place + r)], out + r * dim_,
                          {scores[r * kChunk], scores[r * kChunk + 1]}, dim_);
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
  std::copy_n(sum, shape_.head_dim, out);
  avx512::scale_row(out, shape_.head_dim, 1.0F / total.sum);
}

}  // namespace forerun
