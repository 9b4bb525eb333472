#include "forerun/models/decoder_training.h"

#include <ATen/ATen.h>

#include <stdexcept>

#include "forerun/models/internal/packed_documents.h"

namespace forerun {

DocumentRows training_rows(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents,
                           std::span<const std::int64_t> kept) {
  const DecoderConfig& c = model.config;
  if (model.int8 || model.precision == Precision::kFile) {
    throw std::invalid_argument("training: a packed decoder: load it as f32");
  }
  for (const std::span<const Token> tokens : documents) check_tokens(model, tokens);
  const internal::PackedDocuments packed(documents, c, model.embedding.device());
  BlockConfig blocks = c;
  blocks.fused = true;
  DocumentRows out;
  at::Tensor h = embed(model, packed.ids());
  if (h.scalar_type() == at::kBFloat16) h = h.to(at::kFloat);
  const at::Tensor positions = document_positions(packed.lengths()).to(h.device());
  const Rotation full = model.rope.at(positions, h.scalar_type());
  const Rotation local = c.window > 0 ? model.local_rope.at(positions, h.scalar_type()) : full;
  std::vector<at::Tensor> asked(kept.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    h = run_block(model.layers[i], blocks, h, c.sliding[i] ? local : full,
                  [&](const at::Tensor& q, const KeysValues& own) {
                    if (kept.empty()) out.keys_values.push_back(own);
                    return packed.attention(i, q, own);
                  });
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (kept[k] == static_cast<std::int64_t>(i)) asked[k] = h;
    }
  }
  if (!asked.empty()) out.kept = at::cat(asked, 1);
  out.hidden = model.final_norm.fused(h);
  return out;
}

at::Tensor training_hidden(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents) {
  return training_rows(model, documents).hidden;
}

}  // namespace forerun
