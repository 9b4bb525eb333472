#include "forerun/models/diffusion_lm/diffusion_lm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "forerun/models/four_bit_block.h"
#include "forerun/models/int8_decoder.h"
#include "forerun/models/int8_linear.h"
#include "forerun/models/weights_digest.h"
#include "forerun/tensor/four_bit_weights.h"
#include "forerun/tensor/huge_table.h"

namespace forerun {
namespace {

// In memory of its own, also if it is an inference tensor.
at::Tensor own_numbers(const at::Tensor& t) { return t.detach().to(at::kFloat, false, true); }

std::shared_ptr<const Int8Decoder> packed_body(const DecoderLm& body, bool four_bits) {
  Arena arena;
  std::vector<Int8Block> layers;
  for (const TransformerBlock& l : body.layers) {
    layers.push_back(Int8Block::pack(four_bits ? in_four_bits(l) : l, body.config, arena));
  }
  Linear of_head{.weight = body.head(), .bias = {}, .stored = {}};
  if (four_bits) of_head = in_four_bits(of_head);
  Int8Matrix head = pack_linear({&of_head}, nullptr, arena);
  return std::make_shared<Int8Decoder>(body.config, at::Tensor(), std::move(layers),
                                       plain_values(body.final_norm), std::move(head));
}

}  // namespace

std::vector<ModelWeight> weights(DiffusionLm& m) {
  const DecoderConfig& c = m.body.config;
  std::vector<ModelWeight> out = {{"mask_embedding", &m.mask, {c.hidden}},
                                  {"model.norm.weight", &m.body.final_norm.weight, {c.hidden}}};
  for (std::size_t i = 0; i < m.body.layers.size(); ++i) {
    add_weights(m.body.layers[i], c, fmt::format("model.layers.{}.", i), out);
  }
  return out;
}

std::string fingerprint(const DecoderLm& decoder) {
  at::Tensor norm = decoder.final_norm.weight;
  const ModelWeight weight{"model.norm.weight", &norm, {decoder.config.hidden}};
  return digest_of({&weight, 1});
}

DiffusionLm block_diffusion_for(const DecoderLm& decoder, std::int64_t layers, std::int64_t block,
                                std::int64_t outputs) {
  const DecoderConfig& d = decoder.config;
  if (!d.plain() || !d.no_rope.empty() || layers < 1 || layers > d.layers) {
    throw std::invalid_argument(fmt::format(
        "a diffusion language model of {} blocks of a decoder of {}: ask for 1 to {}, of a "
        "decoder of the Llama or Qwen families",
        layers, d.layers, d.layers));
  }
  DiffusionLm m;
  m.config = {.attention = DiffusionAttention::kBlock,
              .vocab = d.vocab,
              .outputs = outputs,
              .block = block,
              .target = fingerprint(decoder)};
  DecoderConfig& c = m.body.config;
  c = d;
  c.layers = layers;
  c.vocab = outputs;
  c.mask_token.reset();
  c.tied_head = true;
  c.sliding.resize(static_cast<std::size_t>(layers));
  m.body.layers.assign(static_cast<std::size_t>(layers), TransformerBlock(c));
  m.body.final_norm.eps = c.norm_eps;
  m.body.rope = rope_of(c, false);
  if (c.window > 0) m.body.local_rope = rope_of(c, true);
  return m;
}

void share_ends(DiffusionLm& m, const DecoderLm& decoder, const at::Tensor& output_tokens) {
  m.output_tokens = output_tokens;
  m.embedding = own_numbers(decoder.embedding);
  const at::Tensor& head = decoder.head();
  m.body.embedding =
      own_numbers(output_tokens.defined() ? head.index_select(0, output_tokens) : head);
}

DiffusionLm diffusion_from_decoder(const DecoderLm& decoder, std::int64_t layers,
                                   std::int64_t block, const at::Tensor& output_tokens) {
  if (decoder.layers.empty()) {
    throw std::invalid_argument(
        "a diffusion language model from a packed decoder: load the decoder as f32");
  }
  DiffusionLm m =
      block_diffusion_for(decoder, layers, block,
                          output_tokens.defined() ? output_tokens.numel() : decoder.config.vocab);
  share_ends(m, decoder, output_tokens);
  for (std::size_t i = 0; i < m.body.layers.size(); ++i) m.body.layers[i] = decoder.layers[i];
  m.body.final_norm = decoder.final_norm;
  m.mask = m.embedding.mean(0);
  for (const ModelWeight& w : weights(m)) *w.tensor = own_numbers(*w.tensor);
  // The residual stream of early blocks gives logits of several times the spread of the last one's:
  // a cross-entropy of 16.2 instead of 7.8 nats for 5 of the 30 blocks of SmolLM2-135M.
  constexpr double kSpread = 0.3;
  if (layers < decoder.config.layers) m.body.final_norm.weight.mul_(kSpread);
  return m;
}

DiffusionLm rounded_to_four_bits(const DiffusionLm& model) {
  DiffusionLm out = model;
  for (TransformerBlock& layer : out.body.layers) round_to_four_bits(layer);
  out.body.embedding = straight_through_four_bits(model.body.embedding);
  return out;
}

DiffusionLm in_precision(const DiffusionLm& model, Precision precision) {
  DiffusionLm m = model;
  std::vector<ModelWeight> all = weights(m);
  all.push_back({"lm_head.weight", &m.body.embedding, {}});
  const bool four_bits = model.config.weight_bits == 4 && fits_four_bits(all);
  if (four_bits && !has_int8_products(precision)) m = rounded_to_four_bits(model);
  m.body.precision = precision;
  if (has_int8_products(precision)) {
    m.body.int8 = packed_body(model.body, four_bits);
    m.body.layers.clear();
    m.body.embedding = m.body.own_head = m.body.final_norm.weight = at::Tensor();
    m.embedding = huge_table(model.embedding, at::kBFloat16);
    return m;
  }
  const at::ScalarType type = scalar_type(precision);
  for (at::Tensor* t : {&m.embedding, &m.body.embedding, &m.mask}) *t = t->detach().to(type);
  for (TransformerBlock& layer : m.body.layers) {
    for (Linear* l : layer.linears()) {
      l->weight = l->weight.detach().to(type);
      if (l->bias.defined()) l->bias = l->bias.detach().to(type);
    }
  }
  return m;
}

}  // namespace forerun
