#include "forerun/models/decoder_training.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "forerun/tensor/attention.h"

namespace forerun {

at::Tensor training_hidden(const DecoderLm& model,
                           std::span<const std::span<const Token>> documents) {
  const DecoderConfig& c = model.config;
  if (model.int8 || documents.empty()) {
    throw std::invalid_argument("training: no documents, or a packed decoder: load it as f32");
  }
  std::vector<std::int64_t> ids, lengths;
  for (const std::span<const Token> tokens : documents) {
    check_tokens(model, tokens);
    lengths.push_back(static_cast<std::int64_t>(tokens.size()));
    if (tokens.empty() || lengths.back() > c.context) {
      throw std::invalid_argument(
          fmt::format("training: a document of {} tokens; expected 1 to {}, the model's context",
                      tokens.size(), c.context));
    }
    ids.insert(ids.end(), tokens.begin(), tokens.end());
  }
  BlockConfig blocks = c;
  blocks.fused = true;
  at::Tensor h = embed(model, at::tensor(ids, at::kLong).to(model.embedding.device()));
  const at::Tensor positions = document_positions(lengths).to(h.device());
  const Rotation full = model.rope.at(positions, h.scalar_type());
  const Rotation local = c.window > 0 ? model.local_rope.at(positions, h.scalar_type()) : full;
  std::vector<at::Tensor> seen, seen_locally;  // of each document
  for (const std::int64_t n : lengths) {
    seen.push_back(causal_mask(n, {}));
    seen_locally.push_back(c.window > 0 ? causal_mask(n, c.window) : seen.back());
  }
  const AttentionOptions options{.scale = c.query_scale, .softcap = c.attention_softcap};
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto attend_each = [&](const at::Tensor& q, const KeysValues& own) {
      std::vector<at::Tensor> out;
      std::int64_t row = 0;
      for (std::size_t d = 0; d < lengths.size(); row += lengths[d++]) {
        const auto rows = [&](const at::Tensor& x) { return x.narrow(0, row, lengths[d]); };
        out.push_back(attend(rows(q), rows(own.k).transpose(0, 1), rows(own.v).transpose(0, 1),
                             (c.sliding[i] ? seen_locally : seen)[d], options));
      }
      return at::cat(out);
    };
    h = run_block(model.layers[i], blocks, h, c.sliding[i] ? local : full, attend_each);
  }
  return model.final_norm.fused(h);
}

}  // namespace forerun
