#include "forerun/train/tidar/tidar_objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "forerun/models/gated_lora/gated_lora_file.h"
#include "forerun/models/gated_lora/mask_training.h"
#include "forerun/tensor/ids.h"
#include "forerun/tensor/mixed_cross_entropy.h"
#include "forerun/train/answers/draft_targets.h"
#include "forerun/train/parameters_of.h"
#include "forerun/train/tidar/mask_slots.h"

namespace forerun {
namespace {

// The decoder's law at temperature 1 from outputs of its last norm, [n, vocab] of at least float32.
at::Tensor laws(const DecoderLm& decoder, const at::Tensor& hidden) {
  const at::NoGradGuard no_autograd;
  const at::Tensor logits = head_logits(decoder, hidden);
  return at::softmax(logits, -1, logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace

TidarObjective::TidarObjective(std::shared_ptr<const DecoderLm> decoder,
                               std::shared_ptr<GatedLora> lora, std::vector<TokenShards> data,
                               const TidarLossOptions& options)
    : AnswerObjective(std::move(data), decoder->config.vocab, decoder->config.context, options),
      decoder_(std::move(decoder)),
      lora_(std::move(lora)),
      options_(options) {}

std::vector<Parameter> TidarObjective::parameters() {
  return parameters_of(weights(*lora_),
                       [](const ModelWeight& w) { return w.name.starts_with("model.layers."); });
}

std::vector<std::int64_t> TidarObjective::starts_of(const AnswerDocument& d,
                                                    std::uint64_t seed) const {
  return block_starts(d, lora_->config, options_.offsets, seed);
}

LossSum TidarObjective::loss_of(std::span<const AnswerDocument> documents, std::uint64_t seed) {
  MaskBatch batch;
  MaskSlots slots;
  std::int64_t row = 0, blocks = 0;
  for (const AnswerDocument& d : documents) {
    batch.documents.push_back(d.tokens);
    batch.starts.push_back(starts_of(d, seed));
    for (const std::int64_t p : batch.starts.back()) {
      slots.add(d, lora_->config, blocks++, p, row, options_.gamma);
    }
    row += d.size();
  }
  LossSum out;
  out.tokens = row;
  if (slots.label.empty()) {
    out.figures = slot_figures(slots, lora_->config, {}, blocks);
    return out;
  }
  const MaskStates states = mask_states(*decoder_, *lora_, batch);
  const at::Device device = lora_->mask_embedding.device();
  const DistinctRows teachers = distinct_rows(slots.teacher);
  const at::Tensor hidden =
      states.masks.view({-1, lora_->config.hidden}).index_select(0, ids_on(device, slots.row));
  const MixedCrossEntropy mixed = mixed_cross_entropy(
      head_logits(*decoder_, hidden),
      lora_->config.markov_rank > 0 ? markov_logits(*lora_, ids_on(device, slots.previous))
                                    : at::Tensor(),
      {.label = slots.label,
       .laws = laws(*decoder_, states.text.index_select(0, teachers.rows.to(device))),
       .law_of = teachers.of,
       .weight = slots.weight,
       .share = options_.distill,
       .covered = {}});
  out.loss = mixed.loss;
  out.weight = std::accumulate(slots.weight.begin(), slots.weight.end(), 0.0);
  out.figures = slot_figures(slots, lora_->config, mixed.best.cpu(), blocks);
  return out;
}

double TidarObjective::flops(std::span<const std::size_t> examples) const {
  const GatedLoraConfig& c = lora_->config;
  const auto hidden = static_cast<double>(c.hidden), layers = static_cast<double>(c.layers);
  const auto inner = static_cast<double>(c.query_width()), kv = static_cast<double>(c.kv_width());
  const auto wide = static_cast<double>(c.intermediate), rank = static_cast<double>(c.rank);
  const double block = layers * hidden * (2.0 * inner + 2.0 * kv + 3.0 * wide);
  const double lora = layers * rank * (6.0 * hidden + 2.0 * inner + 2.0 * kv + 3.0 * wide);
  const double head = hidden * static_cast<double>(c.vocab);
  const auto markov = static_cast<double>(c.markov_rank * c.vocab);
  double sum = 0.0;  // multiply-adds
  for (const std::size_t i : examples) {
    const AnswerDocument& d = documents()[i];
    const auto rows = static_cast<double>(d.size()),
               answer = static_cast<double>(d.size() - std::max<std::int64_t>(d.prompt, 1));
    const double masks = answer *
                         static_cast<double>(std::min(options_.offsets, c.block) * c.slots()) /
                         static_cast<double>(c.block);
    sum += rows * block + layers * inner * rows * rows;  // the text, and its attention
    sum += answer * head;                                // its laws
    // Forward, and back to the inputs; the decoder's weights have no gradient.
    sum += 2.0 * masks * (block + head) + 3.0 * masks * (lora + markov);
    sum += 3.0 * layers * masks * inner * (rows + 2.0 * static_cast<double>(c.slots()));
  }
  return 2.0 * sum;
}

std::string TidarObjective::fingerprint() const {
  const GatedLoraConfig& c = lora_->config;
  return fmt::format(
      "tidar target={} rank={} block={} first_slot={} markov={} offsets={} length={} gamma={} "
      "distill={} documents={} data={:016x}",
      c.target, c.rank, c.block, c.first_slot, c.markov_rank, options_.offsets, options_.length,
      options_.gamma, options_.distill, size(), data_hash());
}

void TidarObjective::save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                          const nlohmann::json& provenance) {
  save_gated_lora(folder, with_values(*lora_, values), provenance);
}

}  // namespace forerun
