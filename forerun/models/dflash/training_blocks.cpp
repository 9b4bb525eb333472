#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "forerun/models/dflash/dflash.h"
#include "forerun/models/dflash/internal/slots.h"
#include "forerun/models/internal/block_attention.h"
#include "forerun/tensor/ids.h"

namespace forerun {
namespace {

using internal::BlockAttention;
using internal::BlockPlaces;

void check(const BlockBatch& batch) {
  if (batch.lengths.size() != batch.anchors.size()) {
    throw std::invalid_argument(
        fmt::format("dflash: {} documents, anchors of {}; give each its own", batch.lengths.size(),
                    batch.anchors.size()));
  }
  std::int64_t rows = 0, blocks = 0;
  for (std::size_t d = 0; d < batch.lengths.size(); ++d) {
    for (const std::int64_t p : batch.anchors[d]) {
      if (p < 0 || p >= batch.lengths[d]) {
        throw std::invalid_argument(fmt::format(
            "dflash: anchor {} lies outside its document of {} rows", p, batch.lengths[d]));
      }
    }
    rows += batch.lengths[d];
    blocks += static_cast<std::int64_t>(batch.anchors[d].size());
  }
  if (batch.features.size(0) != rows || batch.anchor_tokens.numel() != blocks) {
    throw std::invalid_argument(fmt::format(
        "dflash: {} rows of features and {} anchor tokens, where documents and anchors ask for {} "
        "and {}",
        batch.features.size(0), batch.anchor_tokens.numel(), rows, blocks));
  }
}

at::Tensor anchor_positions(const BlockBatch& batch, const at::Device& device) {
  std::vector<std::int64_t> out;
  for (const auto& anchors : batch.anchors) out.insert(out.end(), anchors.begin(), anchors.end());
  return ids_on(device, out);
}

// [blocks, hidden]: the context row before each anchor; zeros if there is none.
at::Tensor rows_before_anchors(const BlockBatch& batch, const at::Tensor& rows) {
  std::vector<std::int64_t> index, first_anchors;
  std::int64_t first = 0;
  for (std::size_t d = 0; d < batch.lengths.size(); ++d) {
    for (const std::int64_t p : batch.anchors[d]) {
      if (p == 0) first_anchors.push_back(static_cast<std::int64_t>(index.size()));
      index.push_back(std::max<std::int64_t>(first + p - 1, 0));
    }
    first += batch.lengths[d];
  }
  const at::Tensor out = rows.index_select(0, ids_on(rows.device(), index));
  return first_anchors.empty() ? out : out.index_fill(0, ids_on(rows.device(), first_anchors), 0.0);
}

// One for each layer; layers with the same mask share it.
std::vector<BlockAttention> attentions(const DFlashConfig& c, const BlockPlaces& places) {
  std::vector<BlockAttention> out;
  for (std::size_t i = 0; i < c.attention.size(); ++i) {
    const auto same = std::find(c.attention.begin(), c.attention.end(), c.attention[i]);
    const auto j = static_cast<std::size_t>(same - c.attention.begin());
    if (j < i) {
      out.push_back(out[j]);
    } else {
      out.emplace_back(places, c.attention[i]);
    }
  }
  return out;
}

}  // namespace

at::Tensor training_blocks(const DFlash& model, const BlockBatch& batch) {
  check(batch);
  const DFlashConfig& c = model.config;
  const auto device = model.fc.device();
  const BlockPlaces places{.block = c.block, .lengths = batch.lengths, .anchors = batch.anchors};
  const std::int64_t blocks = batch.anchor_tokens.numel();
  if (blocks == 0) return at::zeros({0, c.block, c.hidden}, model.fc.options());

  const at::Tensor rows = context(model, batch.features);
  const Rotation row_rotation =
      internal::rotation_at(model, document_positions(batch.lengths).to(device));
  const at::Tensor slot_positions =
      anchor_positions(batch, device).unsqueeze(1) + at::arange(c.block, device);
  const at::Tensor anchors = internal::embed(model, batch.anchor_tokens.to(device)).unsqueeze(1);
  const at::Tensor masks = internal::mask_row(model).expand({blocks, c.block - 1, c.hidden});
  at::Tensor h = at::cat({anchors, masks}, 1);
  if (model.slot_state.defined()) {
    h = h + at::linear(rows_before_anchors(batch, rows), model.slot_state).unsqueeze(1);
  }
  h = h.view({blocks * c.block, c.hidden});
  const std::vector<BlockAttention> attention = attentions(c, places);
  const auto attend = [&](std::size_t i, const at::Tensor& q, const KeysValues& own) {
    return attention[i](q, own, keys_values(model.layers[i], c, rows, row_rotation));
  };
  return internal::run_layers(model, h, c.block,
                              internal::rotation_at(model, slot_positions.flatten()), attend)
      .view({blocks, c.block, c.hidden});
}

}  // namespace forerun
