#include "forerun/models/int8_lora.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <initializer_list>

#include "forerun/models/int8_block.h"
#include "forerun/models/int8_mlp.h"

namespace forerun {

namespace k = kernel;

Int8BlockLora Int8BlockLora::pack(const BlockLora& b, Arena& arena) {
  const auto pair = [&](std::initializer_list<const BlockLora::Pair*> parts, bool gates) {
    std::vector<at::Tensor> down, up;
    for (const BlockLora::Pair* p : parts) {
      down.push_back(plain_values(p->a));
      up.push_back(plain_values(p->b));
    }
    const at::Tensor all = at::block_diag(up).contiguous();
    return Pair{.down = Int8Matrix::pack(at::cat(down), {}, arena),
                .up = Int8Matrix::pack(gates ? Int8Mlp::by_turns(all) : all, {}, arena)};
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
  rows_ = width_ = 0;
  for (const Run& run : runs_) {
    rows_ += run.rows;
    width_ = std::max(width_, k::rotated_width(run.layers->front().qkv.down.outputs()));
  }
  if (empty()) return;
  low_ = low_room_.room_for(static_cast<std::size_t>(rows_ * width_));
  low_rows_ = rows_room_.room_for(rows_, width_);
}

// Rows of a run from `row` of it on, as wide as its rank asks for.
k::Int8Rows Int8AdaptedRows::low_rows(const Run& run, std::int64_t row,
                                      std::int64_t rank) const noexcept {
  k::Int8Rows out = k::rows_from(low_rows_, run.low + row);
  const std::int64_t width = k::rotated_width(rank);
  out.values = low_rows_.values + run.low * width_ + row * width;
  out.width = width;
  return out;
}

void Int8AdaptedRows::lower(Worker& worker, std::int64_t layer, Int8LoraPlace place,
                            const k::Int8Rows& x) {
  const std::int64_t grain =
      std::max<std::int64_t>(1, (rows_ + worker.count() - 1) / worker.count());
  worker.each(rows_, grain, [&](std::int64_t begin, std::int64_t end) {
    for (const Run& run : runs_) {
      const std::int64_t from = std::max(begin, run.low), to = std::min(end, run.low + run.rows);
      if (from >= to) continue;
      const Int8Matrix& down = ((*run.layers)[static_cast<std::size_t>(layer)].*place).down;
      const std::int64_t rank = down.outputs();
      down.multiply(0, down.panels(), k::rows_from(x, run.first + from - run.low), to - from,
                    low_ + from * width_, width_, false);
      const k::Int8Rows rows = low_rows(run, 0, rank);
      for (std::int64_t r = from; r < to; ++r) {
        kernels().quantize_row(low_ + r * width_, rank, rows, r - run.low, low_ + r * width_);
      }
    }
  });
}

void Int8AdaptedRows::raise(std::int64_t layer, Int8LoraPlace place, std::int64_t first,
                            std::int64_t last, std::int64_t begin, std::int64_t end, float* out,
                            std::int64_t stride) const {
  for (const Run& run : runs_) {
    const std::int64_t from = std::max(begin, run.first), to = std::min(end, run.first + run.rows);
    if (from >= to) continue;
    const Int8Matrix& up = ((*run.layers)[static_cast<std::size_t>(layer)].*place).up;
    up.multiply(first, last, low_rows(run, from - run.first, up.inputs()), to - from,
                out + (from - begin) * stride, stride, true);
  }
}

}  // namespace forerun
