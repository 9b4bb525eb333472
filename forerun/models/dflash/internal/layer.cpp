#include "forerun/models/dflash/internal/layer.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <stdexcept>
#include <utility>

#include "forerun/tensor/fused.h"

namespace forerun::internal {
namespace {

// The dtype of the next product.
at::ScalarType product_type(const at::Tensor& x) {
  const auto device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

// Rows of one projection by head, normed and rotated: queries or keys.
at::Tensor placed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& norm,
                  const DFlashConfig& c, const BlockRotation& rotation) {
  return fused_norm_rotate(at::linear(x, weight), norm, c.norm_eps, rotation.cos, rotation.sin);
}

}  // namespace

BlockRotation BlockRotation::at(const DFlash& model, const at::Tensor& positions) {
  const DFlashConfig& c = model.config;
  const at::Tensor frequencies =
      at::tensor(inverse_frequencies(c.head_dim, c.rope_theta, c.rope_scaling), at::kFloat)
          .to(positions.device());
  // Angles in float32 for any weights, as in every implementation.
  const at::Tensor angles = at::outer(positions.to(at::kFloat), frequencies).unsqueeze(1);
  const auto type = model.fc.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {angles.cos().to(type), angles.sin().to(type)};
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return fused_rms_norm(x, weight, eps, product_type(x));
}

KeysValues keys_values(const DFlash& model, const DFlashLayer& layer, const at::Tensor& x,
                       const BlockRotation& rotation) {
  const DFlashConfig& c = model.config;
  return {placed(x, layer.k, layer.k_norm, c, rotation),
          at::linear(x, layer.v).view({x.size(0), c.kv_heads, c.head_dim})};
}

at::Tensor run_layers(const DFlash& model, at::Tensor h, const BlockRotation& rotation,
                      const Attend& attend) {
  const DFlashConfig& c = model.config;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const DFlashLayer& layer = model.layers[i];
    const at::Tensor x = rms_norm(h, layer.attention_norm, c.norm_eps);
    const at::Tensor q = placed(x, layer.q, layer.q_norm, c, rotation);
    h = h + at::linear(attend(i, q, keys_values(model, layer, x, rotation)), layer.o);
    const at::Tensor z = rms_norm(h, layer.mlp_norm, c.norm_eps);
    h = h +
        at::linear(fused_swiglu(at::linear(z, layer.gate), at::linear(z, layer.up)), layer.down);
  }
  return rms_norm(h, model.norm, c.norm_eps);
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
