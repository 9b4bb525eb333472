#include "forerun/models/gated_lora/mask_model.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/internal/hf_fields.h"
#include "forerun/models/internal/weight_reader.h"
#include "forerun/models/save_decoder.h"

namespace forerun {
namespace {

using nlohmann::json;

constexpr const char* kSection = "tidar";
constexpr const char* kPrefix = "tidar.";

GatedLoraConfig read_config(const json& file, const DecoderConfig& decoder) {
  if (!is_mask_model(file)) {
    throw FormatError(
        "this model was not trained on rows of masks: train it with forerun train tidar --full, or "
        "give a folder of adapters for it");
  }
  internal::Fields f(file.at(kSection), "model with rows of masks");
  const std::int64_t block = f.integer("block"), first_slot = f.integer("first_slot"),
                     markov_rank = f.integer("markov_rank", 0);
  if (!f.error().empty()) throw FormatError("config.json: tidar: " + f.error());
  try {
    return mask_config(decoder, block, first_slot, markov_rank);
  } catch (const std::invalid_argument& e) {
    throw FormatError(std::string("config.json: ") + e.what());
  }
}

// Norms and vectors stay float32, as decoders keep them.
DecoderLm in_bf16(const DecoderLm& decoder) {
  DecoderLm out = decoder;
  for (const ModelWeight& w : weights(out)) {
    *w.tensor = w.tensor->detach().to(w.shape.size() == 2 ? at::kBFloat16 : at::kFloat);
  }
  out.precision = Precision::kBF16;
  return out;
}

}  // namespace

bool is_mask_model(const json& config) {
  return config.is_object() && config.contains(kSection) && config.at(kSection).is_object();
}

GatedLoraConfig mask_config(const DecoderConfig& decoder, std::int64_t block,
                            std::int64_t first_slot, std::int64_t markov_rank) {
  if (block < 2 || block > 256 || first_slot < 0 || first_slot > 1 || markov_rank < 0 ||
      markov_rank > 1 << 16) {
    throw std::invalid_argument(fmt::format(
        "tidar: block {}, first_slot {}, markov_rank {} are out of range: a block has 2 to 256 "
        "tokens",
        block, first_slot, markov_rank));
  }
  GatedLoraConfig c = gated_lora_config(decoder);
  c.block = block;
  c.first_slot = first_slot;
  c.markov_rank = markov_rank;
  c.rank = 0;
  return c;
}

GatedLora load_masks(const std::filesystem::path& folder, const DecoderConfig& decoder) {
  const HfConfig file = load_hf_config(folder);
  try {
    GatedLora out;
    out.config = read_config(file.config, decoder);
    const Safetensors tensors = load_safetensors(folder);
    internal::WeightReader source(tensors, at::kFloat, "model with rows of masks");
    for (const ModelWeight& w : weights(out)) *w.tensor = source.weight(kPrefix + w.name, w.shape);
    return out;
  } catch (const FormatError& e) {
    throw FormatError(folder.string() + ": " + e.what());
  }
}

void save_mask_model(const std::filesystem::path& folder, const DecoderLm& decoder,
                     const GatedLora* masks, const json& ids, const json& provenance) {
  DecoderExtras extras{.config = json::object(), .weights = {}};
  if (ids.is_object()) extras.config.update(ids);
  GatedLora stored;
  if (masks != nullptr) {
    const GatedLoraConfig& c = masks->config;
    extras.config[kSection] = {
        {"block", c.block}, {"first_slot", c.first_slot}, {"markov_rank", c.markov_rank}};
    stored = *masks;  // the same tensors
    for (ModelWeight w : weights(stored)) {
      *w.tensor = w.tensor->detach().to(w.shape.size() == 2 ? at::kBFloat16 : at::kFloat);
      w.name = kPrefix + w.name;
      extras.weights.push_back(std::move(w));
    }
  }
  save_decoder(folder, in_bf16(decoder), provenance, extras);
}

}  // namespace forerun
