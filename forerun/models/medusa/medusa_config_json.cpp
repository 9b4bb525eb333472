#include "forerun/models/medusa/medusa_config_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "forerun/models/internal/hf_fields.h"

namespace forerun {
namespace {

using internal::config_error;
using internal::Fields;
using nlohmann::json;

const char* const kMedusaKind = "ForerunMedusa";
constexpr std::int64_t kMostWidth = 1 << 20, kMostVocab = 1 << 24, kMostFeatures = 64,
                       kMostHeads = 64, kMostMarkovRank = 1 << 16;

bool within(std::int64_t value, std::int64_t least, std::int64_t most) {
  return value >= least && value <= most;
}

// The error in the sizes, if any; checked before anything is allocated by them.
std::optional<std::string> check_sizes(const MedusaConfig& c) {
  if (!within(c.hidden, 1, kMostWidth) || !within(c.width, 1, kMostWidth) ||
      !within(c.intermediate, 1, kMostWidth)) {
    return fmt::format("widths of {}, {} and {}; 1 to {} are supported", c.hidden, c.width,
                       c.intermediate, kMostWidth);
  }
  if (!within(c.vocab, 1, kMostVocab)) {
    return fmt::format("a vocabulary of {}; 1 to {} are supported", c.vocab, kMostVocab);
  }
  if (!within(c.draft_vocab, 1, c.vocab)) {
    return fmt::format("a draft vocabulary of {} inside one of {}", c.draft_vocab, c.vocab);
  }
  if (!within(c.heads, 1, kMostHeads)) {
    return fmt::format("{} heads; 1 to {} are supported", c.heads, kMostHeads);
  }
  if (!within(c.markov_rank, 0, kMostMarkovRank)) {
    return fmt::format("a Markov head of rank {}; at most {} is supported", c.markov_rank,
                       kMostMarkovRank);
  }
  if (!(c.norm_eps > 0.0 && c.norm_eps < 1.0)) return "rms_norm_eps is not between 0 and 1";
  if (c.weight_bits != 0 && c.weight_bits != 4) {
    return fmt::format("weights of {} bits; 4 are supported", c.weight_bits);
  }
  if (c.weight_bits != 0 && !c.takes_four_bits()) {
    return "weights of 4 bits in matrices whose inputs are not multiples of 32";
  }
  return std::nullopt;
}

std::optional<std::string> check_target(const MedusaConfig& c, std::int64_t target_layers) {
  if (c.target_layers != target_layers) {
    return fmt::format(
        "the heads were made for a target of {} layers, this one has {}; use the target they were "
        "trained with",
        c.target_layers, target_layers);
  }
  if (!within(c.features(), 1, kMostFeatures)) {
    return fmt::format("{} feature layers; 1 to {} are supported", c.features(), kMostFeatures);
  }
  for (const std::int64_t id : c.feature_layers) {
    if (within(id, 0, target_layers - 2)) continue;
    return fmt::format(
        "feature layer {} (zero-based) lies outside 0 to {} of the target's {} layers; use the "
        "target the heads were trained with",
        id, target_layers - 2, target_layers);
  }
  return std::nullopt;
}

void read_layers(Fields& f, MedusaConfig& c) {
  const json* layers = f.find("target_layer_ids");
  if (layers == nullptr || !layers->is_array()) return f.fail("'target_layer_ids' is no list");
  if (layers->size() > static_cast<std::size_t>(kMostFeatures)) {
    return f.fail(fmt::format("'target_layer_ids' has {} entries; at most {} are supported",
                              layers->size(), kMostFeatures));
  }
  for (const json& id : *layers) {
    const bool fits =
        id.is_number_integer() && !(id.is_number_unsigned() && id.get<std::uint64_t>() > INT64_MAX);
    if (!fits) return f.fail("'target_layer_ids' holds something else than ids of blocks");
    c.feature_layers.push_back(id.get<std::int64_t>());
  }
}

}  // namespace

bool describes_medusa(const json& config) {
  const auto kinds = config.find("architectures");
  return kinds != config.end() && kinds->is_array() && !kinds->empty() &&
         kinds->front() == kMedusaKind;
}

Result<MedusaConfig> parse_medusa_config(const json& config, std::int64_t target_layers) {
  Fields f(config, "folder of Medusa heads");
  MedusaConfig c;
  if (!config.is_object() || !describes_medusa(config)) {
    return config_error("it does not describe Medusa heads of forerun train medusa");
  }
  c.hidden = f.integer("hidden_size");
  c.vocab = f.integer("vocab_size");
  c.target_layers = f.integer("num_target_layers");
  read_layers(f, c);
  c.width = f.integer("medusa_width");
  c.intermediate = f.integer("intermediate_size");
  c.heads = f.integer("medusa_num_heads");
  c.draft_vocab = f.integer("draft_vocab_size");
  c.markov_rank = f.integer("markov_rank", 0);
  c.norm_eps = f.number("rms_norm_eps", 1e-6);
  c.weight_bits = f.integer("weight_bits", 0);
  if (!f.error().empty()) return config_error(f.error());
  if (const auto bad = check_sizes(c)) return config_error(*bad);
  if (const auto bad = check_target(c, target_layers)) return config_error(*bad);
  return c;
}

json medusa_config_json(const MedusaConfig& c) {
  return {{"architectures", json::array({kMedusaKind})},
          {"model_type", "medusa"},
          {"hidden_size", c.hidden},
          {"vocab_size", c.vocab},
          {"num_target_layers", c.target_layers},
          {"target_layer_ids", c.feature_layers},
          {"medusa_width", c.width},
          {"intermediate_size", c.intermediate},
          {"medusa_num_heads", c.heads},
          {"draft_vocab_size", c.draft_vocab},
          {"markov_rank", c.markov_rank},
          {"rms_norm_eps", c.norm_eps},
          {"weight_bits", c.weight_bits},
          {"dtype", "bfloat16"}};
}

}  // namespace forerun
