#include "forerun/models/decoder_training.h"

#include <ATen/ATen.h>

#include <stdexcept>
#include <utility>

#include "forerun/models/internal/packed_documents.h"

namespace forerun {
namespace {

// The residual stream after the last block; `each` takes the number of a block, its output, and its
// keys and values.
template <class Each>
at::Tensor run_documents(const DecoderLm& model, std::span<const std::span<const Token>> documents,
                         Each&& each) {
  const DecoderConfig& c = model.config;
  if (model.int8 || model.precision == Precision::kFile) {
    throw std::invalid_argument("training: a packed decoder: load it as f32");
  }
  if (!c.recurrent.none()) {
    throw std::invalid_argument("training: gradients through recurrent layers are not supported");
  }
  for (const std::span<const Token> tokens : documents) check_tokens(model, tokens);
  const internal::PackedDocuments packed(documents, c, model.embedding.device());
  BlockConfig blocks = c;
  blocks.fused = true;
  at::Tensor h = embed(model, packed.ids());
  if (h.scalar_type() == at::kBFloat16) h = h.to(at::kFloat);
  const at::Tensor positions = document_positions(packed.lengths()).to(h.device());
  const LayerRotations rotations = rotations_at(model, positions, h.scalar_type());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    KeysValues keys_values;
    h = run_block(model.layers[i], blocks, h, rotations.of(c, i),
                  [&](const at::Tensor& q, const KeysValues& own) {
                    keys_values = own;
                    return packed.attention(i, q, own, model.layers[i].sinks);
                  });
    each(i, h, std::move(keys_values));
  }
  return h;
}

}  // namespace

DocumentRows training_rows(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents) {
  DocumentRows out;
  const at::Tensor h =
      run_documents(model, documents, [&](std::size_t, const at::Tensor&, KeysValues keys_values) {
        out.keys_values.push_back(std::move(keys_values));
      });
  out.hidden = model.final_norm.fused(h);
  return out;
}

at::Tensor training_hidden(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents) {
  return training_rows(model, documents).hidden;
}

at::Tensor training_streams(const DecoderLm& model,
                            std::span<const std::span<const Token>> documents,
                            std::span<const std::int64_t> blocks) {
  std::vector<at::Tensor> out(blocks.size());
  run_documents(model, documents, [&](std::size_t i, const at::Tensor& h, const KeysValues&) {
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      if (blocks[k] == static_cast<std::int64_t>(i)) out[k] = h;
    }
  });
  return at::cat(out, 1);
}

}  // namespace forerun
