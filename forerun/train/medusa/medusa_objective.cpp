#include "forerun/train/medusa/medusa_objective.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "forerun/base/hash.h"
#include "forerun/models/medusa/four_bit_medusa.h"
#include "forerun/models/medusa/medusa_file.h"
#include "forerun/tensor/ids.h"
#include "forerun/tensor/mixed_cross_entropy.h"
#include "forerun/train/answers/draft_targets.h"
#include "forerun/train/parameters_of.h"

namespace forerun {

MedusaObjective::MedusaObjective(const std::shared_ptr<const DecoderLm>& target,
                                 std::shared_ptr<Medusa> model, std::vector<TokenShards> data,
                                 const TargetHead& head, const MedusaLossOptions& options,
                                 const std::string& target_hash)
    : AnswerObjective(std::move(data), model->config.vocab, target->config.context, options),
      model_(std::move(model)),
      options_(options),
      target_(fmt::format("target={} precision={}", target_hash, name_of(target->precision))),
      states_(target, head, model_->config.feature_layers, options.state_store, target_),
      drafted_(places_of_tokens(model_->config.vocab, model_->draft_to_target)) {}

// Neither decay nor Muon for the product with the vocabulary: it begins as the target's, and they
// would take it away from there.
std::vector<Parameter> MedusaObjective::parameters() {
  return parameters_of(weights(*model_), [](const ModelWeight& w) {
    return w.name.ends_with("_proj.weight") || w.name == "fc.weight" || w.name == "heads.weight";
  });
}

LossSum MedusaObjective::loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) {
  const MedusaConfig& c = model_->config;
  const DraftLabels labels{.drafted = drafted_, .drafts = c.heads, .gamma = options_.gamma};
  DraftSlots slots;
  std::vector<std::int64_t> newest, rows;  // of each place: its token, the row before it
  std::int64_t row = 0;
  for (const AnswerDocument& d : documents) {
    // Tokens of the answer that have a successor to predict.
    for (const std::int64_t p : random_positions(d, seed, std::max<std::int64_t>(d.prompt, 1),
                                                 d.size() - 1, options_.anchors)) {
      labels.add(d, row, static_cast<std::int64_t>(rows.size()), p, slots);
      newest.push_back(d.tokens[static_cast<std::size_t>(p)]);
      rows.push_back(row + p - 1);
    }
    row += d.size();
  }
  const auto places = static_cast<std::int64_t>(rows.size());
  LossSum out;
  out.tokens = row;
  if (slots.label.empty()) {
    out.figures = kept_drafts({}, {}, {}, places);
    return out;
  }

  const auto ids = [device = model_->fc.weight.device()](const std::vector<std::int64_t>& values) {
    return ids_on(device, values);
  };
  const TargetStates::Batch states = states_.of(documents, this->documents());
  const Medusa network = c.weight_bits > 0 ? rounded_to_four_bits(*model_) : *model_;
  const at::Tensor all =
      head_states(network, states.features.index_select(0, ids(rows)), ids(newest));
  const at::Tensor supervised =
      all.view({-1, c.width}).index_select(0, ids(slots.block) * c.heads + ids(slots.draft));
  const DistinctRows teachers = distinct_rows(slots.teacher);
  const at::Tensor last = states.last.index_select(0, teachers.rows.to(supervised.device()));
  const MixedTargets targets{.label = slots.label,
                             .laws = states_.target().probabilities(last),
                             .law_of = teachers.of,
                             .weight = slots.weight,
                             .share = options_.distill,
                             .covered = {}};
  const at::Tensor addend =
      network.markov_w1.defined() ? markov_bias(network, ids(slots.previous)) : at::Tensor();
  const MixedCrossEntropy mixed =
      mixed_cross_entropy(head_logits(network, supervised), addend, targets);
  out.loss = mixed.loss;
  out.weight = std::accumulate(slots.weight.begin(), slots.weight.end(), 0.0);
  out.figures = kept_drafts(slots.draft, mixed.best.cpu(), slots.label, places);
  return out;
}

double MedusaObjective::flops(std::span<const std::size_t> examples) const {
  const MedusaConfig& c = model_->config;
  const auto width = static_cast<double>(c.width), heads = static_cast<double>(c.heads);
  const double trunk =
      width * static_cast<double>(c.inputs() + 3 * c.intermediate + c.heads * c.width);
  const double head = static_cast<double>(c.draft_vocab * (c.width + c.markov_rank));
  const auto law = static_cast<double>(c.draft_vocab * c.hidden);
  double sum = 0.0;  // multiply-adds: forward, and back for weights and inputs
  for (const std::size_t i : examples) {
    const AnswerDocument& d = documents()[i];
    const auto answer = static_cast<double>(d.size() - d.prompt);
    const double places = std::min(answer, static_cast<double>(options_.anchors));
    sum += 3.0 * places * (trunk + heads * head);
    sum += static_cast<double>(d.size()) * states_.target().products_of_row() + answer * law;
  }
  return 2.0 * sum;
}

std::string MedusaObjective::fingerprint() const {
  const MedusaConfig& c = model_->config;
  return fmt::format(
      "medusa {} heads={} width={} intermediate={} features={} draft_vocab={} drafted={:016x} "
      "markov={} weight_bits={} anchors={} length={} gamma={} distill={} state_store={} "
      "documents={} data={:016x}",
      target_, c.heads, c.width, c.intermediate, fmt::join(c.feature_layers, ","), c.draft_vocab,
      Hash().add_all(drafted_).value(), c.markov_rank, c.weight_bits, options_.anchors,
      options_.length, options_.gamma, options_.distill,
      options_.state_store.empty() ? "off" : "on", size(), data_hash());
}

void MedusaObjective::save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                           const nlohmann::json& provenance) {
  save_medusa(folder, with_values(*model_, values), provenance);
}

}  // namespace forerun
