#include "forerun/models/dflash/internal/block_attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace forerun::internal {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// [blocks, block or 1, rows] bool: which rows of a document a slot must not see.
at::Tensor hidden_rows(const at::Tensor& anchors, std::int64_t rows, std::int64_t block,
                       const LayerAttention& attention) {
  const at::Tensor anchor = anchors.view({-1, 1, 1});
  const at::Tensor row = at::arange(rows, anchors.device());
  // Strict: when a block is decoded, its anchor has no row yet.
  const at::Tensor late = row.ge(anchor);
  if (attention.window == 0) return late;
  const at::Tensor slot = at::arange(block, anchors.device()).view({1, -1, 1});
  return late.logical_or((anchor + slot - row).ge(attention.window));
}

// [block, block] bool: which slots (columns) a slot (rows) must not see. Undefined if it sees all.
at::Tensor hidden_slots(std::int64_t block, const LayerAttention& attention,
                        const at::Device& device) {
  const bool windowed = attention.window > 0 && attention.window < block;
  if (!attention.causal && !windowed) return {};
  const at::Tensor slot = at::arange(block, device);
  const at::Tensor ahead = slot.unsqueeze(0) - slot.unsqueeze(1);
  at::Tensor hidden = at::zeros_like(ahead, at::kBool);
  if (attention.causal) hidden = hidden.logical_or(ahead.gt(0));
  if (windowed) hidden = hidden.logical_or(ahead.abs().ge(attention.window));
  return hidden;
}

at::Tensor scores(const at::Tensor& q, const at::Tensor& k, double scale) {
  const at::Tensor s = at::matmul(q, k.transpose(-1, -2));
  return (s.scalar_type() == at::kDouble ? s : s.to(at::kFloat)) * scale;
}

// One document: q [n, heads, dim] and own keys of its blocks, its context rows.
at::Tensor attend_document(const at::Tensor& anchors, std::int64_t block,
                           const LayerAttention& attention, const at::Tensor& q,
                           const KeysValues& own, const KeysValues& context) {
  const std::int64_t blocks = anchors.size(0), rows = context.k.size(0);
  const std::int64_t kv = own.k.size(1), dim = q.size(2), group = q.size(1) / kv;
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  // [kv, blocks, block * group, dim]: the heads of a group become rows, slot by slot.
  const at::Tensor queries = q.view({blocks * block, kv, group, dim})
                                 .transpose(0, 1)
                                 .reshape({kv, blocks, block * group, dim});
  const auto by_block = [&](const at::Tensor& x) {
    return x.view({blocks, block, kv, dim}).permute({2, 0, 1, 3});
  };
  at::Tensor before = scores(queries.view({kv, -1, dim}), context.k.transpose(0, 1), scale)
                          .view({kv, blocks, block, group, rows});
  before = before.masked_fill(hidden_rows(anchors, rows, block, attention).unsqueeze(2), kNever)
               .view({kv, blocks, block * group, rows});
  at::Tensor inside = scores(queries, by_block(own.k), scale);
  const at::Tensor hidden = hidden_slots(block, attention, q.device());
  if (hidden.defined()) {
    inside = inside.masked_fill(hidden.repeat_interleave(group, 0), kNever);
  }
  const at::Tensor weights = at::softmax(at::cat({before, inside}, -1), -1).to(own.v.scalar_type());
  const at::Tensor out =
      at::matmul(weights.narrow(-1, 0, rows).reshape({kv, -1, rows}), context.v.transpose(0, 1))
          .view({kv, blocks, block * group, dim}) +
      at::matmul(weights.narrow(-1, rows, block), by_block(own.v));
  return out.view({kv, blocks * block, group, dim})
      .transpose(0, 1)
      .reshape({blocks * block, kv * group * dim});
}

}  // namespace

at::Tensor attend_blocks(const BlockPlaces& places, const LayerAttention& attention,
                         const at::Tensor& q, const KeysValues& own, const KeysValues& context) {
  std::vector<at::Tensor> out;
  std::int64_t row = 0, slot = 0;
  for (std::size_t d = 0; d < places.lengths.size(); ++d) {
    const std::int64_t rows = places.lengths[d];
    const std::int64_t slots = places.anchors[d].size(0) * places.block;
    if (slots > 0) {
      out.push_back(
          attend_document(places.anchors[d], places.block, attention, q.narrow(0, slot, slots),
                          {own.k.narrow(0, slot, slots), own.v.narrow(0, slot, slots)},
                          {context.k.narrow(0, row, rows), context.v.narrow(0, row, rows)}));
    }
    row += rows;
    slot += slots;
  }
  return out.empty() ? q.flatten(1) : at::cat(out);
}

}  // namespace forerun::internal
