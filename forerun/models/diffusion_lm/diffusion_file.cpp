#include "forerun/models/diffusion_lm/diffusion_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/internal/hf_fields.h"
#include "forerun/models/internal/output_vocabulary.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {
namespace {

using internal::WeightReader;

constexpr const char* kModelType = "forerun-diffusion-lm";

struct StoredSizes {
  std::int64_t hidden = 0, vocab = 0, layers = 0, block = 0, outputs = 0, weight_bits = 0;
  std::string target;
  DiffusionAttention attention = DiffusionAttention::kBlock;
};

constexpr const char* kBlockName = "block";
constexpr const char* kBidirectionalName = "bidirectional";

Result<StoredSizes> parse_sizes(const nlohmann::json& config) {
  if (!is_block_diffusion(config)) {
    return internal::config_error(
        "not a diffusion language model that forerun train dlm wrote; give such a folder");
  }
  internal::Fields f(config, "diffusion language model");
  StoredSizes s{.hidden = f.integer("hidden_size"),
                .vocab = f.integer("vocab_size"),
                .layers = f.integer("num_hidden_layers"),
                .block = f.integer("block_size"),
                .outputs = f.integer("output_vocab_size"),
                .weight_bits = f.integer("weight_bits", 0)};
  if (f.find("target") == nullptr) f.fail("'target' is missing: whose first blocks these are");
  s.target = f.text("target", std::string());
  const std::string attention = f.text("attention", kBlockName);
  if (attention == kBidirectionalName) s.attention = DiffusionAttention::kBidirectional;
  if (s.attention == DiffusionAttention::kBlock && attention != kBlockName) {
    f.fail(fmt::format("attention {} is unknown; {} and {} are known", quote(attention), kBlockName,
                       kBidirectionalName));
  }
  if (s.block < 1 || s.block > 256 || s.outputs < 1 || s.outputs > s.vocab) {
    f.fail(fmt::format("a block of {} places and {} of {} tokens are out of range", s.block,
                       s.outputs, s.vocab));
  }
  if (s.weight_bits != 0 && s.weight_bits != 4) {
    f.fail(fmt::format("weights of {} bits; 4 are supported", s.weight_bits));
  }
  if (!f.error().empty()) return internal::config_error(f.error());
  return s;
}

void check_decoder(const StoredSizes& s, const DecoderLm& decoder) {
  const DecoderConfig& d = decoder.config;
  if (s.hidden != d.hidden || s.vocab != d.vocab) {
    throw FormatError(fmt::format(
        "made for a target of hidden size {} and {} tokens, this one has {} and {}; use the target "
        "it was trained with",
        s.hidden, s.vocab, d.hidden, d.vocab));
  }
  if (const std::string own = fingerprint(decoder); s.target != own) {
    throw FormatError(
        fmt::format("made for another target of the same sizes (fingerprint {}, this one has {}); "
                    "use the target it was trained with",
                    s.target, own));
  }
}

DiffusionLm read_network(const StoredSizes& s, const DecoderLm& decoder, WeightReader source) {
  check_decoder(s, decoder);
  if (s.layers < 1 || s.layers > decoder.config.layers) {
    throw FormatError(fmt::format("{} blocks; the target has {}", s.layers, decoder.config.layers));
  }
  DiffusionLm m = block_diffusion_for(decoder, s.layers, s.block, s.outputs);
  m.config.attention = s.attention;
  m.config.weight_bits = s.weight_bits;
  if (s.weight_bits != 0 && !m.body.config.takes_four_bits()) {
    throw FormatError("weights of 4 bits in matrices whose inputs are not multiples of 32");
  }
  for (TransformerBlock& layer : m.body.layers) {
    for (Linear* l : layer.linears()) l->bias = at::empty({0});  // those that the file has
  }
  for (const ModelWeight& w : weights(m)) {
    if (w.name.ends_with(".bias") && !source.has(w.name)) {
      *w.tensor = at::Tensor();
    } else {
      *w.tensor = source.weight(w.name, w.shape);
    }
  }
  share_ends(m, decoder, internal::read_output_vocabulary(source, s.vocab, s.outputs));
  source.expect_nothing_left();
  return m;
}

}  // namespace

bool is_block_diffusion(const nlohmann::json& config) {
  return config.is_object() && config.value("model_type", nlohmann::json()) == kModelType;
}

void save_diffusion_lm(const std::filesystem::path& folder, const DiffusionLm& model,
                       const nlohmann::json& provenance) {
  const DiffusionConfig& c = model.config;
  if (c.mask_token >= 0 || !model.mask.defined()) {
    throw std::invalid_argument("save_diffusion_lm: only networks of a decoder's blocks are saved");
  }
  nlohmann::json described = {
      {"model_type", kModelType},
      {"hidden_size", model.body.config.hidden},
      {"vocab_size", c.vocab},
      {"num_hidden_layers", model.body.config.layers},
      {"block_size", c.block},
      {"output_vocab_size", c.outputs},
      {"target", c.target},
      {"dtype", "bfloat16"},
      {"attention", c.attention == DiffusionAttention::kBlock ? kBlockName : kBidirectionalName}};
  if (c.weight_bits > 0) described["weight_bits"] = c.weight_bits;
  DiffusionLm shared = model;  // the same tensors; only their names are asked for
  internal::save_network_folder(folder, weights(shared), model.output_tokens, std::move(described),
                                provenance, "save_diffusion_lm");
}

DiffusionLm load_diffusion_lm(const std::filesystem::path& folder, const DecoderLm& decoder) {
  const HfConfig file = load_hf_config(folder);
  const Result<StoredSizes> sizes = parse_sizes(file.config);
  if (!sizes) throw FormatError(folder.string() + ": " + sizes.error().message);
  const Safetensors tensors = load_safetensors(folder);
  try {
    return read_network(*sizes, decoder,
                        WeightReader(tensors, at::kFloat, "diffusion language model"));
  } catch (const FormatError& e) {
    throw FormatError(folder.string() + ": " + e.what());
  }
}

}  // namespace forerun
