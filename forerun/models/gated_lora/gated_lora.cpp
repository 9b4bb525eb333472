#include "forerun/models/gated_lora/gated_lora.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "forerun/models/int8_lora.h"
#include "forerun/models/markov_head.h"
#include "forerun/tensor/scalar_type.h"

namespace forerun {
namespace {

struct Place {
  const char* name;  // of the linear layer in Hugging Face's decoders
  BlockLora::Pair BlockLora::*pair;
  std::int64_t outputs, inputs;
};

std::vector<Place> places(const BlockConfig& c) {
  return {{"self_attn.q_proj", &BlockLora::q, c.query_width(), c.hidden},
          {"self_attn.k_proj", &BlockLora::k, c.kv_width(), c.hidden},
          {"self_attn.v_proj", &BlockLora::v, c.kv_width(), c.hidden},
          {"self_attn.o_proj", &BlockLora::output, c.hidden, c.query_width()},
          {"mlp.gate_proj", &BlockLora::gate, c.intermediate, c.hidden},
          {"mlp.up_proj", &BlockLora::up, c.intermediate, c.hidden},
          {"mlp.down_proj", &BlockLora::down, c.hidden, c.intermediate}};
}

}  // namespace

std::vector<ModelWeight> weights(GatedLora& m) {
  const GatedLoraConfig& c = m.config;
  std::vector<ModelWeight> out = {{"mask_embedding", &m.mask_embedding, {c.hidden}}};
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    for (const Place& p : places(c)) {
      BlockLora::Pair& pair = m.layers[i].*p.pair;
      const std::string name = fmt::format("model.layers.{}.{}.", i, p.name);
      out.push_back({name + "lora_A.weight", &pair.a, {c.rank, p.inputs}});
      out.push_back({name + "lora_B.weight", &pair.b, {p.outputs, c.rank}});
    }
  }
  if (c.markov_rank > 0) {
    out.push_back({"markov_head.markov_w1.weight", &m.markov_w1, {c.vocab, c.markov_rank}});
    out.push_back({"markov_head.markov_w2.weight", &m.markov_w2, {c.vocab, c.markov_rank}});
  }
  return out;
}

GatedLoraConfig gated_lora_config(const DecoderConfig& decoder) {
  GatedLoraConfig c;
  static_cast<BlockConfig&>(c) = decoder;
  c.layers = decoder.layers;
  c.vocab = decoder.vocab;
  return c;
}

GatedLora initial_gated_lora(const GatedLoraConfig& config, const at::Tensor& mean,
                             std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  GatedLora m{.config = config,
              .layers = {},
              .mask_embedding = {},
              .markov_w1 = {},
              .markov_w2 = {},
              .int8 = {},
              .markov = {}};
  if (m.adapts()) m.layers.resize(static_cast<std::size_t>(config.layers));
  for (const ModelWeight& w : weights(m)) {
    const bool begins_at_zero = w.name.ends_with("lora_B.weight") || w.tensor == &m.markov_w2;
    const double size = 1.0 / std::sqrt(static_cast<double>(w.shape.back()));
    *w.tensor = begins_at_zero
                    ? at::zeros(w.shape, at::kFloat)
                    : at::randn(w.shape, generator, at::TensorOptions(at::kFloat)).mul_(size);
  }
  m.mask_embedding = mean.to(at::kFloat, false, true);
  return m;
}

GatedLora in_precision(const GatedLora& lora, Precision precision) {
  GatedLora out = lora;
  out.markov = std::make_shared<const MarkovHead>(
      lora.markov_w1, lora.markov_w2,
      has_int8_products(precision) ? Precision::kInt8 : Precision::kF32);
  if (has_int8_products(precision)) {
    Arena arena;
    std::vector<Int8BlockLora> layers;
    for (const BlockLora& layer : lora.layers) layers.push_back(Int8BlockLora::pack(layer, arena));
    out.int8 = std::make_shared<const std::vector<Int8BlockLora>>(std::move(layers));
    out.layers.clear();
    return out;
  }
  for (BlockLora& layer : out.layers) {
    for (BlockLora::Pair* pair : layer.pairs()) {
      if (!pair->a.defined()) continue;
      pair->a = pair->a.detach().to(scalar_type(precision));
      pair->b = pair->b.detach().to(scalar_type(precision));
    }
  }
  return out;
}

at::Tensor markov_logits(const GatedLora& lora, const at::Tensor& previous) {
  return at::linear(lora.markov_w1.index_select(0, previous), lora.markov_w2);
}

}  // namespace forerun
