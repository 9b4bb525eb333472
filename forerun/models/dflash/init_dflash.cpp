#include "forerun/models/dflash/init_dflash.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace forerun {
namespace {

constexpr double kSpread = 0.02;
constexpr double kTiny = 1e-4;  // a norm's weight that cannot be divided by

void check(const DecoderLm& target, const DFlashConfig& c) {
  if (c.hidden == target.config.hidden && c.vocab == target.config.vocab) return;
  throw std::invalid_argument(
      fmt::format("dflash: a network of hidden size {} and {} tokens for a target of {} and {}",
                  c.hidden, c.vocab, target.config.hidden, target.config.vocab));
}

// Root mean square of the rows' heads: [rows, heads * dim] -> a number.
double typical_size(const at::Tensor& x) { return x.square().mean().sqrt().item<double>(); }

at::Tensor normed(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * (x.square().mean(-1, true) + eps).rsqrt() * weight;
}

// The column block of fc that is nearest to what target block `first` reads: its index.
std::int64_t nearest_feature(const DFlashConfig& c, std::int64_t first) {
  const auto distance = [&](std::int64_t layer) { return std::abs(layer - (first - 1)); };
  const auto best =
      std::min_element(c.feature_layers.begin(), c.feature_layers.end(),
                       [&](std::int64_t a, std::int64_t b) { return distance(a) < distance(b); });
  return best - c.feature_layers.begin();
}

// A size of queries or keys after a norm with this weight: as the target has it.
at::Tensor norm_weight(const RmsNorm& own, const at::Tensor& rows, std::int64_t dim) {
  if (own.defined()) return own.weight.to(at::kFloat).clone();
  return at::full({dim}, typical_size(rows), at::kFloat);
}

}  // namespace

DFlash random_dflash(const DecoderLm& target, const DFlashConfig& config,
                     const at::Tensor& draft_to_target, std::uint64_t seed) {
  check(target, config);
  const at::NoGradGuard no_autograd;
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  DFlash m{.config = config};
  m.layers.resize(static_cast<std::size_t>(config.layers));
  // Clones: what was loaded for inference cannot take part in training.
  m.embedding = target.embedding.to(at::kFloat).clone();
  m.draft_to_target = draft_to_target;
  const at::Tensor head = target.head.weight.to(at::kFloat).clone();
  m.head = draft_to_target.defined() ? head.index_select(0, draft_to_target) : head;
  for (const DFlashWeight& w : weights(m)) {
    const bool norm = w.name.find("norm") != std::string::npos;
    *w.tensor = norm ? at::ones(w.shape) : at::randn(w.shape, random) * kSpread;
  }
  // A head that adds nothing at first: it learns what the body cannot know.
  for (at::Tensor* t : {&m.markov_w2, &m.confidence_weight, &m.confidence_bias}) {
    if (t->defined()) t->zero_();
  }
  if (m.markov_w1.defined()) m.markov_w1 = m.markov_w1 * (1.0 / kSpread * 0.1);
  if (config.mask_token < 0) m.mask_embedding = m.embedding.mean(0);
  return m;
}

DFlash dflash_from_target(const DecoderLm& target, const DFlashConfig& config,
                          const at::Tensor& draft_to_target, const at::Tensor& features,
                          std::uint64_t seed) {
  const DecoderConfig& t = target.config;
  const bool same_shape = config.heads == t.heads && config.kv_heads == t.kv_heads &&
                          config.head_dim == t.head_dim && config.intermediate == t.intermediate;
  if (!same_shape || t.gemma()) {
    throw std::invalid_argument(
        "dflash: only a network whose blocks have the target's shape can begin as these; begin "
        "with random weights");
  }
  if (config.layers > t.layers) {
    throw std::invalid_argument(
        fmt::format("dflash: {} layers from a target of {} blocks", config.layers, t.layers));
  }
  const at::NoGradGuard no_autograd;
  DFlash m = random_dflash(target, config, draft_to_target, seed);
  const std::int64_t first = t.layers - config.layers;
  const auto block = [&](std::int64_t i) -> const DecoderLayer& {
    return target.layers[static_cast<std::size_t>(i)];
  };
  const std::int64_t feature = nearest_feature(config, first);
  m.fc = at::zeros_like(m.fc);
  m.fc.narrow(1, feature * config.hidden, config.hidden).copy_(at::eye(config.hidden));
  m.hidden_norm = block(first).attention_norm.weight.to(at::kFloat).clone();
  m.norm = target.final_norm.weight.to(at::kFloat).clone();
  const at::Tensor seen = features.narrow(1, feature * config.hidden, config.hidden);
  const at::Tensor context = normed(seen, m.hidden_norm, config.norm_eps);
  const std::int64_t q = t.heads * t.head_dim, kv = t.kv_heads * t.head_dim;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const DecoderLayer& from = block(first + i);
    DFlashLayer& l = m.layers[static_cast<std::size_t>(i)];
    const at::Tensor own = from.attention_norm.weight.to(at::kFloat);
    const at::Tensor qkv = from.qkv.weight.to(at::kFloat);
    // Keys and values share their matrices between slots and context, which has one norm for all
    // layers: every layer takes that norm's weight and has the rest of its own in its matrices.
    const at::Tensor rest = at::where(m.hidden_norm.abs() > kTiny, own / m.hidden_norm, 1.0);
    l.attention_norm = m.hidden_norm.clone();
    l.mlp_norm = from.mlp_norm.weight.to(at::kFloat).clone();
    l.q = qkv.narrow(0, 0, q) * rest;
    l.k = qkv.narrow(0, q, kv) * rest;
    l.v = qkv.narrow(0, q + kv, kv) * rest;
    l.o = from.output.weight.to(at::kFloat).clone();
    const at::Tensor both = from.gate_up.weight.to(at::kFloat);
    l.gate = both.narrow(0, 0, t.intermediate).clone();
    l.up = both.narrow(0, t.intermediate, t.intermediate).clone();
    l.down = from.down.weight.to(at::kFloat).clone();
    l.q_norm = norm_weight(from.q_norm, at::linear(context, l.q), t.head_dim);
    l.k_norm = norm_weight(from.k_norm, at::linear(context, l.k), t.head_dim);
  }
  return m;
}

}  // namespace forerun
