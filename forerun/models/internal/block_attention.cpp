#include "forerun/models/internal/block_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "forerun/models/internal/block_visibility.h"
#include "forerun/models/internal/padded_blocks.h"
#include "forerun/tensor/joint_softmax.h"

namespace forerun::internal {

// Blocks whose context scores are one product: neighbours of one document, which mostly see the
// same rows.
struct Chunk {
  std::int64_t block = 0, blocks = 0;  // which blocks of the batch
  std::int64_t row = 0, rows = 0;      // which context rows of the batch
  std::vector<Visible> seen;           // of each slot, among those rows
};

struct BlockAttention::Plan {
  std::int64_t slots = 0;  // of a block
  std::vector<Chunk> chunks;
  std::vector<Visible> own;  // of each slot, among those of its block
  BlockPlaces places;
  LayerAttention attention;
  mutable std::optional<PaddedBlocks> padded;  // on other devices than the CPU
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Plan = BlockAttention::Plan;

// Small enough that few unseen scores are computed, large enough for an efficient product.
constexpr std::int64_t kChunkBlocks = 16;

Chunk chunk_of(std::span<const std::int64_t> anchors, std::int64_t block, std::int64_t document_row,
               const BlockPlaces& places, const LayerAttention& attention) {
  Chunk chunk{.block = block, .blocks = static_cast<std::int64_t>(anchors.size())};
  for (const std::int64_t p : anchors) {
    for (std::int64_t k = 0; k < places.block; ++k) {
      chunk.seen.push_back(rows_before(p, places.first_slot + k, attention));
    }
  }
  std::int32_t first = chunk.seen[0].begin, last = first;
  for (const Visible& v : chunk.seen) {
    first = std::min(first, v.begin);
    last = std::max(last, v.end);
  }
  for (Visible& v : chunk.seen) v = {v.begin - first, v.end - first};
  chunk.row = document_row + first;
  chunk.rows = last - first;
  return chunk;
}

// [rows, heads, dim] as [heads, rows, dim].
at::Tensor by_head(const at::Tensor& x) { return x.transpose(0, 1).contiguous(); }

// [blocks * slots, heads, dim] as [kv, blocks * slots * group, dim]: the heads of a group become
// rows.
at::Tensor grouped(const at::Tensor& q, std::int64_t kv) {
  const std::int64_t group = q.size(1) / kv, dim = q.size(2);
  return q.reshape({q.size(0), kv, group, dim})
      .transpose(0, 1)
      .reshape({kv, q.size(0) * group, dim})
      .contiguous();  // a group of one would stay a view
}
at::Tensor ungrouped(const at::Tensor& x, std::int64_t group) {
  const std::int64_t kv = x.size(0), dim = x.size(2), rows = x.size(1) / group;
  return x.view({kv, rows, group, dim}).transpose(0, 1).reshape({rows, kv * group, dim});
}

// Everything of one pass by head: rows of a block and of a chunk lie next to each other.
struct Sizes {
  std::int64_t kv, blocks, slots, group, dim;

  // [kv, blocks * slots * count, width] as [kv * blocks, slots * count, width].
  at::Tensor by_block(const at::Tensor& x) const {
    return x.view({kv * blocks, x.size(1) / blocks, x.size(2)});
  }
  at::Tensor by_kv(const at::Tensor& x) const {
    return x.view({kv, blocks * x.size(1), x.size(2)});
  }
  at::Tensor of_chunk(const at::Tensor& x, const Chunk& c) const {
    return x.narrow(1, c.block * slots * group, c.blocks * slots * group);
  }
};

at::Tensor rows_of(const at::Tensor& context, const Chunk& c) {
  return context.narrow(1, c.row, c.rows);
}

struct AttendBlocks : torch::autograd::Function<AttendBlocks> {
  // Keeps a plan alive in autograd's saved state.
  struct Kept : torch::CustomClassHolder {
    explicit Kept(std::shared_ptr<const Plan> p) : plan(std::move(p)) {}
    std::shared_ptr<const Plan> plan;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& own_k,
                            const at::Tensor& own_v, const at::Tensor& context_k,
                            const at::Tensor& context_v, const std::shared_ptr<const Plan>& plan) {
    const Sizes s{.kv = own_k.size(1),
                  .blocks = q.size(0) / plan->slots,
                  .slots = plan->slots,
                  .group = q.size(1) / own_k.size(1),
                  .dim = q.size(2)};
    const double scale = 1.0 / std::sqrt(static_cast<double>(s.dim));
    const at::Tensor queries = grouped(q, s.kv);
    const at::Tensor ok = by_head(own_k), ov = by_head(own_v);
    const at::Tensor ck = by_head(context_k), cv = by_head(context_v);
    variable_list saved = {queries, ok, ov, ck, cv};
    const at::Tensor inside = s.by_kv(at::bmm(s.by_block(queries), s.by_block(ok).transpose(1, 2)));
    for (const Chunk& c : plan->chunks) {
      const at::Tensor before = at::bmm(s.of_chunk(queries, c), rows_of(ck, c).transpose(1, 2));
      joint_softmax_(before, s.of_chunk(inside, c), c.seen, plan->own, s.group, scale);
      saved.push_back(before);
    }
    const at::Tensor out = s.by_kv(at::bmm(s.by_block(inside), s.by_block(ov)));
    for (std::size_t i = 0; i < plan->chunks.size(); ++i) {
      const Chunk& c = plan->chunks[i];
      s.of_chunk(out, c).add_(at::bmm(saved[5 + i], rows_of(cv, c)));
    }
    saved.push_back(inside);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["plan"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(plan));
    return ungrouped(out, s.group).flatten(1);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &queries = saved[0], &ok = saved[1], &ov = saved[2], &ck = saved[3],
                     &cv = saved[4], &inside = saved.back();
    const auto kept = ctx->saved_data["plan"].toCapsule();
    const Plan& plan = *static_cast<const Kept&>(*kept).plan;
    const std::int64_t rows = ok.size(1), kv = ok.size(0);
    const Sizes s{.kv = kv,
                  .blocks = rows / plan.slots,
                  .slots = plan.slots,
                  .group = queries.size(1) / rows,
                  .dim = queries.size(2)};
    const double scale = 1.0 / std::sqrt(static_cast<double>(s.dim));
    const at::Tensor slope =
        grouped(grad[0].to(queries.scalar_type()).view({rows, kv * s.group, s.dim}), kv);
    const at::Tensor inside_slope =
        s.by_kv(at::bmm(s.by_block(slope), s.by_block(ov).transpose(1, 2)));
    const at::Tensor dck = at::zeros_like(ck), dcv = at::zeros_like(cv);
    std::vector<at::Tensor> dq;
    for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
      const Chunk& c = plan.chunks[i];
      const at::Tensor &weights = saved[5 + i], g = s.of_chunk(slope, c);
      const at::Tensor d = at::bmm(g, rows_of(cv, c).transpose(1, 2));
      joint_softmax_backward_(weights, s.of_chunk(inside, c), d, s.of_chunk(inside_slope, c),
                              c.seen, plan.own, s.group, scale);
      rows_of(dcv, c).add_(at::bmm(weights.transpose(1, 2), g));
      rows_of(dck, c).add_(at::bmm(d.transpose(1, 2), s.of_chunk(queries, c)));
      dq.push_back(at::bmm(d, rows_of(ck, c)));
    }
    const at::Tensor dov = at::bmm(s.by_block(inside).transpose(1, 2), s.by_block(slope));
    const at::Tensor dok = at::bmm(s.by_block(inside_slope).transpose(1, 2), s.by_block(queries));
    const at::Tensor queries_slope =
        s.by_kv(at::bmm(s.by_block(inside_slope), s.by_block(ok))).add_(at::cat(dq, 1));
    return {ungrouped(queries_slope, s.group),
            s.by_kv(dok).transpose(0, 1),
            s.by_kv(dov).transpose(0, 1),
            dck.transpose(0, 1),
            dcv.transpose(0, 1),
            {}};
  }
};

}  // namespace

BlockAttention::BlockAttention(const BlockPlaces& places, const LayerAttention& attention) {
  auto plan = std::make_shared<Plan>();
  plan->slots = places.block;
  plan->places = places;
  plan->attention = attention;
  for (std::int64_t k = 0; k < places.block; ++k) {
    plan->own.push_back(slots_of_block(k, places.block, attention));
  }
  std::int64_t row = 0, block = 0;
  for (std::size_t d = 0; d < places.lengths.size(); ++d) {
    const std::span<const std::int64_t> anchors = places.anchors[d];
    // Blocks without slots, as of one token, see nothing.
    for (std::size_t i = 0; places.block > 0 && i < anchors.size(); i += kChunkBlocks) {
      const auto some = anchors.subspan(i, std::min<std::size_t>(kChunkBlocks, anchors.size() - i));
      plan->chunks.push_back(chunk_of(some, block, row, places, attention));
      block += plan->chunks.back().blocks;
    }
    row += places.lengths[d];
  }
  plan_ = std::move(plan);
}

at::Tensor BlockAttention::operator()(const at::Tensor& q, const KeysValues& own,
                                      const KeysValues& context) const {
  if (!q.is_cpu()) {
    if (!plan_->padded) {
      plan_->padded.emplace(plan_->places, plan_->attention, q, q.size(1) / own.k.size(1));
    }
    return (*plan_->padded)(q, own, context);
  }
  return AttendBlocks::apply(q, own.k, own.v, context.k, context.v, plan_);
}

}  // namespace forerun::internal
