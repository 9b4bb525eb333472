#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>

#include "forerun/models/diffusion_lm/diffusion_lm.h"
#include "forerun/models/internal/block_attention.h"
#include "forerun/models/internal/packed_documents.h"
#include "forerun/tensor/attention.h"

namespace forerun {
namespace {

void check_batch(const DiffusionLm& m, const MaskedBatch& batch) {
  if (!m.mask.defined() || m.body.int8 || m.config.block < 1) {
    throw std::invalid_argument(
        "training: blocks of masks are trained in a float32 network from a decoder's blocks");
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
    if (n < 1 || n > m.body.config.context) {
      throw std::invalid_argument(
          fmt::format("training: a document of {} tokens; expected 1 to {}, the model's context", n,
                      m.body.config.context));
    }
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

// A copy of the text up to an anchor, and its masks.
struct Copy {
  std::span<const Token> text;
  std::int64_t masks, first;  // first: row of the pass

  std::int64_t rows() const { return static_cast<std::int64_t>(text.size()) + masks; }
};

std::vector<Copy> copies_of(const MaskedBatch& batch, std::int64_t masks) {
  std::vector<Copy> out;
  std::int64_t row = 0;
  for (std::size_t d = 0; d < batch.documents.size(); ++d) {
    for (const std::int64_t p : batch.anchors[d]) {
      out.push_back({batch.documents[d].first(static_cast<std::size_t>(p) + 1), masks, row});
      row += out.back().rows();
    }
  }
  return out;
}

// [n, n] bool: rows less than a window apart.
at::Tensor near(std::int64_t n, std::int64_t window) {
  const at::Tensor at = at::arange(n, at::kLong);
  return (at.unsqueeze(1) - at.unsqueeze(0)).abs().lt(window);
}

// The attention of a layer: each copy's rows see each other.
Attend inside_copies(const DecoderConfig& c, std::span<const Copy> copies, bool sliding) {
  return [&c, copies, sliding](const at::Tensor& q, const KeysValues& own) {
    std::vector<at::Tensor> out;
    for (const Copy& copy : copies) {
      const auto rows = [&](const at::Tensor& x) { return x.narrow(0, copy.first, copy.rows()); };
      const at::Tensor seen = sliding ? near(copy.rows(), c.window) : at::Tensor();
      out.push_back(attend(rows(q), rows(own.k).transpose(0, 1), rows(own.v).transpose(0, 1), seen,
                           {.scale = c.query_scale, .softcap = c.attention_softcap}));
    }
    return at::cat(out);
  };
}

MaskedStates bidirectional_states(const DiffusionLm& m, const MaskedBatch& batch) {
  const DecoderConfig& c = m.body.config;
  const std::int64_t slots = m.config.block - 1;
  const std::vector<Copy> copies = copies_of(batch, m.config.block);
  if (copies.empty()) {
    const auto none = m.mask.options();
    return {at::empty({0, c.hidden}, none), at::empty({0, slots, c.hidden}, none)};
  }
  std::vector<at::Tensor> inputs;
  std::vector<std::int64_t> positions, anchors, masks;
  for (const Copy& copy : copies) {
    const std::vector<std::int64_t> ids(copy.text.begin(), copy.text.end());
    inputs.push_back(
        m.embedding.index_select(0, at::tensor(ids, at::kLong)).to(m.mask.scalar_type()));
    inputs.push_back(m.mask.unsqueeze(0).expand({copy.masks, c.hidden}));
    for (std::int64_t i = 0; i < copy.rows(); ++i) positions.push_back(i);
    const std::int64_t anchor = copy.first + copy.rows() - copy.masks - 1;
    anchors.push_back(anchor);
    for (std::int64_t k = 1; k <= slots; ++k) masks.push_back(anchor + k);
  }
  BlockConfig blocks = c;
  blocks.fused = true;
  at::Tensor h = at::cat(inputs);
  const Rotation rotation = m.body.rope.at(at::tensor(positions, at::kLong), h.scalar_type());
  for (std::size_t i = 0; i < m.body.layers.size(); ++i) {
    h = run_block(m.body.layers[i], blocks, h, rotation, inside_copies(c, copies, c.sliding[i]));
  }
  const at::Tensor out = m.body.final_norm.fused(h);
  return {.text = out.index_select(0, at::tensor(anchors, at::kLong)),
          .masks = out.index_select(0, at::tensor(masks, at::kLong))
                       .view({static_cast<std::int64_t>(copies.size()), slots, c.hidden})};
}

MaskedStates block_states(const DiffusionLm& m, const MaskedBatch& batch) {
  const DecoderConfig& c = m.body.config;
  const at::Device device = m.mask.device();
  const internal::PackedDocuments documents(batch.documents, c, device);
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
               (starts.unsqueeze(1) + at::arange(slots, at::kLong)).flatten()})
          .to(device);
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

}  // namespace

MaskedStates training_states(const DiffusionLm& m, const MaskedBatch& batch) {
  check_batch(m, batch);
  return m.config.attention == DiffusionAttention::kBlock ? block_states(m, batch)
                                                          : bidirectional_states(m, batch);
}

}  // namespace forerun
