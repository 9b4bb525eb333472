#include "forerun/models/internal/padded_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "forerun/models/internal/block_visibility.h"
#include "forerun/tensor/ids.h"

namespace forerun::internal {
namespace {

std::vector<std::int64_t> slots_of(const BlockPlaces& places) {
  std::vector<std::int64_t> out;
  for (const auto& anchors : places.anchors) {
    out.push_back(static_cast<std::int64_t>(anchors.size()) * places.block);
  }
  return out;
}

// What the slots of all documents see, as numbers of rows and of slots in padded documents.
struct Seen {
  std::vector<std::int64_t> row_begin, row_end, slot_begin, slot_end;  // [documents * slots]

  void add(Visible rows, Visible slots, std::int64_t first_slot) {
    row_begin.push_back(rows.begin);
    row_end.push_back(rows.end);
    slot_begin.push_back(first_slot + slots.begin);
    slot_end.push_back(first_slot + slots.end);
  }
};

Seen seen_by(const BlockPlaces& places, const LayerAttention& attention, std::int64_t padded) {
  Seen out;
  for (const auto& anchors : places.anchors) {
    std::int64_t slot = 0;
    for (const std::int64_t p : anchors) {
      for (std::int64_t k = 0; k < places.block; ++k) {
        out.add(rows_before(p, places.first_slot + k, attention),
                slots_of_block(k, places.block, attention), slot);
      }
      slot += places.block;
    }
    // A row of padding sees one slot: a softmax over nothing is not a number.
    for (; slot < padded; ++slot) out.add({0, 0}, {0, 1}, slot);
  }
  return out;
}

}  // namespace

PaddedBlocks::PaddedBlocks(const BlockPlaces& places, const LayerAttention& attention,
                           const at::Tensor& like, std::int64_t group)
    : rows_(places.lengths, like.device(), 8), slots_(slots_of(places), like.device(), 8) {
  const std::int64_t documents = rows_.groups(), n = slots_.length();
  const Seen seen = seen_by(places, attention, n);
  const auto column = [&](const std::vector<std::int64_t>& values) {
    return ids_on(like.device(), values).view({documents, n, 1});
  };
  const auto between = [&](std::int64_t count, const std::vector<std::int64_t>& begin,
                           const std::vector<std::int64_t>& end) {
    const at::Tensor at = at::arange(count, at::TensorOptions(at::kLong).device(like.device()));
    return at.ge(column(begin)).logical_and(at.lt(column(end)));
  };
  const at::Tensor visible = at::cat({between(rows_.length(), seen.row_begin, seen.row_end),
                                      between(n, seen.slot_begin, seen.slot_end)},
                                     2);
  // The query heads of a group become rows.
  bias_ = at::zeros(visible.sizes(), like.options().requires_grad(false))
              .masked_fill_(visible.logical_not(), -std::numeric_limits<double>::infinity())
              .repeat({1, group, 1})
              .unsqueeze(1);
}

at::Tensor PaddedBlocks::operator()(const at::Tensor& q, const KeysValues& own,
                                    const KeysValues& context) const {
  const std::int64_t heads = q.size(1), dim = q.size(2), kv = own.k.size(1), group = heads / kv;
  const std::int64_t documents = slots_.groups(), n = slots_.length();
  const auto keys = [&](const at::Tensor& rows, const at::Tensor& slots) {
    return at::cat({rows_.pad(rows), slots_.pad(slots)}, 1).transpose(1, 2);
  };
  const at::Tensor queries = slots_.pad(q)
                                 .view({documents, n, kv, group, dim})
                                 .permute({0, 2, 3, 1, 4})
                                 .reshape({documents, kv, group * n, dim});
  const at::Tensor out =
      at::scaled_dot_product_attention(queries, keys(context.k, own.k), keys(context.v, own.v),
                                       bias_.expand({documents, kv, group * n, bias_.size(3)}), 0.0,
                                       false, 1.0 / std::sqrt(static_cast<double>(dim)));
  return slots_.unpad(out.view({documents, kv, group, n, dim})
                          .permute({0, 3, 1, 2, 4})
                          .reshape({documents, n, heads * dim}));
}

}  // namespace forerun::internal
