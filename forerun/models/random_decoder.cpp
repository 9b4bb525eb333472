#include "forerun/models/random_decoder.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace forerun {

DecoderLm random_decoder(const DecoderConfig& c, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  DecoderLm m;
  m.config = c;
  m.final_norm.eps = c.norm_eps;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    TransformerBlock b(c.block(static_cast<std::size_t>(i)));
    if (c.qkv_biases) {
      for (Linear* l : {&b.q, &b.k, &b.v}) l->bias = at::empty({0});  // listed with the weights
    }
    m.layers.push_back(std::move(b));
  }
  const double added = 0.02 / std::sqrt(2.0 * static_cast<double>(c.layers));
  for (const ModelWeight& w : weights(m)) {
    const bool onto_stream =
        w.name.ends_with("o_proj.weight") || w.name.ends_with("down_proj.weight");
    if (w.shape.size() == 2) {
      *w.tensor = at::randn(w.shape, generator, at::TensorOptions(at::kFloat))
                      .mul_(onto_stream ? added : 0.02);
    } else {
      const bool zero = w.name.ends_with(".bias") || w.name.ends_with("correction_bias");
      *w.tensor = zero ? at::zeros(w.shape, at::kFloat) : at::ones(w.shape, at::kFloat);
    }
  }
  m.rope = rope_of(c, false);
  if (c.window > 0) m.local_rope = rope_of(c, true);
  return m;
}

}  // namespace forerun
