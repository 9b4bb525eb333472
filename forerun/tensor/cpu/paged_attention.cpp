#include "forerun/tensor/cpu/paged_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace forerun {
namespace {

using kernel::kChunk;
constexpr std::int64_t kBlocks = kChunk / kernel::kKeys;
// Rows of one product that share their keys: four tiles of the kernel's.
constexpr std::int64_t kTile = 6, kRows = 4 * kTile;
constexpr float kHidden = -std::numeric_limits<float>::infinity();

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

PagedAttention::PagedAttention(Shape shape)
    : shape_(shape),
      group_(shape.heads / shape.kv_heads),
      dim_(KvPages::padded(shape.head_dim)),
      rotation_(KvPages::rotation(shape.head_dim)),
      whole_(KvPages::whole(shape.head_dim)) {}

void PagedAttention::add_rows(const Sequence& sequence) {
  const RowPlan* plan =
      sequence.plan != nullptr && !sequence.plan->chain() ? sequence.plan : nullptr;
  for (std::int64_t i = 0; i < sequence.rows; ++i) {
    if (plan == nullptr) {
      const std::int64_t end = sequence.length + i + 1;
      plan_.push_back({end - 1, end, end, {}});
      continue;
    }
    const auto seen = plan->seen(i);
    std::int64_t ordered = 0;
    for (const auto end = static_cast<std::int64_t>(seen.size());
         ordered < end && ordered < plan->straight() &&
         seen[static_cast<std::size_t>(ordered)] == ordered;) {
      ++ordered;
    }
    plan_.push_back({sequence.length + plan->depth(i),
                     sequence.length + static_cast<std::int64_t>(seen.size()),
                     sequence.length + ordered, seen});
  }
  if (plan != nullptr) {
    branch_pages_ = std::max(branch_pages_, ceil_div(plan->branches(), kernel::kKeys));
  }
}

PagedAttention::Item PagedAttention::item_of(std::size_t sequence, std::int64_t kv_head,
                                             std::int64_t first, std::int64_t count) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Item item{.sequence = sequence,
            .kv_head = kv_head,
            .first = first,
            .count = count,
            .lowest = kMost,
            .ordered = kMost};
  for (std::int64_t i = 0; i < count; ++i) {
    const Row& row = plan_[static_cast<std::size_t>(first_row_[sequence] + first + i)];
    item.lowest = std::min(item.lowest, row.position);
    item.causal_end = std::max(item.causal_end, row.position + 1);
    item.end = std::max(item.end, row.end);
    if (row.ordered < row.end) item.ordered = std::min(item.ordered, row.ordered);
  }
  item.chunks = ceil_div(item.end, kChunk);
  return item;
}

std::int64_t PagedAttention::items_of(std::int64_t positions) const noexcept {
  std::int64_t items = 0;
  for (const Sequence& sequence : sequences_) {
    items += ceil_div(sequence.rows, positions) * shape_.kv_heads;
  }
  return items;
}

// Of few rows fewer at a time, down to a tile of the kernel: every thread has some of them.
std::int64_t PagedAttention::positions_of_items(int threads) const noexcept {
  std::int64_t positions = std::max<std::int64_t>(1, kRows / group_);
  while (positions > 1 && positions * group_ > kTile && items_of(positions) < 2 * threads) {
    positions = (positions + 1) / 2;
  }
  return positions;
}

void PagedAttention::plan(std::span<const Sequence> sequences, int threads) {
  sequences_.assign(sequences.begin(), sequences.end());
  first_row_.clear();
  plan_.clear();
  items_.clear();
  branch_pages_ = 0;
  std::int64_t end = 1;
  for (const Sequence& sequence : sequences_) {
    first_row_.push_back(static_cast<std::int64_t>(plan_.size()));
    add_rows(sequence);
  }
  const std::int64_t positions = positions_of_items(threads), blocks = items_of(positions);
  rows_ = static_cast<std::int64_t>(plan_.size());
  for (const Row& row : plan_) end = std::max(end, row.end);
  const std::int64_t most_chunks = ceil_div(end, kChunk);
  // Few rows: their chunks are spread over the threads, if the intermediate results are small.
  constexpr std::int64_t kMostHeld = std::int64_t{1} << 22;  // floats
  split_ = most_chunks > 1 && blocks < 4 * threads &&
           rows_ * shape_.heads * most_chunks * dim_ <= kMostHeld;
  for (std::size_t l = 0; l < sequences_.size(); ++l) {
    const Sequence& sequence = sequences_[l];
    // Items that read the same keys are adjacent: the second finds them in the cache.
    for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
      for (std::int64_t first = 0; first < sequence.rows; first += positions) {
        Item item = item_of(l, head, first, std::min(positions, sequence.rows - first));
        if (!split_) items_.push_back(item);
        const std::int64_t chunks = split_ ? std::exchange(item.chunks, 1) : 0;
        for (item.chunk = 0; item.chunk < chunks; ++item.chunk) items_.push_back(item);
      }
    }
  }
  make_room(threads, split_ ? most_chunks : 1);
}

void PagedAttention::make_room(int threads, std::int64_t chunks) {
  const std::int64_t slots = rows_ * shape_.heads * chunks;
  const auto queries = static_cast<std::size_t>(rows_ * shape_.heads);
  queries_.room_for(queries * static_cast<std::size_t>(dim_));
  query_scales_.room_for(queries);
  starts_.room_for(queries);
  outputs_.room_for(static_cast<std::size_t>(slots * dim_));
  if (parts_.size() < static_cast<std::size_t>(slots)) {
    parts_.resize(static_cast<std::size_t>(slots));
  }
  scratch_rows_ = std::max<std::int64_t>(1, kRows / group_) * group_;
  stride_ = kChunk + branch_pages_ * kernel::kKeys;
  scratch_.room_for(static_cast<std::size_t>(threads * scratch_size()));
  weights_.room_for(static_cast<std::size_t>(threads * scratch_rows_ * stride_));
  thread_parts_.resize(static_cast<std::size_t>(threads * scratch_rows_));
  values_.resize(static_cast<std::size_t>(threads * (kBlocks + branch_pages_)));
  detours_.resize(static_cast<std::size_t>(threads));
}

void PagedAttention::set_query(std::int64_t row, std::int64_t head, const float* q, float scale) {
  const std::int64_t slot = index(row, head);
  const kernel::Rounded q8 = KvPages::round_head(q, shape_.head_dim, queries_.data() + slot * dim_);
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

// Scores, outputs, units and scores of branches, one after the other.
std::int64_t PagedAttention::scratch_size() const noexcept {
  return ceil_div(scratch_rows_ * (stride_ + dim_ + 1), 16) * 16;
}

PagedAttention::Scratch PagedAttention::scratch(int thread) noexcept {
  Scratch s{};
  s.scores = scratch_.data() + thread * scratch_size();
  s.out = s.scores + scratch_rows_ * kChunk;
  s.units = s.out + scratch_rows_ * dim_;
  s.branch_scores = s.units + scratch_rows_;
  s.weights = weights_.data() + thread * scratch_rows_ * stride_;
  s.parts = thread_parts_.data() + thread * scratch_rows_;
  s.values = values_.data() + thread * (kBlocks + branch_pages_);
  s.detours = &detours_[static_cast<std::size_t>(thread)];
  return s;
}

kernel::Seen PagedAttention::seen_of(const Row& row, std::int64_t begin,
                                     const Visibility& mask) noexcept {
  std::int64_t end = mask.groups ? row.end : row.position + 1;
  if (mask.window > 0) end = std::min(end, row.position + mask.window);
  const std::int64_t first = mask.window > 0 ? row.position + 1 - mask.window : 0;
  return {std::clamp<std::int64_t>(first - begin, 0, kChunk),
          std::clamp<std::int64_t>(end - begin, 0, kChunk)};
}

void PagedAttention::find_detours(const Row& row, const Sequence& sequence, std::int64_t begin,
                                  const kernel::Seen& seen, std::vector<Detour>& detours) {
  detours.clear();
  if (row.ordered >= row.end) return;
  const std::int64_t straight = sequence.plan->straight();
  for (std::int64_t at = std::max(seen.begin, row.ordered - begin); at < seen.end; ++at) {
    const std::int64_t from = row.seen[static_cast<std::size_t>(begin + at - sequence.length)];
    if (from < 0 || from >= straight) detours.push_back({at, from < 0 ? -1 : from - straight});
  }
}

const std::uint8_t* PagedAttention::keys_of(std::size_t i, std::int64_t layer) const noexcept {
  if (i >= items_.size()) return nullptr;
  const Item& item = items_[i];
  return sequences_[item.sequence].pages->keys(layer, item.kv_head, item.chunk * kBlocks);
}

void PagedAttention::score_page(const Item& item, std::int64_t layer, std::int64_t page, float* out,
                                std::int64_t stride, const std::uint8_t* next) {
  const KvPages& pages = *sequences_[item.sequence].pages;
  const std::int64_t slot = index(first_row_[item.sequence] + item.first, item.kv_head * group_);
  const float* key_scales = pages.key_scales(layer, item.kv_head, page);
  for (std::int64_t i = 0; i < 2 * kernel::kKeys; i += 16) __builtin_prefetch(key_scales + i);
  kernels().key_product(
      {.q = queries_.data() + slot * dim_,
       .starts = starts_.data() + slot,
       .keys = pages.keys(layer, item.kv_head, page),
       .key_scales = key_scales,
       .out = out,
       .stride = stride,
       .rows = item.count * group_,
       .quads = dim_ / 4,
       .next = next,
       .also = reinterpret_cast<const std::uint8_t*>(pages.values(layer, item.kv_head, page))});
}

void PagedAttention::score(const Item& item, std::int64_t layer, const Extent& extent,
                           const Scratch& s) {
  const KvPages& pages = *sequences_[item.sequence].pages;
  const std::int64_t branches = pages.capacity() / kernel::kKeys;
  for (std::int64_t b = 0; b < extent.blocks; ++b) {
    score_page(
        item, layer, extent.page + b, s.scores + b * kernel::kKeys, kChunk,
        b + 1 < extent.blocks ? pages.keys(layer, item.kv_head, extent.page + b + 1) : nullptr);
  }
  for (std::int64_t b = 0; b < extent.branches; ++b) {
    score_page(item, layer, branches + b, s.branch_scores + b * kernel::kKeys,
               extent.branches * kernel::kKeys, nullptr);
  }
}

void PagedAttention::weigh(const Item& item, std::int64_t layer, std::int64_t chunk,
                           const Extent& extent, const Visibility& mask, const Scratch& s,
                           kernel::SoftmaxPart* parts) {
  const Sequence& sequence = sequences_[item.sequence];
  const KvPages& pages = *sequence.pages;
  std::array<float, kChunk> scales, own;
  for (std::int64_t b = 0; b < extent.blocks; ++b) {
    std::copy_n(pages.value_scales(layer, item.kv_head, extent.page + b), kernel::kKeys,
                scales.data() + b * kernel::kKeys);
  }
  const std::int64_t first = first_row_[item.sequence] + item.first;
  const float* query_scales = query_scales_.data() + index(first, item.kv_head * group_);
  for (std::int64_t i = 0; i < item.count; ++i) {
    const Row& row = plan_[static_cast<std::size_t>(first + i)];
    const kernel::Seen seen = seen_of(row, chunk * kChunk, mask);
    const float* value_scales = scales.data();
    find_detours(row, sequence, chunk * kChunk, seen, *s.detours);
    if (!s.detours->empty()) {
      std::copy_n(scales.data(), extent.blocks * kernel::kKeys, own.data());
      for (const Detour& d : *s.detours) {
        if (d.branch < 0) {  // nothing was written there
          own[static_cast<std::size_t>(d.at)] = 0.0F;
          continue;
        }
        const std::int64_t place = pages.capacity() + d.branch;
        own[static_cast<std::size_t>(d.at)] =
            pages.value_scales(layer, item.kv_head, place / kernel::kKeys)[place % kernel::kKeys];
      }
      value_scales = own.data();
    }
    for (std::int64_t r = i * group_; r < (i + 1) * group_; ++r) {
      parts[r] = weigh_row(r, query_scales[r], value_scales, seen, extent, s);
    }
  }
}

// Scores and weights of branches take part at their positions, as if they were in the pages there.
kernel::SoftmaxPart PagedAttention::weigh_row(std::int64_t row, float scale,
                                              const float* value_scales, const kernel::Seen& seen,
                                              const Extent& extent, const Scratch& s) const {
  float* scores = s.scores + row * kChunk;
  std::uint8_t* weights = s.weights + row * stride_;
  const std::int64_t n = extent.blocks * kernel::kKeys, branches = extent.branches * kernel::kKeys;
  bool holes = false;
  for (const Detour& d : *s.detours) {
    if (d.branch >= 0) scores[d.at] = s.branch_scores[row * branches + d.branch];
    holes |= d.branch < 0;
  }
  if (shape_.softcap > 0.0) {
    const auto cap = static_cast<float>(shape_.softcap);
    for (std::int64_t j = seen.begin; j < seen.end; ++j) {
      scores[j] = cap * std::tanh(scores[j] * scale / cap);
    }
    scale = 1.0F;
  } else if (holes) {
    for (std::int64_t j = seen.begin; j < seen.end; ++j) scores[j] *= scale;
    scale = 1.0F;  // infinity times a scale of zero would be NaN
  }
  for (const Detour& d : *s.detours) {
    if (d.branch < 0) scores[d.at] = kHidden;
  }
  const kernel::SoftmaxPart part =
      kernels().weigh_row(scores, scale, value_scales, seen, n, weights, s.units + row);
  std::fill_n(weights + n, branches, std::uint8_t{0});
  for (const Detour& d : *s.detours) {
    if (d.branch >= 0) weights[n + d.branch] = std::exchange(weights[d.at], std::uint8_t{0});
  }
  return part;
}

void PagedAttention::attend_chunk(const Item& item, std::int64_t chunk, std::int64_t layer,
                                  const Visibility& mask, const Scratch& s,
                                  const std::uint8_t* next) {
  const Sequence& sequence = sequences_[item.sequence];
  const KvPages& pages = *sequence.pages;
  const std::int64_t rows = item.count * group_;
  const std::int64_t begin = chunk * kChunk, end = mask.groups ? item.end : item.causal_end;
  const std::int64_t slot = index(first_row_[item.sequence] + item.first, item.kv_head * group_);
  const bool in_place = split_ || chunk == 0;
  const std::int64_t place = (split_ ? chunk * rows_ * shape_.heads : 0) + slot;
  Extent extent{chunk * kBlocks, std::min(kBlocks, ceil_div(end - begin, kernel::kKeys)), 0};

  if (begin >= end ||
      (mask.window > 0 && item.lowest + 1 - mask.window >= begin + extent.blocks * kernel::kKeys)) {
    if (in_place) std::fill_n(parts_.begin() + place, rows, kernel::SoftmaxPart{kHidden, 0.0F});
    return;
  }
  if (item.ordered < std::min(end, begin + kChunk)) {
    extent.branches = ceil_div(sequence.plan->branches(), kernel::kKeys);
  }
  score(item, layer, extent, s);
  kernel::SoftmaxPart* parts = in_place ? parts_.data() + place : s.parts;
  weigh(item, layer, chunk, extent, mask, s, parts);
  const std::int64_t branches = pages.capacity() / kernel::kKeys;
  for (std::int64_t b = 0; b < extent.blocks + extent.branches; ++b) {
    s.values[b] = pages.values(layer, item.kv_head,
                               b < extent.blocks ? extent.page + b : branches + b - extent.blocks);
  }
  float* out = in_place ? outputs_.data() + place * dim_ : s.out;
  kernels().value_product({.weights = s.weights,
                           .stride = stride_,
                           .values = s.values,
                           .pages = extent.blocks + extent.branches,
                           .rows = rows,
                           .columns = dim_,
                           .units = s.units,
                           .out = out,
                           .next = next});
  if (in_place) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    kernels().merge_softmax(outputs_.data() + (place + r) * dim_,
                            &parts_[static_cast<std::size_t>(place + r)], out + r * dim_, parts[r],
                            dim_);
  }
}

void PagedAttention::output(std::int64_t row, std::int64_t head, float* out,
                            const float* sink) const {
  thread_local AlignedBuffer<float> room;
  const std::int64_t slot = index(row, head);
  const float* sum = outputs_.data() + slot * dim_;
  kernel::SoftmaxPart total = parts_[static_cast<std::size_t>(slot)];
  const std::int64_t chunks =
      split_ ? ceil_div(plan_[static_cast<std::size_t>(row)].end, kChunk) : 1;
  if (chunks > 1 || !whole_) {
    float* own = room.room_for(static_cast<std::size_t>(dim_));
    std::copy_n(sum, dim_, own);  // another thread's, and left to it
    for (std::int64_t c = 1; c < chunks; ++c) {
      const std::int64_t place = c * rows_ * shape_.heads + slot;
      kernels().merge_softmax(own, &total, outputs_.data() + place * dim_,
                              parts_[static_cast<std::size_t>(place)], dim_);
    }
    sum = own;
  }
  // Of sum * e^max + e^sink the larger power is taken out: the other's is at most one.
  const bool above = sink != nullptr && *sink > total.max;
  const float power = above ? std::exp(total.max - *sink) : 1.0F;
  float all = total.sum * power;
  if (sink != nullptr) all += above ? 1.0F : std::exp(*sink - total.max);
  const float by = power / (all * static_cast<float>(rotation_));
  if (whole_) return kernels().turn_head_back(sum, dim_, by, out);
  float* own = room.data();
  kernels().hadamard_row(own, dim_, rotation_);
  std::copy_n(own, shape_.head_dim, out);
  kernels().scale_row(out, shape_.head_dim, by);
}

}  // namespace forerun
