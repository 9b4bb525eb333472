#include "forerun/models/gated_lora/gated_lora_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/internal/hf_fields.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {
namespace {

using internal::Fields;
using nlohmann::json;

constexpr const char* kKind = "forerun_gated_lora";

// The decoder's sizes by their names in config.json.
std::vector<std::pair<const char*, std::int64_t>> sizes(const GatedLoraConfig& c) {
  return {{"hidden_size", c.hidden},        {"intermediate_size", c.intermediate},
          {"num_attention_heads", c.heads}, {"num_key_value_heads", c.kv_heads},
          {"head_dim", c.head_dim},         {"num_hidden_layers", c.layers},
          {"vocab_size", c.vocab}};
}

// The config for `decoder` that a file describes.
GatedLoraConfig read_config(const json& file, const DecoderConfig& decoder,
                            const std::string& hash) {
  Fields f(file, "gated LoRA");
  if (f.text("model_type", "") != kKind) {
    throw FormatError(
        fmt::format("config.json: model_type {} is not {}: give a folder that "
                    "forerun train tidar wrote",
                    quote(f.text("model_type", "")), kKind));
  }
  if (!decoder.dense.empty()) {
    throw FormatError("adapters of models with experts in some layers are not supported");
  }
  if (!decoder.recurrent.none()) {
    throw FormatError("adapters of models with recurrent layers are not supported");
  }
  GatedLoraConfig c = gated_lora_config(decoder);
  for (const auto& [name, here] : sizes(c)) {
    const std::int64_t theirs = f.integer(name);
    if (f.error().empty() && theirs != here) {
      throw FormatError(fmt::format(
          "adapters of a model of {} {}, this one has {}: use the model they were trained on", name,
          theirs, here));
    }
  }
  c.target = f.text("target", std::nullopt);
  c.block = f.integer("block");
  c.first_slot = f.integer("first_slot");
  c.rank = f.integer("rank");
  c.markov_rank = f.integer("markov_rank", 0);
  if (!f.error().empty()) throw FormatError("config.json: " + f.error());
  constexpr std::int64_t kMost = 1 << 16;
  if (c.block < 2 || c.block > 256 || c.first_slot < 0 || c.first_slot > 1 || c.rank < 1 ||
      c.rank > kMost || c.markov_rank < 0 || c.markov_rank > kMost) {
    throw FormatError(fmt::format(
        "config.json: block {}, first_slot {}, rank {}, markov_rank {} are out of range", c.block,
        c.first_slot, c.rank, c.markov_rank));
  }
  if (c.target != hash) {
    throw FormatError(
        fmt::format("adapters trained on the weights {}, this model's are {}: use the file they "
                    "were trained on",
                    quote(c.target), hash));
  }
  return c;
}

}  // namespace

GatedLora load_gated_lora(const std::filesystem::path& folder, const DecoderConfig& decoder,
                          const std::string& hash) {
  const HfConfig file = load_hf_config(folder);
  try {
    GatedLora out;
    out.config = read_config(file.config, decoder, hash);
    out.layers.resize(static_cast<std::size_t>(out.config.layers));
    const Safetensors tensors = load_safetensors(folder);
    internal::WeightReader source(tensors, at::kFloat, "adapters");
    for (const ModelWeight& w : weights(out)) *w.tensor = source.weight(w.name, w.shape);
    source.expect_nothing_left();
    return out;
  } catch (const FormatError& e) {
    throw FormatError(folder.string() + ": " + e.what());
  }
}

bool describes_gated_lora(const json& config) {
  return config.value("model_type", json()) == kKind;
}

void save_gated_lora(const std::filesystem::path& folder, const GatedLora& lora,
                     const json& provenance) {
  const GatedLoraConfig& c = lora.config;
  json described = {{"model_type", kKind}, {"target", c.target},
                    {"block", c.block},    {"first_slot", c.first_slot},
                    {"rank", c.rank},      {"markov_rank", c.markov_rank}};
  for (const auto& [name, value] : sizes(c)) described[name] = value;
  if (!provenance.is_null()) described["forerun"] = provenance;
  GatedLora shared = lora;  // the same tensors; only their names are asked for
  shared.layers.resize(static_cast<std::size_t>(c.layers));
  internal::save_model_folder(folder, internal::named_tensors(weights(shared), "save_gated_lora"),
                              described);
}

}  // namespace forerun
