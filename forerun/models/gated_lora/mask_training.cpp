#include "forerun/models/gated_lora/mask_training.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "forerun/models/decoder_training.h"
#include "forerun/models/internal/block_attention.h"
#include "forerun/tensor/ids.h"

namespace forerun {
namespace {

using internal::BlockAttention;
using internal::BlockPlaces;

void check(const DecoderLm& decoder, const GatedLora& lora, const MaskBatch& batch) {
  const DecoderConfig& c = decoder.config;
  if (c.attention_softcap > 0.0 || c.sinks ||
      (lora.adapts() && lora.layers.size() != decoder.layers.size()) ||
      lora.config.hidden != c.hidden) {
    throw std::invalid_argument(fmt::format(
        "adapters of {} layers of width {} for a decoder of {} of width {}{}: make them for this "
        "decoder",
        lora.layers.size(), lora.config.hidden, decoder.layers.size(), c.hidden,
        c.attention_softcap > 0.0 || c.sinks
            ? " with soft caps or sinks in its attention, which are not supported"
            : ""));
  }
  for (std::size_t d = 0; d < batch.documents.size(); ++d) {
    const auto n = static_cast<std::int64_t>(batch.documents[d].size());
    for (const std::int64_t p : batch.starts.at(d)) {
      if (p >= 1 && p < n) continue;
      throw std::invalid_argument(fmt::format(
          "a block of masks at position {} of a document of {}: begin at 1 or behind it", p, n));
    }
  }
}

// Positions of the masks, block by block.
at::Tensor slot_positions(const GatedLoraConfig& c, const MaskBatch& batch) {
  std::vector<std::int64_t> out;
  for (const auto& starts : batch.starts) {
    for (const std::int64_t p : starts) {
      for (std::int64_t s = c.first_slot; s < c.block; ++s) out.push_back(p + s);
    }
  }
  return at::tensor(out, at::kLong);
}

// What the rows of the blocks begin as: the mask embedding, or the token that a row shows.
at::Tensor inputs(const DecoderLm& decoder, const GatedLora& lora, const MaskBatch& batch,
                  std::int64_t rows) {
  at::Tensor masks =
      lora.mask_embedding.unsqueeze(0).expand({rows, decoder.config.hidden}).contiguous();
  if (batch.shown.empty()) return masks;
  if (static_cast<std::int64_t>(batch.shown.size()) != rows) {
    throw std::invalid_argument(
        fmt::format("{} shown tokens for {} rows of masks", batch.shown.size(), rows));
  }
  std::vector<std::int64_t> ids(batch.shown.begin(), batch.shown.end());
  for (const std::int64_t id : ids) {
    if (id >= -1 && id < decoder.config.vocab) continue;
    throw std::invalid_argument(fmt::format("a row of masks shows token {}, of a vocabulary of {}",
                                            id, decoder.config.vocab));
  }
  const at::Tensor index = ids_on(masks.device(), ids);
  const at::Tensor tokens = embed(decoder, index.clamp_min(0)).to(masks.scalar_type());
  return at::where(index.lt(0).unsqueeze(1), masks, tokens);
}

}  // namespace

MaskStates mask_states(const DecoderLm& decoder, const GatedLora& lora, const MaskBatch& batch,
                       MaskTraining training) {
  check(decoder, lora, batch);
  const DecoderConfig& c = decoder.config;
  DocumentRows text;
  {
    const at::AutoGradMode autograd(training == MaskTraining::kAll && at::GradMode::is_enabled());
    text = training_rows(decoder, batch.documents);
  }
  const at::Tensor positions = slot_positions(lora.config, batch).to(text.hidden.device());
  const std::int64_t rows = positions.size(0), slots = lora.config.slots();
  BlockPlaces places{
      .block = slots, .first_slot = lora.config.first_slot, .lengths = {}, .anchors = batch.starts};
  for (const auto& tokens : batch.documents) {
    places.lengths.push_back(static_cast<std::int64_t>(tokens.size()));
  }
  const BlockAttention full(places, {}), local(places, {.window = c.window});
  const auto network = lora.mask_embedding.scalar_type();
  const LayerRotations rotations = rotations_at(decoder, positions, network);
  BlockConfig blocks = c;
  blocks.fused = true;
  // BlockAttention divides scores by sqrt(head_dim).
  const double scale = c.query_scale * std::sqrt(static_cast<double>(c.head_dim));
  const bool scaled = std::abs(scale - 1.0) > 1e-12;
  at::Tensor h = inputs(decoder, lora, batch, rows);
  for (std::size_t i = 0; rows > 0 && i < decoder.layers.size(); ++i) {
    const auto attend = [&](const at::Tensor& q, const KeysValues& own) {
      return (c.sliding[i] ? local : full)(scaled ? q * scale : q, own, text.keys_values[i]);
    };
    const AdaptedRows all{.lora = lora.adapts() ? &lora.layers[i] : nullptr, .rows = {}};
    h = run_block(decoder.layers[i], blocks, h, rotations.of(c, i), attend,
                  {&all, lora.adapts() ? 1U : 0U});
  }
  return {.text = text.hidden,
          .masks = decoder.final_norm.fused(h).view({rows / slots, slots, c.hidden})};
}

}  // namespace forerun
