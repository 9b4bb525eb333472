#include "forerun/train/dflash/dflash_objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "forerun/base/hash.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/dflash/four_bit_dflash.h"
#include "forerun/tensor/ids.h"
#include "forerun/tensor/mixed_cross_entropy.h"
#include "forerun/train/answers/draft_targets.h"
#include "forerun/train/dflash/selector_loss.h"
#include "forerun/train/parameters_of.h"

namespace forerun {
namespace {

// Of the fingerprint: parts that earlier versions lacked, so that their runs still resume.
std::string added_design(const DFlashConfig& c) {
  std::string out;
  if (c.conv_taps > 0) out += fmt::format(" conv={}", c.conv_taps);
  if (c.selector_rank > 0) {
    out += fmt::format(" selector={} of {}", c.selector_rank, c.selector_top_k);
  }
  if (c.markov_gated) out += " gated";
  if (c.weight_bits > 0) out += fmt::format(" weight_bits={}", c.weight_bits);
  return out;
}

}  // namespace

DFlashObjective::DFlashObjective(const std::shared_ptr<const DecoderLm>& target,
                                 std::shared_ptr<DFlash> model, std::vector<TokenShards> data,
                                 const TargetHead& head, const DFlashLossOptions& options,
                                 const std::string& target_hash)
    : AnswerObjective(std::move(data), model->config.vocab, target->config.context, options),
      model_(std::move(model)),
      options_(options),
      target_(fmt::format("target={} precision={}", target_hash, name_of(target->precision))),
      states_(target, head, model_->config.feature_layers, options.state_store, target_),
      drafted_(places_of_tokens(model_->config.vocab, model_->draft_to_target)) {}

std::vector<Parameter> DFlashObjective::parameters() {
  return parameters_of(weights(*model_), [](const ModelWeight& w) {
    return w.name.ends_with("_proj.weight") || w.name.ends_with("_projection.weight") ||
           w.name == "fc.weight";
  });
}

LossSum DFlashObjective::loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) {
  BlockBatch batch;
  DraftSlots slots;
  const DraftLabels labels{
      .drafted = drafted_, .drafts = model_->config.drafts(), .gamma = options_.gamma};
  std::vector<std::int64_t> anchor_tokens;
  std::int64_t row = 0, blocks = 0;
  LossSum out;
  for (const AnswerDocument& d : documents) {
    batch.lengths.push_back(d.size());
    // Positions in the answer that have a successor to predict.
    batch.anchors.push_back(random_positions(d, seed, std::max<std::int64_t>(d.prompt, 1),
                                             d.size() - 1, options_.anchors));
    for (const std::int64_t p : batch.anchors.back()) {
      anchor_tokens.push_back(d.tokens[static_cast<std::size_t>(p)]);
      labels.add(d, row, blocks++, p, slots);
    }
    row += d.size();
  }
  out.tokens = row;
  if (slots.label.empty()) {
    out.figures = kept_drafts({}, {}, {}, blocks);
    return out;
  }

  const auto ids = [device = model_->fc.device()](const std::vector<std::int64_t>& values) {
    return ids_on(device, values);
  };
  const TargetStates::Batch states = states_.of(documents, this->documents());
  batch.features = states.features;
  batch.anchor_tokens = ids(anchor_tokens);
  const DFlashConfig& c = model_->config;
  const DFlash network = c.weight_bits > 0 ? rounded_to_four_bits(*model_) : *model_;
  const at::Tensor slot = ids(slots.draft) + c.first_drafting_slot(),
                   previous = ids(slots.previous);
  const at::Tensor hidden = training_blocks(network, batch)
                                .view({-1, c.hidden})
                                .index_select(0, ids(slots.block) * c.block + slot);
  const at::Tensor addend =
      network.markov_w1.defined() ? markov_bias(network, hidden, previous) : at::Tensor();
  const DistinctRows teachers = distinct_rows(slots.teacher);
  const at::Tensor last = states.last.index_select(0, teachers.rows.to(slot.device()));
  const MixedTargets targets{
      .label = slots.label,
      .laws = states_.target().probabilities(last),
      .law_of = teachers.of,
      .weight = slots.weight,
      .share = options_.distill,
      .covered = confident() || l1() ? states_.target().covered(last) : at::Tensor(),
      .law_loss = l1() ? LawLoss::kL1 : LawLoss::kCrossEntropy};
  const at::Tensor logits = block_logits(network, hidden);
  MixedCrossEntropy mixed = mixed_cross_entropy(logits, addend, targets);
  out.loss = mixed.loss;
  if (c.selector_rank > 0) {
    const SelectorLoss selected = selector_loss(network, logits, hidden, previous, targets);
    out.loss = out.loss + selected.loss;
    mixed.overlap = selected.overlap;
    mixed.best = selected.best;
  }
  if (confident()) out.loss = out.loss + confidence_loss(hidden, previous, mixed, slots.weight);
  out.weight = std::accumulate(slots.weight.begin(), slots.weight.end(), 0.0);
  out.figures = kept_drafts(slots.draft, mixed.best.cpu(), slots.label, blocks);
  return out;
}

// The head reads the network without training it.
at::Tensor DFlashObjective::confidence_loss(const at::Tensor& hidden, const at::Tensor& previous,
                                            const MixedCrossEntropy& mixed,
                                            const std::vector<float>& weight) const {
  const at::Tensor sure = confidence(*model_, hidden.detach(), previous);
  const at::Tensor wrong =
      at::binary_cross_entropy_with_logits(sure, mixed.overlap.clamp(0.0, 1.0), {}, {}, 0);
  const at::Tensor counts = at::tensor(weight, at::kFloat).to(wrong.device());
  return (wrong * counts).sum() * options_.confidence;
}

double DFlashObjective::flops(std::span<const std::size_t> examples) const {
  const DFlashConfig& c = model_->config;
  const double inner = static_cast<double>(c.heads * c.head_dim);
  const double kv = static_cast<double>(2 * c.kv_heads * c.head_dim);
  const auto hidden = static_cast<double>(c.hidden), layers = static_cast<double>(c.layers);
  const double slot =
      layers * hidden *
      (2.0 * inner + kv + static_cast<double>(3 * c.intermediate + 2 * c.conv_outputs()));
  const auto head = static_cast<double>(c.draft_vocab * c.hidden);
  const auto markov =
      static_cast<double>(c.draft_vocab * c.markov_rank + c.slot_numbers() * c.hidden +
                          (c.selector_rank > 0 ? c.selector_rank * (c.selector_top_k + 1) : 0));
  double sum = 0.0;  // multiply-adds
  for (const std::size_t i : examples) {
    const AnswerDocument& d = documents()[i];
    const auto rows = static_cast<double>(d.size());
    const double answer = rows - static_cast<double>(d.prompt);
    const double blocks = std::min(answer, static_cast<double>(options_.anchors));
    const double slots = blocks * static_cast<double>(c.block);
    // Forward, and back for weights and inputs; the head's weights are frozen, features have no
    // gradient.
    sum += 3.0 * slots * slot + 2.0 * slots * head + 3.0 * slots * markov;
    sum += rows *
           (2.0 * hidden * hidden * static_cast<double>(c.features()) + 3.0 * layers * hidden * kv);
    sum += 3.0 * layers * slots * inner * (rows + 2.0 * static_cast<double>(c.block));
    sum +=
        rows * states_.target().products_of_row() + answer * head;  // the target's states and law
    if ((confident() || l1()) && c.draft_vocab < c.vocab) {
      sum += answer * static_cast<double>(c.vocab * c.hidden);
    }
  }
  return 2.0 * sum;
}

std::string DFlashObjective::fingerprint() const {
  const DFlashConfig& c = model_->config;
  return fmt::format(
      "dflash {} layers={} block={} features={} draft_vocab={} drafted={:016x} markov={} next={} "
      "slot_state={}{} anchors={} length={} gamma={} distill={}{} confidence={} state_store={} "
      "documents={} data={:016x}",
      target_, c.layers, c.block, fmt::join(c.feature_layers, ","), c.draft_vocab,
      Hash().add_all(drafted_).value(), c.markov_rank, c.predicts_next, c.slot_state,
      added_design(c), options_.anchors, options_.length, options_.gamma, options_.distill,
      l1() ? " law_loss=l1" : "", c.confidence ? options_.confidence : 0.0,
      options_.state_store.empty() ? "off" : "on", size(), data_hash());
}

void DFlashObjective::save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                           const nlohmann::json& provenance) {
  save_dflash(folder, with_values(*model_, values), provenance);
}

}  // namespace forerun
