#include "forerun/models/int8_lora.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "forerun/models/int8_block.h"
#include "forerun/models/int8_mlp.h"

namespace forerun {

namespace k = kernel;

namespace {

// The panels of a layer's outputs that are not zero.
// @param weights  [outputs, rank]
Int8BlockLora::Up pack_up(const at::Tensor& weights, std::int64_t first_rank, Arena& arena) {
  const std::int64_t outputs = weights.size(0);
  std::vector<at::Tensor> kept;
  std::vector<std::int32_t> place;
  for (std::int64_t at = 0; at < outputs; at += k::kPanel) {
    const at::Tensor panel = weights.narrow(0, at, std::min(k::kPanel, outputs - at));
    const bool zero = at::equal(panel, at::zeros_like(panel));
    place.push_back(zero ? -1 : static_cast<std::int32_t>(kept.size()));
    if (!zero) kept.push_back(panel);
  }
  Int8Matrix packed;
  if (!kept.empty()) packed = Int8Matrix::pack(at::cat(kept), {}, arena);
  return {.weights = std::move(packed), .place = std::move(place), .first_rank = first_rank};
}

}  // namespace

Int8BlockLora Int8BlockLora::pack(const BlockLora& b, Arena& arena) {
  const auto pair = [&](std::initializer_list<const BlockLora::Pair*> parts, bool gates) {
    if (!(*parts.begin())->a.defined()) return Pair{};
    std::vector<at::Tensor> down;
    std::int64_t outputs = 0;
    for (const BlockLora::Pair* p : parts) {
      down.push_back(plain_values(p->a));
      outputs += p->b.size(0);
    }
    Pair out{.down = Int8Matrix::pack(at::cat(down), {}, arena), .ups = {}};
    std::int64_t first_output = 0, first_rank = 0;
    for (const BlockLora::Pair* p : parts) {
      at::Tensor all = at::zeros({outputs, p->b.size(1)}, at::kFloat);
      all.narrow(0, first_output, p->b.size(0)).copy_(p->b.detach());
      if (gates) all = Int8Mlp::by_turns(outputs / 2).of(all);
      out.ups.push_back(pack_up(all, first_rank, arena));
      first_output += p->b.size(0);
      first_rank += p->b.size(1);
    }
    return out;
  };
  return {.qkv = pair({&b.q, &b.k, &b.v}, false),
          .output = pair({&b.output}, false),
          .gate_up = pair({&b.gate, &b.up}, true),
          .down = pair({&b.down}, false)};
}

void Int8AdaptedRows::add(std::int64_t first, std::int64_t rows,
                          const std::vector<Int8BlockLora>& layers) {
  const std::int64_t low = empty() ? 0 : runs_.back().low + runs_.back().rows;
  runs_.push_back({.first = first, .rows = rows, .low = low, .layers = &layers});
}

void Int8AdaptedRows::start() {
  if (empty()) return;
  std::int64_t ranks = 0, inputs = 0;
  most_rank_ = 0;
  for (const Run& run : runs_) {
    const Int8BlockLora& layer = run.layers->front();
    for (const Int8BlockLora::Pair* pair :
         {&layer.qkv, &layer.output, &layer.gate_up, &layer.down}) {
      if (pair->ups.empty()) continue;
      ranks = std::max(ranks, pair->down.outputs());
      inputs = std::max(inputs, pair->down.inputs());
      // Places that share an input have one rank.
      most_rank_ = std::max(most_rank_, pair->down.outputs() - pair->ups.back().first_rank);
    }
  }
  const std::int64_t rows = runs_.back().low + runs_.back().rows;
  width_ = ranks + k::rotated_width(most_rank_);
  inputs_ = inputs_room_.room_for(rows, inputs);
  low_ = low_room_.room_for(static_cast<std::size_t>(rows * width_));
  for (std::size_t up = 0; up < kUps; ++up) {
    low_rows_[up] = rows_room_[up].room_for(rows, most_rank_);
  }
}

// The rows of a run, as wide as its rank asks for.
k::Int8Rows Int8AdaptedRows::low_rows(const Run& run, std::size_t up,
                                      std::int64_t rank) const noexcept {
  k::Int8Rows out = k::rows_from(low_rows_[up], run.low);
  out.width = k::rotated_width(rank);
  return out;
}

// Rows [from, to) of grouped ones, rotated: adapters are in int8.
k::Int8Rows Int8AdaptedRows::rotated(const Run& run, const k::Int8Rows& x, std::int64_t from,
                                     std::int64_t to, std::int64_t inputs, float* work) const {
  k::Int8Rows out = k::rows_from(inputs_, run.low);
  out.width = k::rotated_width(inputs);
  out = k::rows_from(out, from - run.first);
  for (std::int64_t r = from; r < to; ++r) {
    const k::Int8Rows row = k::rows_from(x, r);
    for (std::int64_t i = 0; i < inputs; ++i) {
      work[i] = static_cast<float>(row.values[i]) * row.groups[i / k::kGroup].scale;
    }
    kernels().quantize_row(work, inputs, out, r - from, work);
  }
  return out;
}

void Int8AdaptedRows::lower(std::int64_t layer, Int8LoraPlace place, const k::Int8Rows& x,
                            std::int64_t begin, std::int64_t end, float* work) const {
  for (const Run& run : runs_) {
    const std::int64_t from = std::max(begin, run.first), to = std::min(end, run.first + run.rows);
    if (from >= to) continue;
    const Int8BlockLora::Pair& pair = (*run.layers)[static_cast<std::size_t>(layer)].*place;
    if (pair.ups.empty()) continue;
    float* low = low_ + (run.low + from - run.first) * width_;
    const k::Int8Rows in =
        x.grouped ? rotated(run, x, from, to, pair.down.inputs(), work) : k::rows_from(x, from);
    pair.down.multiply(0, pair.down.panels(), in, to - from, low, width_, false);
    for (std::size_t u = 0; u < pair.ups.size(); ++u) {
      const std::int64_t first_rank = pair.ups[u].first_rank;
      const std::int64_t rank =
          (u + 1 < pair.ups.size() ? pair.ups[u + 1].first_rank : pair.down.outputs()) - first_rank;
      const k::Int8Rows rows = low_rows(run, u, rank);
      for (std::int64_t r = 0; r < to - from; ++r) {
        kernels().quantize_row(low + r * width_ + first_rank, rank, rows, from - run.first + r,
                               low + (r + 1) * width_ - k::rotated_width(most_rank_));
      }
    }
  }
}

void Int8AdaptedRows::raise(std::int64_t layer, Int8LoraPlace place, std::int64_t first,
                            std::int64_t last, std::int64_t begin, std::int64_t end, float* out,
                            std::int64_t stride) const {
  for (const Run& run : runs_) {
    const std::int64_t from = std::max(begin, run.first), to = std::min(end, run.first + run.rows);
    if (from >= to) continue;
    const Int8BlockLora::Pair& pair = (*run.layers)[static_cast<std::size_t>(layer)].*place;
    for (std::size_t u = 0; u < pair.ups.size(); ++u) {
      const Int8BlockLora::Up& up = pair.ups[u];
      if (up.weights.outputs() == 0) continue;
      const k::Int8Rows x = k::rows_from(low_rows(run, u, up.weights.inputs()), from - run.first);
      for (std::int64_t p = first; p < last; ++p) {
        const std::int64_t at = up.place[static_cast<std::size_t>(p)];
        if (at < 0) continue;
        up.weights.multiply(at, at + 1, x, to - from,
                            out + (from - begin) * stride + (p - first) * k::kPanel, stride, true);
      }
    }
  }
}

}  // namespace forerun
