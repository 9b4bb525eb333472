#include "forerun/models/dflash/init_dflash.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "forerun/models/feature_layers.h"

namespace forerun {
namespace {

void check(const DFlashConfig& c, const DFlashTarget& target, const at::Tensor& draft_to_target) {
  if (c.hidden != target.hidden || c.vocab != target.vocab || c.target_layers != target.layers ||
      !target.embedding.defined() || !target.head.defined()) {
    throw std::invalid_argument(fmt::format(
        "dflash: a config for hidden size {}, vocabulary {}, {} layers; the target has {}, {}, {} "
        "(and must not be packed)",
        c.hidden, c.vocab, c.target_layers, target.hidden, target.vocab, target.layers));
  }
  const std::int64_t mapped = draft_to_target.defined() ? draft_to_target.numel() : c.vocab;
  if (mapped != c.draft_vocab) {
    throw std::invalid_argument(
        fmt::format("dflash: a draft vocabulary of {} with a map of {} tokens; give a map of as "
                    "many",
                    c.draft_vocab, mapped));
  }
}

// Mean over rows and heads of a projection's root mean square, in every dimension of a norm.
at::Tensor typical(const at::Tensor& context, const at::Tensor& weight, std::int64_t head_dim) {
  const at::Tensor heads = at::matmul(context, weight.t()).view({-1, head_dim});
  return at::full({head_dim}, heads.square().mean(-1).sqrt().mean().item<double>(), at::kFloat);
}

// Index among the features of the one that enters block `first`, or the nearest before it.
std::int64_t entering(const DFlashConfig& c, std::int64_t first) {
  std::int64_t best = -1;
  for (std::int64_t f = 0; f < c.features(); ++f) {
    const auto id = [&](std::int64_t i) { return c.feature_layers[static_cast<std::size_t>(i)]; };
    if (id(f) < first && (best < 0 || id(f) > id(best))) best = f;
  }
  return std::max<std::int64_t>(best, 0);
}

void make_identity(DFlash& m) {
  for (TransformerBlock& layer : m.layers) {
    make_identity(layer.attention_conv, m.config);
    make_identity(layer.mlp_conv, m.config);
  }
}

}  // namespace

void add_convolutions(DFlash& model) {
  DFlashConfig& c = model.config;
  constexpr std::int64_t kTaps = 2, kGroup = 16;
  if (c.conv_taps > 0) return;
  if (c.hidden % kGroup != 0) {
    throw std::invalid_argument(fmt::format(
        "dflash: convolutions need a hidden size that is a multiple of {}, this one is {}", kGroup,
        c.hidden));
  }
  c.conv_taps = kTaps;
  c.conv_group = kGroup;
  make_identity(model);
}

DFlashConfig dflash_config_for(const DecoderConfig& target, std::int64_t layers,
                               std::int64_t features, std::int64_t block) {
  DFlashConfig c;
  c.hidden = target.hidden;
  c.intermediate = target.intermediate;
  c.heads = target.heads;
  c.kv_heads = target.kv_heads;
  c.head_dim = target.head_dim;
  c.norm_eps = target.norm_eps;
  c.layers = layers;
  c.vocab = c.draft_vocab = target.vocab;
  c.target_layers = target.layers;
  c.feature_layers = default_feature_layers(target.layers, features);
  c.block = block;
  c.rope_theta = target.rope_theta;
  c.rope_scaling = target.rope_scaling;
  c.attention.resize(static_cast<std::size_t>(layers));
  return c;
}

DFlash random_dflash(const DFlashConfig& config, const DFlashTarget& target, std::uint64_t seed,
                     const at::Tensor& draft_to_target) {
  check(config, target, draft_to_target);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  DFlash m(config);
  for (const ModelWeight& w : weights(m)) {
    const bool norm = w.shape.size() == 1;
    *w.tensor = norm ? at::ones(w.shape, at::kFloat)
                     : at::randn(w.shape, generator, at::TensorOptions(at::kFloat)).mul_(0.02);
  }
  if (config.conv_taps > 0) make_identity(m);
  if (m.mask_embedding.defined()) m.mask_embedding = target.embedding.to(at::kFloat).mean(0);
  if (m.slot_state.defined()) m.slot_state.zero_();
  if (m.markov_w2.defined()) m.markov_w2.zero_();
  if (m.markov_gate.bias.defined()) m.markov_gate.bias.zero_();
  if (m.successors.defined()) m.successors.zero_();
  if (m.confidence_weight.defined()) m.confidence_weight.zero_();
  if (m.confidence_bias.defined()) m.confidence_bias.zero_();
  m.draft_to_target = draft_to_target;
  // Tensors loaded for inference cannot be trained.
  const auto trainable = [](const at::Tensor& t) {
    const at::Tensor wide = t.to(at::kFloat);
    return wide.is_inference() ? wide.clone() : wide;
  };
  m.embedding = trainable(target.embedding);
  m.head = trainable(draft_to_target.defined() ? target.head.index_select(0, draft_to_target)
                                               : target.head);
  return m;
}

DFlash dflash_from_target(const DecoderLm& target, const DFlashConfig& config,
                          const at::Tensor& features, std::uint64_t seed,
                          const at::Tensor& draft_to_target) {
  const DecoderConfig& t = target.config;
  const DFlashConfig& c = config;
  DFlash m = random_dflash(config, DFlashTarget(target), seed, draft_to_target);
  if (target.layers.empty() || !t.plain() || t.experts > 0 || c.heads != t.heads ||
      c.kv_heads != t.kv_heads || c.head_dim != t.head_dim || c.intermediate != t.intermediate ||
      c.layers > t.layers) {
    throw std::invalid_argument(
        "dflash: layers cannot begin as this target's blocks: they differ in size or kind; begin "
        "at random");
  }
  const std::int64_t first = t.layers - c.layers, feature = entering(c, first);
  const double noise = 1.0 / std::sqrt(static_cast<double>(c.features() * c.hidden));
  m.fc.mul_(noise);
  m.fc.narrow(1, feature * c.hidden, c.hidden).copy_(at::eye(c.hidden, at::kFloat));

  // One norm for all; entries near zero would inflate the columns that compensate for it.
  const at::Tensor own = target.layers[static_cast<std::size_t>(first)].attention_norm.weight;
  const at::Tensor least = own.abs().mean() * 1e-2;
  m.hidden_norm.weight = at::where(own.abs().lt(least), least, own).contiguous();
  const at::Tensor rows = context(m, features.to(at::kFloat));
  if (m.slot_state.defined()) {
    // Slots start as the input of the block; the median size, because a few rows are huge.
    const at::Tensor entered = features.to(at::kFloat).narrow(1, feature * c.hidden, c.hidden);
    const at::Tensor size = entered.square().mean(1).sqrt().median();
    m.slot_state = at::diag(size / m.hidden_norm.weight).contiguous();
  }
  const auto copied = [](const at::Tensor& x) { return x.to(at::kFloat, false, true); };
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const TransformerBlock& from = target.layers[static_cast<std::size_t>(first + i)];
    TransformerBlock& to = m.layers[static_cast<std::size_t>(i)];
    const at::Tensor ratio = from.attention_norm.weight / m.hidden_norm.weight;
    to.attention_norm.weight = m.hidden_norm.weight.clone();
    to.q.weight = from.q.weight.to(at::kFloat) * ratio;
    to.k.weight = from.k.weight.to(at::kFloat) * ratio;
    to.v.weight = from.v.weight.to(at::kFloat) * ratio;
    const auto norm = [&](const RmsNorm& theirs, const Linear& linear) {
      return theirs.defined() ? copied(theirs.weight) : typical(rows, linear.weight, c.head_dim);
    };
    to.q_norm.weight = norm(from.q_norm, to.q);
    to.k_norm.weight = norm(from.k_norm, to.k);
    to.output.weight = copied(from.output.weight);
    to.mlp_norm.weight = copied(from.mlp_norm.weight);
    to.gate.weight = copied(from.gate.weight);
    to.up.weight = copied(from.up.weight);
    to.down.weight = copied(from.down.weight);
  }
  m.norm.weight = copied(target.final_norm.weight);
  return m;
}

}  // namespace forerun
