#pragma once

#include <ATen/ATen.h>

#include <string>

#include "forerun/models/diffusion_lm/diffusion_lm.h"
#include "tests/support/tiny_models.h"

namespace forerun {

inline DecoderLm tiny_decoder(const std::string& name) {
  const std::string folder = kTiny + name;
  return load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kF32);
}

/// Every third token.
inline at::Tensor every_third(std::int64_t vocab) { return at::arange(1, vocab, 3, at::kLong); }

/// A network of two blocks of a tiny decoder, for blocks of five places. Its mask is far from the
/// mean embedding, so that it matters.
inline DiffusionLm tiny_diffusion(const std::string& name, bool reduced = false) {
  const DecoderLm decoder = tiny_decoder(name);
  DiffusionLm m = diffusion_from_decoder(
      decoder, 2, 5, reduced ? every_third(decoder.config.vocab) : at::Tensor());
  m.mask = at::linspace(-1.0, 1.0, decoder.config.hidden, at::kFloat);
  return m;
}

/// The same whose rows all see each other.
inline DiffusionLm tiny_bidirectional(const std::string& name, bool reduced = false) {
  DiffusionLm m = tiny_diffusion(name, reduced);
  m.config.attention = DiffusionAttention::kBidirectional;
  return m;
}

inline std::vector<Token> count_up(std::int64_t n, std::int64_t vocab) {
  std::vector<Token> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<Token>((7 + i * 37) % vocab));
  return out;
}

}  // namespace forerun
