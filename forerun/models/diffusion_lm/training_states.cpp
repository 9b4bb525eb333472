#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>

#include "forerun/models/diffusion_lm/diffusion_lm.h"
#include "forerun/models/internal/block_attention.h"
#include "forerun/models/internal/packed_documents.h"

namespace forerun {
namespace {

void check_batch(const DiffusionLm& m, const MaskedBatch& batch) {
  if (m.config.attention != DiffusionAttention::kBlock || m.body.int8 || m.config.block < 1) {
    throw std::invalid_argument(
        "training: blocks of masks are trained in a float32 network that keeps its text");
  }
  if (batch.documents.size() != batch.anchors.size()) {
    throw std::invalid_argument(fmt::format("training: {} documents, anchors of {}",
                                            batch.documents.size(), batch.anchors.size()));
  }
  for (std::size_t d = 0; d < batch.documents.size(); ++d) {
    for (const Token t : batch.documents[d]) {
      if (t >= 0 && t < m.config.vocab) continue;
      throw std::invalid_argument(
          fmt::format("training: token {} lies outside the vocabulary of {}", t, m.config.vocab));
    }
    const auto n = static_cast<std::int64_t>(batch.documents[d].size());
    for (const std::int64_t p : batch.anchors[d]) {
      if (p >= 0 && p < n) continue;
      throw std::invalid_argument(
          fmt::format("training: anchor {} lies outside its document of {} rows", p, n));
    }
  }
}

// Positions of the first mask of every block, by document.
std::vector<std::vector<std::int64_t>> first_masks(const MaskedBatch& batch) {
  std::vector<std::vector<std::int64_t>> out = batch.anchors;
  for (auto& anchors : out) {
    for (std::int64_t& p : anchors) ++p;
  }
  return out;
}

at::Tensor flat(const std::vector<std::vector<std::int64_t>>& lists) {
  std::vector<std::int64_t> out;
  for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return at::tensor(out, at::kLong);
}

}  // namespace

MaskedStates training_states(const DiffusionLm& m, const MaskedBatch& batch) {
  check_batch(m, batch);
  const DecoderConfig& c = m.body.config;
  const internal::PackedDocuments documents(batch.documents, c);
  const std::int64_t slots = m.config.block - 1, rows = documents.rows();
  const auto first = first_masks(batch);
  const at::Tensor starts = flat(first);
  const std::int64_t masks = starts.numel() * slots;

  BlockConfig blocks = c;
  blocks.fused = true;
  at::Tensor h = at::cat({m.embedding.index_select(0, documents.ids()).to(m.mask.scalar_type()),
                          m.mask.unsqueeze(0).expand({masks, c.hidden})});
  const at::Tensor positions =
      at::cat({document_positions(documents.lengths()),
               (starts.unsqueeze(1) + at::arange(slots, at::kLong)).flatten()});
  const Rotation rotation = m.body.rope.at(positions, h.scalar_type());
  const internal::BlockAttention inside(
      {.block = slots, .lengths = documents.lengths(), .anchors = first}, {});
  for (std::size_t i = 0; i < m.body.layers.size(); ++i) {
    const auto attend = [&](const at::Tensor& q, const KeysValues& own) {
      const auto part = [&](std::int64_t begin, std::int64_t n) {
        return KeysValues{own.k.narrow(0, begin, n), own.v.narrow(0, begin, n)};
      };
      const KeysValues text = part(0, rows);
      const at::Tensor out = documents.attention(i, q.narrow(0, 0, rows), text);
      if (masks == 0) return out;
      return at::cat(
          {out, inside(q.narrow(0, rows, masks), part(rows, masks), text).to(out.scalar_type())});
    };
    h = run_block(m.body.layers[i], blocks, h, rotation, attend);
  }
  const at::Tensor out = m.body.final_norm.fused(h);
  return {.text = out.narrow(0, 0, rows),
          .masks = out.narrow(0, rows, masks).view({starts.numel(), slots, c.hidden})};
}

}  // namespace forerun
