#include "forerun/models/decoder_training.h"

#include <ATen/ATen.h>

#include <stdexcept>

#include "forerun/models/internal/packed_documents.h"

namespace forerun {

DocumentRows training_rows(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents) {
  const DecoderConfig& c = model.config;
  if (model.int8 || model.precision == Precision::kFile) {
    throw std::invalid_argument("training: a packed decoder: load it as f32");
  }
  for (const std::span<const Token> tokens : documents) check_tokens(model, tokens);
  const internal::PackedDocuments packed(documents, c);
  BlockConfig blocks = c;
  blocks.fused = true;
  DocumentRows out;
  at::Tensor h = embed(model, packed.ids().to(model.embedding.device()));
  if (h.scalar_type() == at::kBFloat16) h = h.to(at::kFloat);
  const at::Tensor positions = document_positions(packed.lengths()).to(h.device());
  const Rotation full = model.rope.at(positions, h.scalar_type());
  const Rotation local = c.window > 0 ? model.local_rope.at(positions, h.scalar_type()) : full;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    h = run_block(model.layers[i], blocks, h, c.sliding[i] ? local : full,
                  [&](const at::Tensor& q, const KeysValues& own) {
                    out.keys_values.push_back(own);
                    return packed.attention(i, q, own);
                  });
  }
  out.hidden = model.final_norm.fused(h);
  return out;
}

at::Tensor training_hidden(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents) {
  return training_rows(model, documents).hidden;
}

}  // namespace forerun
