#include "forerun/models/decoder_lm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "forerun/models/gated_lora/gated_lora.h"
#include "forerun/models/int8_decoder.h"
#include "forerun/tensor/attention.h"

namespace forerun {
namespace {

std::int64_t rows_of(const DecoderLm& model, const SequenceSpan& sequence) {
  const std::size_t hidden = static_cast<std::size_t>(model.config.hidden);
  if (sequence.embeddings.empty()) return static_cast<std::int64_t>(sequence.tokens.size());
  if (!sequence.tokens.empty() || sequence.embeddings.size() % hidden != 0) {
    throw std::invalid_argument(fmt::format(
        "a pass: {} values of embeddings and {} tokens: give either, embeddings as rows "
        "of {}",
        sequence.embeddings.size(), sequence.tokens.size(), hidden));
  }
  return static_cast<std::int64_t>(sequence.embeddings.size() / hidden);
}

void check(const DecoderLm& model, const SequenceSpan& sequence, const RowPlan& plan) {
  if (!model.config.recurrent.none() && !plan.ordered()) {
    throw std::invalid_argument(
        "a pass: recurrent layers read texts in order: rows of groups, and rows that skip "
        "positions, cannot be given to this model");
  }
  if (sequence.cache->pending()) {
    throw std::invalid_argument(
        "a pass: the cache has pending rows of the pass before: keep a path of them, or truncate");
  }
  const std::int64_t end = sequence.cache->length() + plan.depths();
  if (end > model.config.context) {
    throw std::invalid_argument(
        fmt::format("{} positions do not fit the model's context of {}: shorten the prompt or ask "
                    "for fewer tokens",
                    end, model.config.context));
  }
  check_tokens(model, sequence.tokens);
  for (const std::int32_t row : sequence.scored_rows) {
    if (row >= 0 && row < plan.rows() && sequence.scored == 0) continue;
    throw std::invalid_argument(fmt::format(
        "a pass: logits of row {} of {} and of the last {}: ask for rows of the pass, or for the "
        "last ones",
        row, plan.rows(), sequence.scored));
  }
}

void check_masks(const DecoderLm& model, const SequenceSpan& sequence, std::int64_t rows) {
  if (sequence.masks.empty()) return;
  const GatedLora* lora = sequence.adapters;
  if (lora == nullptr || !model.config.recurrent.none() ||
      lora->config.hidden != model.config.hidden || lora->config.layers != model.config.layers ||
      !sequence.embeddings.empty() || (model.int8 != nullptr) != (lora->int8 != nullptr)) {
    throw std::invalid_argument(
        "a pass: rows of masks need tokens, and adapters made for this model in its precision");
  }
  std::int32_t last = -1;
  for (const std::int32_t row : sequence.masks) {
    if (row <= last || row >= rows) {
      throw std::invalid_argument(
          fmt::format("a pass: mask row {} after {} of {} rows: name rows of the pass, rising", row,
                      last, rows));
    }
    last = row;
  }
}

std::vector<RowPlan> checked(const DecoderLm& model, std::span<const SequenceSpan> sequences,
                             std::span<const std::int64_t> kept) {
  for (const std::int64_t block : kept) {
    if (block >= 0 && block < model.config.layers) continue;
    throw std::invalid_argument(fmt::format("block {} is wanted, the model has {}: 0 to {}", block,
                                            model.config.layers, model.config.layers - 1));
  }
  std::vector<RowPlan> plans;
  plans.reserve(sequences.size());
  for (const SequenceSpan& sequence : sequences) {
    plans.push_back(
        RowPlan::of(rows_of(model, sequence), sequence.parents, sequence.groups, sequence.skips));
    check(model, sequence, plans.back());
    check_masks(model, sequence, plans.back().rows());
  }
  return plans;
}

// A pass either has memory for all its sequences, or takes none.
void require_memory(std::span<const SequenceSpan> sequences, std::span<const RowPlan> plans) {
  std::map<const KvPool*, std::size_t> bytes;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const KvCache& cache = *sequences[i].cache;
    bytes[cache.pool().get()] += cache.bytes_to_reserve(plans[i]);
  }
  for (const auto& [pool, needed] : bytes) {
    if (pool != nullptr) pool->require(needed);
  }
}

// The rows of all sequences, concatenated.
struct Packed {
  at::Tensor hidden;     // [rows, hidden]
  at::Tensor positions;  // [rows] int64
  at::Tensor scored;     // [sum of scored] int64: rows whose logits are needed
};

// The input of the first block, [rows, hidden].
at::Tensor embedded(const DecoderLm& model, std::span<const SequenceSpan> sequences) {
  std::vector<std::int64_t> ids;
  for (const SequenceSpan& s : sequences) ids.insert(ids.end(), s.tokens.begin(), s.tokens.end());
  const at::Tensor tokens = embed(model, at::tensor(ids, at::kLong));
  std::vector<at::Tensor> parts;
  std::int64_t row = 0;
  for (const SequenceSpan& s : sequences) {
    const auto n = static_cast<std::int64_t>(s.tokens.size());
    if (n > 0) parts.push_back(tokens.narrow(0, row, n));
    row += n;
    if (s.embeddings.empty()) continue;
    parts.push_back(
        at::from_blob(const_cast<float*>(s.embeddings.data()),
                      {static_cast<std::int64_t>(s.embeddings.size()) / model.config.hidden,
                       model.config.hidden},
                      at::kFloat)
            .to(tokens.scalar_type()));
  }
  return parts.empty() ? tokens : parts.size() == 1 ? parts[0] : at::cat(parts);
}

// The mask rows of one network's adapters, numbered in the pass.
struct Masks {
  const GatedLora* lora;
  at::Tensor rows;  // [n] int64
};
std::vector<Masks> masks_of(std::span<const SequenceSpan> sequences,
                            std::span<const RowPlan> plans) {
  std::map<const GatedLora*, std::vector<std::int64_t>> rows;
  std::int64_t first = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    for (const std::int32_t row : sequences[s].masks) {
      rows[sequences[s].adapters].push_back(first + row);
    }
    first += plans[s].rows();
  }
  std::vector<Masks> out;
  for (const auto& [lora, some] : rows) out.push_back({lora, at::tensor(some, at::kLong)});
  return out;
}

Packed pack(const DecoderLm& model, std::span<const SequenceSpan> sequences,
            std::span<const RowPlan> plans) {
  std::vector<std::int64_t> positions, scored;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const SequenceSpan& sequence = sequences[s];
    const auto first = static_cast<std::int64_t>(positions.size());
    const std::int64_t n = plans[s].rows();
    for (std::int64_t i = 0; i < n; ++i) {
      positions.push_back(sequence.cache->length() + plans[s].depth(i));
      if (i >= n - sequence.scored) scored.push_back(first + i);
    }
    for (const std::int32_t row : sequence.scored_rows) scored.push_back(first + row);
  }
  return {embedded(model, sequences), at::tensor(positions, at::kLong),
          at::tensor(scored, at::kLong)};
}

// Attention of one block: each sequence over its own cache.
Attend attention(const DecoderLm& model, std::int64_t index,
                 std::span<const SequenceSpan> sequences, std::span<const RowPlan> plans) {
  return [=, &c = model.config](const at::Tensor& q, const KeysValues& own) {
    const bool sliding = c.sliding[static_cast<std::size_t>(index)];
    const std::int64_t cached = c.index_in_kind(index);
    const AttentionOptions options{.scale = c.query_scale,
                                   .window = sliding ? std::optional(c.window) : std::nullopt,
                                   .softcap = c.attention_softcap,
                                   .sinks = model.layers[static_cast<std::size_t>(index)].sinks};
    std::vector<at::Tensor> out;
    out.reserve(sequences.size());
    std::int64_t row = 0;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const std::int64_t n = plans[s].rows();
      KvCache& cache = *sequences[s].cache;
      cache.write(cached, own.k.narrow(0, row, n), own.v.narrow(0, row, n));
      out.push_back(attend(q.narrow(0, row, n), cache, cached, plans[s], options));
      row += n;
    }
    return out.size() == 1 ? out[0] : at::cat(out);
  };
}

// Copies the residual stream after block `index` to the sequences that need it.
void keep_states(const at::Tensor& h, std::int64_t index, std::span<const SequenceSpan> sequences,
                 std::span<const RowPlan> plans, std::span<const std::int64_t> kept) {
  const std::int64_t width = h.size(1);
  for (std::size_t j = 0; j < kept.size(); ++j) {
    if (kept[j] != index) continue;
    std::int64_t row = 0;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const std::int64_t n = plans[s].rows();
      if (sequences[s].states != nullptr) {
        const auto all = static_cast<std::int64_t>(kept.size());
        at::from_blob(sequences[s].states, {n, all, width}, at::kFloat)
            .select(1, static_cast<std::int64_t>(j))
            .copy_(h.narrow(0, row, n));
      }
      row += n;
    }
  }
}

}  // namespace

LayerRotations rotations_at(const DecoderLm& model, const at::Tensor& positions,
                            at::ScalarType network) {
  const Rotation full = model.rope.at(positions, network);
  return {.full = full,
          .local = model.config.window > 0 ? model.local_rope.at(positions, network) : full,
          .none = {.cos = {}, .sin = {}, .growth = full.growth}};
}

at::Tensor embed(const DecoderLm& model, const at::Tensor& ids) {
  const at::Tensor rows = model.stored_embedding ? model.stored_embedding->select(ids)
                                                 : model.embedding.index_select(0, ids);
  if (model.config.embedding_scale == 1.0) return rows;
  // The scale is rounded to the model's precision first, as the reference does.
  return rows * at::scalar_tensor(model.config.embedding_scale, rows.options());
}

at::Tensor head_logits(const DecoderLm& model, const at::Tensor& hidden) {
  const auto& stored = model.stored_head ? model.stored_head : model.stored_embedding;
  at::Tensor logits = stored ? stored->multiply(hidden) : at::linear(hidden, model.head());
  if (model.config.logit_divisor != 1.0) logits = logits / model.config.logit_divisor;
  return softcapped(logits, model.config.logit_softcap);
}

void check_tokens(const DecoderLm& model, std::span<const Token> tokens) {
  for (const Token t : tokens) {
    if (t >= 0 && t < model.config.vocab) continue;
    throw std::invalid_argument(
        fmt::format("token {} lies outside the model's vocabulary of {}: was the text encoded "
                    "with this model's tokenizer?",
                    t, model.config.vocab));
  }
}

std::vector<ModelWeight> weights(DecoderLm& m) {
  const DecoderConfig& c = m.config;
  std::vector<ModelWeight> out = {{"model.embed_tokens.weight", &m.embedding, {c.vocab, c.hidden}}};
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    add_weights(m.layers[i], c.block(i), fmt::format("model.layers.{}.", i), out);
  }
  out.push_back({"model.norm.weight", &m.final_norm.weight, {c.hidden}});
  if (!c.tied_head) out.push_back({"lm_head.weight", &m.own_head, {c.vocab, c.hidden}});
  return out;
}

std::int64_t prefill_rows(const DecoderLm& model) {
  constexpr std::int64_t kMost = 512, kLeast = 32, kWork = 1LL << 38;  // multiply-adds
  if (!model.int8) return kMost;
  return std::clamp(kWork / std::max<std::int64_t>(model.weight_bytes(), 1), kLeast, kMost);
}

KvCache DecoderLm::make_cache(std::shared_ptr<KvPool> pool) const {
  KvCache out = int8 ? int8->make_cache(std::move(pool))
                     : KvCache({.layers = config.layers - config.recurrent_count(),
                                .heads = config.kv_heads,
                                .head_dim = config.head_dim,
                                .dtype = scalar_type(precision)},
                               256, std::move(pool));
  if (!config.recurrent.none()) out.set_recurrent(state_shape(config, config.recurrent_count()));
  return out;
}

std::int64_t DecoderLm::weight_bytes() const {
  if (int8) return int8->weight_bytes();
  const auto& stored = stored_head ? stored_head : stored_embedding;
  std::int64_t bytes = stored ? stored->bytes() : static_cast<std::int64_t>(head().nbytes());
  const auto bytes_of = [](const Linear& w) {
    return w.stored ? w.stored->bytes() : static_cast<std::int64_t>(w.weight.nbytes());
  };
  for (TransformerBlock l : layers) {  // the same tensors
    std::int64_t experts = 0;
    for (const GatedMlp& e : l.experts) {
      for (const Linear* w : {&e.gate, &e.up, &e.down}) experts += bytes_of(*w);
    }
    for (const Linear* w : l.linears()) bytes += bytes_of(*w);
    if (experts > 0) bytes -= experts - experts / config.experts * config.experts_used;
  }
  return bytes;
}

namespace {

// As `forward` without int8, of checked sequences.
at::Tensor float_forward(const DecoderLm& model, std::span<const SequenceSpan> sequences,
                         std::span<RowPlan> plans, std::span<const std::int64_t> kept) {
  const Packed rows = pack(model, sequences, plans);
  for (std::size_t s = 0; s < sequences.size(); ++s) sequences[s].cache->reserve(plans[s]);
  at::Tensor h = rows.hidden;
  const std::vector<Masks> masks = masks_of(sequences, plans);
  std::vector<AdaptedRows> adapted;
  std::vector<const GatedLora*> adapting;  // of `adapted`
  for (const Masks& m : masks) {
    if (m.lora->mask_embedding.defined()) {
      h = h.index_copy(0, m.rows,
                       m.lora->mask_embedding.to(h.scalar_type()).expand({m.rows.numel(), -1}));
    }
    if (!m.lora->adapts()) continue;
    adapted.push_back({.rows = m.rows});
    adapting.push_back(m.lora);
  }
  const LayerRotations rotations = rotations_at(model, rows.positions);
  RecurrentRows recurrent(model.config);
  if (!model.config.recurrent.none()) {
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      recurrent.add_sequence(sequences[s].cache->recurrent(), &plans[s]);
    }
    recurrent.start(at::get_num_threads());
  }
  for (std::int64_t i = 0; i < model.config.layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (model.config.recurs(at)) {
      h = run_block(model.layers[at], model.config, h, recurrent, model.config.index_in_kind(i));
      keep_states(h, i, sequences, plans, kept);
      continue;
    }
    for (std::size_t m = 0; m < adapted.size(); ++m) adapted[m].lora = &adapting[m]->layers[at];
    h = run_block(model.layers[at], model.config, h, rotations.of(model.config, at),
                  attention(model, i, sequences, plans), adapted);
    keep_states(h, i, sequences, plans, kept);
  }
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    sequences[s].cache->advance(std::move(plans[s]));
  }
  if (rows.scored.numel() == 0) return at::empty({0, model.config.vocab}, at::kFloat);
  const at::Tensor last = model.final_norm(h.index_select(0, rows.scored));
  return head_logits(model, last).to(at::kFloat).contiguous();
}

}  // namespace

at::Tensor forward(const DecoderLm& model, std::span<const SequenceSpan> sequences,
                   std::span<const std::int64_t> kept) {
  std::vector<RowPlan> plans = checked(model, sequences, kept);
  require_memory(sequences, plans);
  at::Tensor logits = model.int8 ? model.int8->forward(sequences, plans, kept)
                                 : float_forward(model, sequences, plans, kept);
  if (model.config.mask_token) {
    logits.select(1, *model.config.mask_token).fill_(-std::numeric_limits<float>::infinity());
  }
  return logits;
}

int prefill(const DecoderLm& model, KvCache& cache, std::span<const Token> tokens, float* states,
            std::span<const std::int64_t> kept, const GoOn& go_on) {
  const auto most = static_cast<std::size_t>(prefill_rows(model));
  int passes = 0;
  for (; !tokens.empty(); ++passes) {
    if (passes > 0) expect_to_go_on(go_on);
    const std::size_t n = std::min(most, tokens.size());
    const SequenceSpan span{
        .cache = &cache, .tokens = tokens.first(n), .scored = 0, .states = states};
    forward(model, {&span, 1}, kept);
    tokens = tokens.subspan(n);
    if (states != nullptr) {
      states += static_cast<std::int64_t>(n * kept.size()) * model.config.hidden;
    }
  }
  return passes;
}

}  // namespace forerun
