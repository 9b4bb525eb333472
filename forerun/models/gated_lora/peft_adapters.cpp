#include "forerun/models/gated_lora/peft_adapters.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <system_error>

#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/internal/hf_fields.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {
namespace {

using internal::Fields;
using nlohmann::json;

constexpr const char* kConfig = "adapter_config.json";
constexpr std::int64_t kMostRows = 257, kMostRank = 1 << 16;

struct PeftConfig {
  std::int64_t rank = 0;
  double scale = 1.0;
};

// What this engine would leave out of the sum.
void refuse_other_parts(Fields& f) {
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias"}) {
    if (f.flag(key, false)) f.fail(fmt::format("'{}' is not supported", key));
  }
  for (const char* key : {"rank_pattern", "alpha_pattern", "modules_to_save", "layers_to_transform",
                          "layer_replication"}) {
    const json* v = f.find(key);
    if (v != nullptr && !v->empty()) {
      f.fail(fmt::format("'{}' is {}: one rank and scale for all layers is supported", key,
                         printable(v->dump(), 60)));
    }
  }
  const json* modules = f.find("target_modules");
  const bool of_outputs =
      modules != nullptr && (*modules == json("o_proj") || *modules == json::array({"o_proj"}));
  if (!of_outputs) {
    f.fail(fmt::format("'target_modules' is {}: adapters of o_proj alone are supported",
                       modules == nullptr ? "missing" : printable(modules->dump(), 60)));
  }
}

PeftConfig read_config(const json& file) {
  Fields f(file, "PEFT adapter");
  if (const std::string type = f.text("peft_type", "LORA"); type != "LORA") {
    f.fail(fmt::format("peft_type {} is not supported; LORA is", quote(type)));
  }
  PeftConfig c;
  c.rank = f.integer("r");
  const double alpha = f.number("lora_alpha", std::nullopt);
  const bool by_root = f.flag("use_rslora", false);
  if (f.error().empty() && (c.rank < 1 || c.rank > kMostRank || !std::isfinite(alpha))) {
    f.fail(fmt::format("r {} and lora_alpha {} are out of range", c.rank, alpha));
  }
  refuse_other_parts(f);
  if (!f.error().empty()) throw FormatError(fmt::format("{}: {}", kConfig, f.error()));
  const auto rank = static_cast<double>(c.rank);
  c.scale = alpha / (by_root ? std::sqrt(rank) : rank);
  return c;
}

std::string tensor_name(std::int64_t layer, const char* part) {
  return fmt::format("base_model.model.encoder.layers.{}.self_attn.o_proj.lora_{}.weight", layer,
                     part);
}

}  // namespace

bool is_peft_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / kConfig, ignored);
}

GatedLora seeded_masks(const DecoderConfig& decoder, std::int64_t rows) {
  if (!decoder.mask_token) {
    throw std::invalid_argument(
        "this model has no mask token (mask_token_id in config.json): mask rows of its own are "
        "those of Nemotron-Labs-Diffusion");
  }
  if (rows < 3 || rows > kMostRows) {
    throw std::invalid_argument(
        fmt::format("a block of {} rows: give 3 to {}: the newest token, the next one's place, and "
                    "at least one behind it",
                    rows, kMostRows));
  }
  GatedLora out;
  out.config = gated_lora_config(decoder);
  out.config.block = rows - 1;
  out.config.first_slot = 0;
  out.config.rank = 0;
  out.config.seeded = true;
  out.config.mask_token = *decoder.mask_token;
  return out;
}

GatedLora load_peft_adapters(const std::filesystem::path& folder, const DecoderConfig& decoder,
                             std::int64_t rows) {
  const json file = load_json_object(folder / kConfig);
  try {
    GatedLora out = seeded_masks(decoder, rows);
    const PeftConfig c = read_config(file);
    out.config.rank = c.rank;
    out.layers.resize(static_cast<std::size_t>(decoder.layers));
    const Safetensors tensors = load_safetensors(folder / "adapter_model.safetensors");
    if (tensors.find(tensor_name(decoder.layers, "A")) != nullptr) {
      throw FormatError(fmt::format(
          "adapters of a model of more layers than this one's {}: use the model that they are for",
          decoder.layers));
    }
    internal::WeightReader source(tensors, at::kFloat, "PEFT adapter");
    for (std::int64_t i = 0; i < decoder.layers; ++i) {
      BlockLora::Pair& pair = out.layers[static_cast<std::size_t>(i)].output;
      pair.a = source.weight(tensor_name(i, "A"), {c.rank, decoder.query_width()});
      pair.b = source.weight(tensor_name(i, "B"), {decoder.hidden, c.rank}) * c.scale;
    }
    source.expect_nothing_left();
    return out;
  } catch (const std::invalid_argument& e) {
    throw FormatError(folder.string() + ": " + e.what());
  } catch (const FormatError& e) {
    throw FormatError(folder.string() + ": " + e.what());
  }
}

}  // namespace forerun
