#include "forerun/models/dflash/dflash.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "forerun/models/dflash/internal/slots.h"
#include "forerun/tensor/attention.h"

namespace forerun {
namespace {

void check_features(const DFlash& model, const at::Tensor& features) {
  const std::int64_t width = model.fc.size(1);
  if (features.dim() != 2 || features.size(1) != width) {
    throw std::invalid_argument(fmt::format(
        "dflash: features have {} dimensions, the last of {}; expected rows of {} features of {}",
        features.dim(), features.dim() > 0 ? features.size(-1) : 0, model.config.features(),
        model.config.hidden));
  }
}

// [slots, hidden]: the embeddings of a block.
at::Tensor embedded(const DFlash& model, std::span<const Token> block) {
  const DFlashConfig& c = model.config;
  if (block.empty()) throw std::invalid_argument("dflash: an empty block; it starts at an anchor");
  std::vector<at::Tensor> rows;
  for (const Token t : block) {
    if (t == kMaskSlot && !rows.empty()) {
      rows.push_back(internal::mask_row(model));
      continue;
    }
    if (t < 0 || t >= c.vocab) {
      throw std::invalid_argument(fmt::format(
          "dflash: token {} lies outside the vocabulary of {}; is the block the target's?", t,
          c.vocab));
    }
    const at::Tensor id = at::tensor(std::vector<std::int64_t>{t}, at::kLong);
    rows.push_back(internal::embed(model, id.to(model.embedding.device())).squeeze(0));
  }
  return at::stack(rows);
}

// [slots, context + slots] bool: what each slot sees. Undefined if all of it.
at::Tensor seen_by_slots(const LayerAttention& attention, std::int64_t context, std::int64_t start,
                         std::int64_t slots, const at::Device& device) {
  if (attention.window == 0 && !attention.causal) return {};
  const at::Tensor own = at::arange(start, start + slots, device);
  const at::Tensor keys = at::cat({at::arange(context, device), own});
  const at::Tensor ahead = keys.unsqueeze(0) - own.unsqueeze(1);  // key position - query position
  at::Tensor seen = at::ones_like(ahead, at::kBool);
  if (attention.causal) seen = seen.logical_and(ahead.le(0));
  if (attention.window > 0) seen = seen.logical_and(ahead.abs().lt(attention.window));
  return seen;
}

}  // namespace

at::Tensor context(const DFlash& model, const at::Tensor& features) {
  check_features(model, features);
  const at::Tensor x = features.to(model.fc.scalar_type());
  return model.hidden_norm.fused(at::linear(x, model.fc));
}

DFlashCache::DFlashCache(const DFlash& model)
    : kv_({.layers = model.config.layers,
           .heads = model.config.kv_heads,
           .head_dim = model.config.head_dim,
           .dtype = model.fc.scalar_type()}) {}

void DFlashCache::append(const DFlash& model, const at::Tensor& features) {
  const at::Tensor c = context(model, features);
  const std::int64_t n = c.size(0);
  const Rotation rotation =
      internal::rotation_at(model, at::arange(length(), length() + n, c.device()));
  kv_.reserve(n);
  if (model.slot_state.defined()) {
    const at::Tensor before = rows_.defined() ? rows_.narrow(0, 0, length()) : c.narrow(0, 0, 0);
    rows_ = at::cat({before, c});
  }
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const KeysValues rows = keys_values(model.layers[i], model.config, c, rotation);
    kv_.write(static_cast<std::int64_t>(i), rows.k, rows.v);
  }
  kv_.advance(n);
}

DFlashCache DFlashCache::share(std::int64_t positions) const {
  return {kv_.share(positions), rows_.defined() ? rows_.narrow(0, 0, positions) : at::Tensor()};
}

at::Tensor DFlashCache::last() const {
  if (!rows_.defined() || length() == 0) return {};
  return rows_.narrow(0, length() - 1, 1);
}

at::Tensor block_hidden(const DFlash& model, const DFlashCache& cache, std::span<const Token> block,
                        std::int64_t start) {
  const DFlashConfig& c = model.config;
  const std::int64_t known = cache.length(), slots = static_cast<std::int64_t>(block.size());
  if (start < known) {
    throw std::invalid_argument(fmt::format(
        "dflash: a block at position {} inside a context of {}; truncate the cache first", start,
        known));
  }
  at::Tensor h = embedded(model, block);
  if (const at::Tensor last = cache.last(); last.defined()) {
    h = h + at::linear(last, model.slot_state);
  }
  const Rotation rotation =
      internal::rotation_at(model, at::arange(start, start + slots, h.device()));
  const AttentionOptions options{.scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim))};
  const auto attend_layer = [&](std::size_t i, const at::Tensor& q, const KeysValues& own) {
    const auto layer = static_cast<std::int64_t>(i);
    const auto after = [](const at::Tensor& cached, const at::Tensor& x) {
      return at::cat({cached, x.transpose(0, 1)}, 1);
    };
    return attend(q, after(cache.kv().keys(layer, 0, known), own.k),
                  after(cache.kv().values(layer, 0, known), own.v),
                  seen_by_slots(c.attention[i], known, start, slots, h.device()), options);
  };
  return internal::run_layers(model, h, slots, rotation, attend_layer);
}

std::vector<Token> masked_block(const DFlash& model, Token anchor) {
  std::vector<Token> out(static_cast<std::size_t>(model.config.block), kMaskSlot);
  out[0] = anchor;
  return out;
}

at::Tensor block_logits(const DFlash& model, const at::Tensor& hidden) {
  const DFlashConfig& c = model.config;
  at::Tensor logits = at::linear(hidden, model.head);
  if (c.output_multiplier != 1.0) logits = logits * c.output_multiplier;
  return softcapped(logits, c.final_softcap);
}

at::Tensor markov_bias(const DFlash& model, const at::Tensor& hidden, const at::Tensor& previous) {
  const at::Tensor rows = model.markov_w1.index_select(0, previous);
  if (!model.config.markov_gated) return at::linear(rows, model.markov_w2);
  const at::Tensor gate = model.markov_gate(at::cat({hidden.to(rows.scalar_type()), rows}, -1));
  return at::linear(gate.sigmoid().mul(rows), model.markov_w2);
}

at::Tensor transition_scores(const DFlash& model, const at::Tensor& hidden,
                             const at::Tensor& previous, const at::Tensor& candidates) {
  const at::Tensor state = at::linear(hidden, model.selector_projection);
  const at::Tensor context = model.predecessors.index_select(0, previous) * state;
  const at::Tensor to = model.successors.index_select(0, candidates.flatten())
                            .view({candidates.size(0), candidates.size(1), -1});
  return (context.unsqueeze(1) * to).sum(-1);
}

Linear slot_projection(const DFlash& model) {
  if (model.config.selector_rank > 0) return {.weight = model.selector_projection};
  if (!model.config.markov_gated) return {};
  // The gate's columns of the slot; those of the token before follow.
  return {.weight = model.markov_gate.weight.narrow(1, 0, model.config.hidden),
          .bias = model.markov_gate.bias};
}

at::Tensor confidence(const DFlash& model, const at::Tensor& hidden, const at::Tensor& previous) {
  const at::Tensor x =
      model.config.confidence_sees_markov && model.markov_w1.defined()
          ? at::cat({hidden, model.markov_w1.index_select(0, previous).to(hidden.scalar_type())},
                    -1)
          : hidden;
  const at::Tensor logit = at::linear(x, model.confidence_weight, model.confidence_bias);
  return (logit.scalar_type() == at::kDouble ? logit : logit.to(at::kFloat)).squeeze(-1);
}

}  // namespace forerun
