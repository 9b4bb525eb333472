#include "forerun/train/dflash/dflash_objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "forerun/base/hash.h"
#include "forerun/core/philox.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/tensor/mixed_cross_entropy.h"
#include "forerun/train/parameters_of.h"

namespace forerun {
namespace {

// A random word of a document under a seed.
std::uint32_t word(std::uint64_t seed, std::uint64_t key, std::uint32_t index) {
  return philox4x32(
      {index, static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32), 0xdf1a54U},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)})[0];
}

at::Tensor ids(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

}  // namespace

void check_documents(const TokenShards& shards, std::int64_t vocab) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const Token t : shards.tokens(i)) {
      if (t >= 0 && t < vocab) continue;
      throw std::invalid_argument(
          fmt::format("document {} holds token {}, the target's vocabulary has {}: it was made "
                      "by another model",
                      shards.id(i), t, vocab));
    }
  }
}

DFlashObjective::DFlashObjective(const std::shared_ptr<const DecoderLm>& target,
                                 std::shared_ptr<DFlash> model, std::vector<TokenShards> data,
                                 const TargetHead& head, const DFlashLossOptions& options,
                                 const std::string& target_hash)
    : model_(std::move(model)),
      data_(std::move(data)),
      options_(options),
      target_(fmt::format("target={} precision={}", target_hash, name_of(target->precision))),
      states_(target, head, model_->config.feature_layers) {
  const DFlashConfig& c = model_->config;
  drafted_.assign(static_cast<std::size_t>(c.vocab), -1);
  for (std::int64_t i = 0; i < c.draft_vocab; ++i) {
    const std::int64_t token =
        model_->draft_to_target.defined() ? model_->draft_to_target.data_ptr<std::int64_t>()[i] : i;
    drafted_[static_cast<std::size_t>(token)] = i;
  }
  // The target has no states beyond its context.
  const auto most = static_cast<std::size_t>(std::min(options.length, target->config.context));
  std::uint64_t folder = 0;
  for (const TokenShards& shards : data_) {
    check_documents(shards, c.vocab);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto tokens = shards.tokens(i).first(std::min(shards.tokens(i).size(), most));
      if (shards.prompt(i) + 2 > static_cast<std::int64_t>(tokens.size())) continue;
      // Answers to one prompt stay on one side, whichever folder they are in.
      const auto id = static_cast<std::uint64_t>(shards.id(i));
      const bool held = word(kHeldOutSeed, id, 0) < options.held_out * 0x1p32;
      (held ? held_out_ : training_).push_back({tokens, shards.prompt(i), folder << 32 | id});
    }
    ++folder;
  }
  if (training_.empty()) {
    throw std::invalid_argument(
        "the data holds no answer to learn from: run forerun distill first");
  }
  hash_data();
  if (!options_.state_store.empty()) open_store();
}

void DFlashObjective::hash_data() {
  Hash hash;
  for (const std::vector<Document>* side : {&training_, &held_out_}) {
    hash.add(side->size());
    for (const Document& d : *side) hash.add(d.key).add(d.prompt).add_all(d.tokens);
  }
  data_hash_ = hash.value();
  drafted_hash_ = Hash().add_all(drafted_).value();
}

void DFlashObjective::open_store() {
  std::vector<std::int64_t> rows;
  Hash hash;  // of lengths too: they determine where rows are
  for (std::vector<Document>* side : {&training_, &held_out_}) {
    for (Document& d : *side) {
      d.number = rows.size();
      rows.push_back(static_cast<std::int64_t>(d.tokens.size()));
      hash.add_all(d.tokens);
    }
  }
  const std::string key =
      fmt::format("{} layers {} documents {} {:016x}", target_,
                  fmt::join(model_->config.feature_layers, ","), rows.size(), hash.value());
  store_ = std::make_unique<StateStore>(options_.state_store, states_.shape(), rows, key);
}

TargetStates::Batch DFlashObjective::states_of(std::span<const Document> documents) {
  std::vector<std::span<const Token>> tokens;
  std::vector<std::size_t> numbers;
  for (const Document& d : documents) {
    tokens.push_back(d.tokens);
    numbers.push_back(d.number);
  }
  return store_ ? states_.of(tokens, numbers, *store_) : states_.of(tokens);
}

std::vector<Parameter> DFlashObjective::parameters() {
  return parameters_of(weights(*model_), [](const ModelWeight& w) {
    return w.name.ends_with("_proj.weight") || w.name == "fc.weight";
  });
}

// Positions in the answer that have a successor to predict, a random choice of them.
std::vector<std::int64_t> DFlashObjective::anchors_of(const Document& d, std::uint64_t seed) const {
  std::vector<std::int64_t> all;
  for (std::int64_t p = std::max<std::int64_t>(d.prompt, 1);
       p + 1 < static_cast<std::int64_t>(d.tokens.size()); ++p) {
    all.push_back(p);
  }
  const auto n = std::min(all.size(), static_cast<std::size_t>(options_.anchors));
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t left = all.size() - i;
    const std::uint64_t pick = word(seed, d.key, static_cast<std::uint32_t>(i)) * left >> 32;
    std::swap(all[i], all[i + pick]);
  }
  all.resize(n);
  std::sort(all.begin(), all.end());
  return all;
}

void DFlashObjective::supervise(const Document& d, std::int64_t first_row, std::int64_t block,
                                std::int64_t anchor, Slots& slots) const {
  const DFlashConfig& c = model_->config;
  for (std::int64_t k = 0; k < c.drafts(); ++k) {
    const std::int64_t position = anchor + 1 + k;
    if (position >= static_cast<std::int64_t>(d.tokens.size())) return;
    const auto at = static_cast<std::size_t>(position);
    const std::int64_t label = drafted_[static_cast<std::size_t>(d.tokens[at])];
    if (label < 0) return;
    slots.block.push_back(block);
    slots.slot.push_back(c.first_drafting_slot() + k);
    slots.label.push_back(label);
    slots.previous.push_back(d.tokens[at - 1]);
    slots.teacher.push_back(first_row + position - 1);
    slots.weight.push_back(static_cast<float>(std::exp(-static_cast<double>(k) / options_.gamma)));
  }
}

LossSum DFlashObjective::loss_of(std::span<const Document> documents, std::uint64_t seed) {
  BlockBatch batch;
  Slots slots;
  std::vector<std::int64_t> anchor_tokens;
  std::int64_t row = 0, blocks = 0;
  LossSum out;
  for (const Document& d : documents) {
    const auto n = static_cast<std::int64_t>(d.tokens.size());
    batch.lengths.push_back(n);
    batch.anchors.push_back(anchors_of(d, seed));
    for (const std::int64_t p : batch.anchors.back()) {
      anchor_tokens.push_back(d.tokens[static_cast<std::size_t>(p)]);
      supervise(d, row, blocks++, p, slots);
    }
    row += n;
  }
  out.tokens = row;
  const auto all = static_cast<double>(blocks);
  out.figures = {{"first", 0.0, all}, {"tau", all, all}};
  if (slots.label.empty()) return out;

  const TargetStates::Batch states = states_of(documents);
  batch.features = states.features;
  batch.anchor_tokens = ids(anchor_tokens);
  const at::Tensor block = ids(slots.block), slot = ids(slots.slot), previous = ids(slots.previous);
  const at::Tensor hidden = training_blocks(*model_, batch)
                                .view({-1, model_->config.hidden})
                                .index_select(0, block * model_->config.block + slot);
  const at::Tensor addend =
      model_->markov_w1.defined() ? markov_bias(*model_, previous) : at::Tensor();
  // Many slots share a row of the target: its law is computed once for each row.
  const auto [rows, of_slot, counts] = at::_unique2(ids(slots.teacher), true, true);
  const at::Tensor last = states.last.index_select(0, rows);
  const MixedCrossEntropy mixed =
      mixed_cross_entropy(block_logits(*model_, hidden), addend,
                          {.label = slots.label,
                           .laws = states_.probabilities(last),
                           .law_of = {of_slot.const_data_ptr<std::int64_t>(),
                                      of_slot.const_data_ptr<std::int64_t>() + of_slot.numel()},
                           .weight = slots.weight,
                           .share = options_.distill,
                           .covered = confident() ? states_.covered(last) : at::Tensor()});
  out.loss = mixed.loss;
  if (confident()) {
    // The head reads the network without training it.
    const at::Tensor sure = confidence(*model_, hidden.detach(), previous);
    const at::Tensor wrong =
        at::binary_cross_entropy_with_logits(sure, mixed.overlap.clamp(0.0, 1.0), {}, {}, 0);
    out.loss =
        out.loss + (wrong * at::tensor(slots.weight, at::kFloat)).sum() * options_.confidence;
  }
  out.weight = std::accumulate(slots.weight.begin(), slots.weight.end(), 0.0);
  const auto* const best = mixed.best.const_data_ptr<std::int64_t>();
  double first = 0.0, run = 0.0;
  bool alive = false;
  for (std::size_t i = 0; i < slots.label.size(); ++i) {
    const bool begins = slots.slot[i] == model_->config.first_drafting_slot();
    const bool right = best[i] == slots.label[i];
    alive = (begins || alive) && right;
    first += begins && right ? 1.0 : 0.0;
    run += alive ? 1.0 : 0.0;
  }
  out.figures[0].numerator = first;
  out.figures[1].numerator += run;
  return out;
}

LossSum DFlashObjective::loss(std::span<const std::size_t> examples, std::uint64_t seed) {
  std::vector<Document> documents;
  for (const std::size_t i : examples) documents.push_back(training_[i]);
  return loss_of(documents, seed);
}

LossSum DFlashObjective::held_out_loss(std::span<const std::size_t> examples) {
  std::vector<Document> documents;
  for (const std::size_t i : examples) documents.push_back(held_out_[i]);
  return loss_of(documents, kHeldOutSeed);
}

double DFlashObjective::flops(std::span<const std::size_t> examples) const {
  const DFlashConfig& c = model_->config;
  const double inner = static_cast<double>(c.heads * c.head_dim);
  const double kv = static_cast<double>(2 * c.kv_heads * c.head_dim);
  const auto hidden = static_cast<double>(c.hidden), layers = static_cast<double>(c.layers);
  const double slot =
      layers * hidden * (2.0 * inner + kv + 3.0 * static_cast<double>(c.intermediate));
  const auto head = static_cast<double>(c.draft_vocab * c.hidden);
  const auto markov = static_cast<double>(c.draft_vocab * c.markov_rank);
  double sum = 0.0;  // multiply-adds
  for (const std::size_t i : examples) {
    const Document& d = training_[i];
    const auto rows = static_cast<double>(d.tokens.size());
    const double answer = rows - static_cast<double>(d.prompt);
    const double blocks = std::min(answer, static_cast<double>(options_.anchors));
    const double slots = blocks * static_cast<double>(c.block);
    // Forward, and back for weights and inputs; the head's weights are frozen, features have no
    // gradient.
    sum += 3.0 * slots * slot + 2.0 * slots * head + 3.0 * slots * markov;
    sum += rows *
           (2.0 * hidden * hidden * static_cast<double>(c.features()) + 3.0 * layers * hidden * kv);
    sum += 3.0 * layers * slots * inner * (rows + 2.0 * static_cast<double>(c.block));
    sum += answer * head;  // the target's law
    if (confident() && c.draft_vocab < c.vocab) {
      sum += answer * static_cast<double>(c.vocab * c.hidden);
    }
  }
  return 2.0 * sum;
}

std::string DFlashObjective::fingerprint() const {
  const DFlashConfig& c = model_->config;
  return fmt::format(
      "dflash {} layers={} block={} features={} draft_vocab={} drafted={:016x} markov={} next={} "
      "slot_state={} anchors={} length={} gamma={} distill={} confidence={} state_store={} "
      "documents={} data={:016x}",
      target_, c.layers, c.block, fmt::join(c.feature_layers, ","), c.draft_vocab, drafted_hash_,
      c.markov_rank, c.predicts_next, c.slot_state, options_.anchors, options_.length,
      options_.gamma, options_.distill, c.confidence ? options_.confidence : 0.0,
      store_ ? "on" : "off", training_.size(), data_hash_);
}

void DFlashObjective::save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                           const nlohmann::json& provenance) {
  save_dflash(folder, with_values(*model_, values), provenance);
}

}  // namespace forerun
