#pragma once

#include <ATen/ATen.h>

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "forerun/formats/dequantize.h"
#include "forerun/models/load_decoder.h"
#include "tests/support/distance.h"
#include "tests/support/tiny_folder.h"

/// The tiny random models of tests/data/tiny and transformers' results for them.
namespace forerun {

inline at::Tensor tensor_of(const Safetensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error("no tensor " + name);
  at::Tensor out = at::empty(view->shape, at::kFloat);
  dequantize(view->dtype, view->bytes,
             {out.data_ptr<float>(), static_cast<std::size_t>(out.numel())});
  return out;
}

inline std::vector<Token> tokens_of(const Safetensors& file, const std::string& name) {
  const at::Tensor t = tensor_of(file, name).flatten();
  std::vector<Token> out;
  for (std::int64_t i = 0; i < t.numel(); ++i)
    out.push_back(static_cast<Token>(t.data_ptr<float>()[i]));
  return out;
}

inline at::Tensor pass(const DecoderLm& model, KvCache& cache, std::span<const Token> tokens) {
  const SequenceSpan span{
      .cache = &cache, .tokens = tokens, .scored = static_cast<std::int64_t>(tokens.size())};
  return forward(model, {&span, 1});
}

/// The states [tokens, kept.size(), hidden] of a text read in passes of `sizes` tokens.
inline at::Tensor states_of(const DecoderLm& model, const std::vector<Token>& tokens,
                            const std::vector<std::int64_t>& kept,
                            const std::vector<std::size_t>& sizes) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  const auto blocks = static_cast<std::int64_t>(kept.size());
  at::Tensor out = at::zeros({n, blocks, model.config.hidden}, at::kFloat);
  KvCache cache = model.make_cache();
  for (const std::size_t size : sizes) {
    const SequenceSpan span{
        .cache = &cache,
        .tokens = std::span(tokens).subspan(static_cast<std::size_t>(cache.length()), size),
        .states = out.data_ptr<float>() + cache.length() * blocks * model.config.hidden};
    forward(model, {&span, 1}, kept);
  }
  return out;
}

}  // namespace forerun
