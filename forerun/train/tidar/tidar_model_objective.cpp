#include "forerun/train/tidar/tidar_model_objective.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>

#include "forerun/base/atomic_file.h"
#include "forerun/models/decoder_training.h"
#include "forerun/models/gated_lora/mask_model.h"
#include "forerun/models/weights_digest.h"
#include "forerun/tensor/ids.h"
#include "forerun/tensor/mixed_cross_entropy.h"
#include "forerun/train/parameters_of.h"

namespace forerun {
namespace {

std::int64_t first_learned(const AnswerDocument& d) { return std::max<std::int64_t>(d.prompt, 1); }

// Targets that are tokens alone.
MixedTargets tokens_alone(std::vector<std::int64_t> labels, std::vector<float> weights,
                          std::int64_t vocab, const at::Device& device) {
  std::vector<std::int64_t> no_law(labels.size(), 0);
  return {.label = std::move(labels),
          .laws = at::zeros({1, vocab}, at::TensorOptions(at::kFloat).device(device)),
          .law_of = std::move(no_law),
          .weight = std::move(weights),
          .share = 0.0,
          .covered = {}};
}

double sum_of(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

TidarModelObjective::TidarModelObjective(std::shared_ptr<DecoderLm> decoder,
                                         std::shared_ptr<GatedLora> masks,
                                         std::vector<TokenShards> data,
                                         const TidarModelLossOptions& options, ModelFiles files)
    : AnswerObjective(std::move(data), decoder->config.vocab, decoder->config.context, options),
      decoder_(std::move(decoder)),
      masks_(std::move(masks)),
      options_(options),
      files_(std::move(files)) {
  start_ = digest_of(all_weights());
}

std::vector<ModelWeight> TidarModelObjective::all_weights() const {
  std::vector<ModelWeight> out = weights(*decoder_);
  if (!options_.masks) return out;
  for (ModelWeight& w : weights(*masks_)) out.push_back(std::move(w));
  return out;
}

std::vector<Parameter> TidarModelObjective::parameters() {
  return parameters_of(all_weights(), [](const ModelWeight& w) {
    return w.shape.size() == 2 && w.name.starts_with("model.layers.");
  });
}

bool TidarModelObjective::masked_at_random(const AnswerDocument& document) const noexcept {
  return options_.random_masks && document.number < size();
}

TidarModelObjective::Plan TidarModelObjective::plan_of(std::span<const AnswerDocument> documents,
                                                       std::uint64_t seed) const {
  Plan out;
  for (const AnswerDocument& d : documents) {
    const std::int64_t begin = first_learned(d), learned = d.size() - begin;
    const std::int64_t text_row = static_cast<std::int64_t>(out.text_row.size()) - (begin - 1);
    for (std::int64_t t = begin; t < d.size(); ++t) {
      out.text_row.push_back(out.rows + t - 1);
      out.text_label.push_back(d.tokens[static_cast<std::size_t>(t)]);
    }
    out.batch.documents.push_back(d.tokens);
    out.batch.starts.emplace_back();
    out.rows += d.size();
    if (!options_.masks) continue;
    out.batch.starts.back() = block_starts(d, masks_->config, options_.offsets, seed);
    MaskSlots own;
    for (const std::int64_t p : out.batch.starts.back()) {
      own.add(d, masks_->config, out.blocks++, p, text_row, options_.gamma);
    }
    if (masked_at_random(d)) {
      out.batch.shown.resize(static_cast<std::size_t>(out.blocks * masks_->config.slots()), -1);
      own = mask_at_random(own, d, seed, out.batch.shown);
    }
    const double sum = sum_of(own.weight);
    const double scale = sum > 0.0 ? static_cast<double>(learned) / sum : 0.0;
    for (std::size_t i = 0; i < own.weight.size(); ++i) {
      own.weight[i] = static_cast<float>(own.weight[i] * scale);
      out.slots.append(own, i);
    }
  }
  return out;
}

LossSum TidarModelObjective::loss_of(std::span<const AnswerDocument> documents,
                                     std::uint64_t seed) {
  const Plan plan = plan_of(documents, seed);
  const std::int64_t vocab = decoder_->config.vocab;
  const bool masked = !plan.slots.label.empty();
  const MaskStates states =
      masked ? mask_states(*decoder_, *masks_, plan.batch, MaskTraining::kAll)
             : MaskStates{.text = training_hidden(*decoder_, plan.batch.documents), .masks = {}};
  const auto row_ids = [device = decoder_->embedding.device()](const auto& values) {
    return ids_on(device, values);
  };
  const at::Tensor text =
      head_logits(*decoder_, states.text.index_select(0, row_ids(plan.text_row)));
  const auto learned = static_cast<double>(plan.text_row.size());
  const MixedCrossEntropy own = mixed_cross_entropy(
      text, {},
      tokens_alone(plan.text_label, std::vector<float>(plan.text_row.size(), 1.0F), vocab,
                   text.device()));
  LossSum out;
  out.tokens = plan.rows;
  out.loss = own.loss * options_.alpha;
  out.weight = options_.alpha * learned;
  out.figures = {{"text", own.loss.item<double>(), learned}};
  if (!options_.masks) return out;
  at::Tensor best;
  if (masked) {
    MixedTargets targets = tokens_alone(plan.slots.label, plan.slots.weight, vocab, text.device());
    if (options_.distill > 0.0) {
      const at::Tensor logits = text.detach();
      targets.laws =
          at::softmax(logits, -1, logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
      targets.law_of = plan.slots.teacher;
      targets.share = options_.distill;
    }
    const at::Tensor hidden = states.masks.flatten(0, 1).index_select(0, row_ids(plan.slots.row));
    const bool markov = masks_->config.markov_rank > 0;
    const MixedCrossEntropy mixed = mixed_cross_entropy(
        head_logits(*decoder_, hidden),
        markov ? markov_logits(*masks_, row_ids(plan.slots.previous)) : at::Tensor(), targets);
    out.loss = out.loss + mixed.loss;
    out.weight += sum_of(plan.slots.weight);
    best = mixed.best.cpu();
  }
  // Of shown slots nobody knows whether they would have been right.
  if (masked_at_random(documents.front())) return out;
  for (Figure& f : slot_figures(plan.slots, masks_->config, best, plan.blocks)) {
    out.figures.push_back(std::move(f));
  }
  return out;
}

double TidarModelObjective::flops(std::span<const std::size_t> examples) const {
  const DecoderConfig& c = decoder_->config;
  const auto hidden = static_cast<double>(c.hidden), layers = static_cast<double>(c.layers);
  const auto inner = static_cast<double>(c.query_width()), kv = static_cast<double>(c.kv_width());
  const double row =
      layers * hidden * (2.0 * inner + 2.0 * kv + 3.0 * static_cast<double>(c.intermediate));
  const double head = hidden * static_cast<double>(c.vocab);
  const auto markov = static_cast<double>(masks_->config.markov_rank * c.vocab);
  const auto block = static_cast<double>(masks_->config.block),
             slots = static_cast<double>(masks_->config.slots());
  double sum = 0.0;  // multiply-adds
  for (const std::size_t i : examples) {
    const AnswerDocument& d = documents()[i];
    const auto rows = static_cast<double>(d.size()),
               learned = static_cast<double>(d.size() - first_learned(d));
    sum += rows * row + layers * inner * rows * rows + learned * head;
    if (!options_.masks) continue;
    const double masks =
        learned * std::min(static_cast<double>(options_.offsets), block) * slots / block;
    sum += masks * (row + head + markov) + layers * masks * inner * (rows + 2.0 * slots);
  }
  return 6.0 * sum;  // forward, and back for weights and inputs
}

std::string TidarModelObjective::fingerprint() const {
  const GatedLoraConfig& c = masks_->config;
  const std::string design =
      options_.masks
          ? fmt::format("block={} first_slot={} markov={} offsets={} gamma={} distill={}{}",
                        c.block, c.first_slot, c.markov_rank, options_.offsets, options_.gamma,
                        options_.distill, options_.random_masks ? " random masks" : "")
          : "without masks";
  return fmt::format("tidar-full start={} {} alpha={} length={} documents={} data={:016x}", start_,
                     design, options_.alpha, options_.length, size(), data_hash());
}

void TidarModelObjective::save(const std::filesystem::path& folder,
                               std::span<const at::Tensor> values,
                               const nlohmann::json& provenance) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);  // a failure shows in the first file
  for (const auto& [name, bytes] : files_.files) AtomicFile(folder / name).commit(bytes);
  const std::size_t own = weights(*decoder_).size();
  const DecoderLm decoder = with_values(*decoder_, values.first(own));
  if (!options_.masks) return save_mask_model(folder, decoder, nullptr, files_.ids, provenance);
  const GatedLora masks = with_values(*masks_, values.subspan(own));
  save_mask_model(folder, decoder, &masks, files_.ids, provenance);
}

}  // namespace forerun
