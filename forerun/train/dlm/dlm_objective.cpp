#include "forerun/train/dlm/dlm_objective.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "forerun/base/hash.h"
#include "forerun/models/diffusion_lm/diffusion_file.h"
#include "forerun/tensor/ids.h"
#include "forerun/tensor/mixed_cross_entropy.h"
#include "forerun/train/answers/draft_targets.h"
#include "forerun/train/parameters_of.h"

namespace forerun {
namespace {

// Positions with a successor to predict, of which the target has verified one: [first, size - 1).
std::int64_t first_anchor(const AnswerDocument& d) { return std::max<std::int64_t>(d.prompt, 1); }

std::int64_t answer_rows(const AnswerDocument& d) { return d.size() - 1 - first_anchor(d); }

// The share of right drafts at places 2, 4, ... of the blocks that reach so far.
std::vector<Figure> right_by_place(std::span<const std::int64_t> draft, const at::Tensor& best,
                                   std::span<const std::int64_t> label, std::int64_t places) {
  std::vector<Figure> out;
  for (std::int64_t k = 1; k < places; k += 2) {
    Figure figure{.name = fmt::format("place{}", k + 1)};
    for (std::size_t i = 0; i < draft.size(); ++i) {
      if (draft[i] != k) continue;
      figure.denominator += 1.0;
      figure.numerator += best.const_data_ptr<std::int64_t>()[i] == label[i] ? 1.0 : 0.0;
    }
    out.push_back(std::move(figure));
  }
  return out;
}

}  // namespace

DlmObjective::DlmObjective(const std::shared_ptr<const DecoderLm>& target,
                           std::shared_ptr<DiffusionLm> model, std::vector<TokenShards> data,
                           const TargetHead& head, const DlmLossOptions& options,
                           const std::string& target_hash)
    : AnswerObjective(std::move(data), model->config.vocab, target->config.context, options),
      model_(std::move(model)),
      options_(options),
      target_(fmt::format("target={} precision={}", target_hash, name_of(target->precision))),
      states_(target, head, {}),
      outputs_(places_of_tokens(model_->config.vocab, model_->output_tokens)) {}

std::vector<Parameter> DlmObjective::parameters() {
  return parameters_of(weights(*model_),
                       [](const ModelWeight& w) { return w.name.ends_with("_proj.weight"); });
}

std::int64_t DlmObjective::output_at(const AnswerDocument& d, std::int64_t position) const {
  return outputs_[static_cast<std::size_t>(d.tokens[static_cast<std::size_t>(position)])];
}

DlmObjective::Drafts DlmObjective::supervised(std::span<const AnswerDocument> documents,
                                              const MaskedBatch& batch) const {
  const std::int64_t slots = model_->config.block - 1;
  const bool kept = model_->config.attention == DiffusionAttention::kBlock;
  std::int64_t rows = 0, first_row = 0, block = 0;  // rows: of the text in the states
  for (std::size_t i = 0; i < documents.size(); ++i) {
    rows += kept ? documents[i].size() : static_cast<std::int64_t>(batch.anchors[i].size());
  }
  Drafts out, others;
  const auto add = [&](Drafts& to, std::int64_t row, std::int64_t k, std::int64_t label,
                       std::int64_t teacher, float weight) {
    to.row.push_back(row);
    to.draft.push_back(k);
    to.label.push_back(label);
    to.teacher.push_back(teacher);
    to.weight.push_back(weight);
  };
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const AnswerDocument& d = documents[i];
    const std::vector<std::int64_t>& anchors = batch.anchors[i];
    const float of_text =
        kept ? static_cast<float>(anchors.size()) / static_cast<float>(answer_rows(d)) : 1.0F;
    for (const std::int64_t p : anchors) {
      for (std::int64_t k = 0; k <= slots && p + 1 + k < d.size(); ++k) {
        const std::int64_t label = output_at(d, p + 1 + k);
        if (label < 0) break;
        const std::int64_t anchor = kept ? first_row + p : block;
        add(out, k == 0 ? anchor : rows + block * slots + k - 1, k, label, first_row + p + k,
            k == 0 ? of_text : draft_weight(k, options_.gamma));
      }
      ++block;
    }
    for (std::int64_t p = first_anchor(d); kept && p + 1 < d.size(); ++p) {
      const std::int64_t label = output_at(d, p + 1);
      if (label < 0 || std::binary_search(anchors.begin(), anchors.end(), p)) continue;
      add(others, first_row + p, 0, label, first_row + p, of_text);
    }
    first_row += d.size();
  }
  out.of_blocks = out.row.size();
  for (std::size_t i = 0; i < others.row.size(); ++i) {
    add(out, others.row[i], 0, others.label[i], others.teacher[i], others.weight[i]);
  }
  return out;
}

LossSum DlmObjective::loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) {
  MaskedBatch batch;
  LossSum out;
  std::int64_t blocks = 0;
  for (const AnswerDocument& d : documents) {
    batch.documents.push_back(d.tokens);
    batch.anchors.push_back(
        random_positions(d, seed, first_anchor(d), d.size() - 1, options_.anchors));
    blocks += static_cast<std::int64_t>(batch.anchors.back().size());
    out.tokens += d.size();
  }
  const Drafts drafts = supervised(documents, batch);
  const std::span<const std::int64_t> numbers(drafts.draft.data(), drafts.of_blocks);
  const auto figures = [&](const at::Tensor& best) {
    out.figures = kept_drafts(numbers, best, drafts.label, blocks);
    for (Figure& f : right_by_place(numbers, best, drafts.label, model_->config.block)) {
      out.figures.push_back(std::move(f));
    }
  };
  if (drafts.row.empty()) {
    figures({});
    return out;
  }
  const at::Device device = model_->mask.device();
  const DistinctRows teachers = distinct_rows(drafts.teacher);
  const at::Tensor laws = states_.probabilities(
      states_.of(batch.documents).last.index_select(0, teachers.rows.to(device)));
  const DiffusionLm network =
      model_->config.weight_bits > 0 ? rounded_to_four_bits(*model_) : *model_;
  const MaskedStates states = training_states(network, batch);
  const at::Tensor hidden = at::cat({states.text, states.masks.flatten(0, 1)})
                                .index_select(0, ids_on(device, drafts.row));
  const MixedCrossEntropy mixed = mixed_cross_entropy(head_logits(network.body, hidden), {},
                                                      {.label = drafts.label,
                                                       .laws = laws,
                                                       .law_of = teachers.of,
                                                       .weight = drafts.weight,
                                                       .share = options_.distill,
                                                       .covered = {}});
  out.loss = mixed.loss;
  out.weight = std::accumulate(drafts.weight.begin(), drafts.weight.end(), 0.0);
  figures(mixed.best.cpu());
  return out;
}

double DlmObjective::flops(std::span<const std::size_t> examples) const {
  const DecoderConfig& c = model_->body.config;
  const auto hidden = static_cast<double>(c.hidden), layers = static_cast<double>(c.layers);
  const auto inner = static_cast<double>(c.query_width());
  const double row = hidden * (2.0 * inner + 2.0 * static_cast<double>(c.kv_width()) +
                               3.0 * static_cast<double>(c.intermediate));
  const double head = hidden * static_cast<double>(c.vocab);
  double sum = 0.0;  // multiply-adds
  for (const std::size_t i : examples) {
    const AnswerDocument& d = documents()[i];
    const auto text = static_cast<double>(d.size());
    const auto answer = static_cast<double>(answer_rows(d));
    sum += text * states_.products_of_row();
    const double blocks = std::min(answer, static_cast<double>(options_.anchors));
    const double masks = blocks * static_cast<double>(model_->config.block - 1);
    if (model_->config.attention == DiffusionAttention::kBidirectional) {
      const double rows = text - answer * 0.5 + static_cast<double>(model_->config.block);
      sum += 3.0 * layers * blocks * rows * (row + 2.0 * inner * rows);
      sum += 2.0 * (blocks + masks) * head + answer * head;
      continue;
    }
    // Forward, and back for weights and inputs; the head's weights are frozen.
    sum += 3.0 * layers * (text + masks) * row + 2.0 * (answer + masks) * head;
    sum += 6.0 * layers * inner * (text * text + masks * text * 0.5);
    sum += answer * head;  // the target's law
  }
  return 2.0 * sum;
}

std::string DlmObjective::fingerprint() const {
  const DiffusionConfig& c = model_->config;
  return fmt::format(
      "dlm{}{} {} layers={} block={} draft_vocab={} drafted={:016x} anchors={} length={} gamma={} "
      "distill={} documents={} data={:016x}",
      c.attention == DiffusionAttention::kBidirectional ? " bidirectional" : "",
      c.weight_bits > 0 ? fmt::format(" weight_bits={}", c.weight_bits) : "", target_,
      model_->body.config.layers, c.block, c.outputs, Hash().add_all(outputs_).value(),
      options_.anchors, options_.length, options_.gamma, options_.distill, size(), data_hash());
}

void DlmObjective::save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                        const nlohmann::json& provenance) {
  save_diffusion_lm(folder, with_values(*model_, values), provenance);
}

}  // namespace forerun
