#include "forerun/models/dflash/internal/slots.h"

#include <ATen/ATen.h>

#include <stdexcept>

namespace forerun::internal {

Rotation rotation_at(const DFlash& model, const at::Tensor& positions) {
  const DFlashConfig& c = model.config;
  return Rope(inverse_frequencies(c.head_dim, c.rope_theta, c.rope_scaling), c.rope_scaling.size())
      .at(positions, model.fc.scalar_type());
}

at::Tensor run_layers(const DFlash& model, at::Tensor h, std::int64_t slots,
                      const Rotation& rotation, const AttendLayer& attend) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto attend_here = [&](const at::Tensor& q, const KeysValues& own) {
      return attend(i, q, own);
    };
    h = run_block(model.layers[i], model.config, h, rotation, attend_here, {}, slots);
  }
  return model.norm.fused(h);
}

at::Tensor embed(const DFlash& model, const at::Tensor& ids) {
  const at::Tensor rows = model.embedding.index_select(0, ids).to(model.fc.scalar_type());
  return model.config.embedding_scale == 1.0 ? rows : rows * model.config.embedding_scale;
}

at::Tensor mask_row(const DFlash& model) {
  const DFlashConfig& c = model.config;
  if (model.mask_embedding.defined()) {
    return c.embedding_scale == 1.0 ? model.mask_embedding
                                    : model.mask_embedding * c.embedding_scale;
  }
  if (c.mask_token < 0 || c.mask_token >= model.embedding.size(0)) {
    throw std::invalid_argument("dflash: neither a mask vector nor a mask token; give it one");
  }
  return embed(model,
               at::scalar_tensor(c.mask_token, at::kLong).to(model.embedding.device()).unsqueeze(0))
      .squeeze(0);
}

}  // namespace forerun::internal
