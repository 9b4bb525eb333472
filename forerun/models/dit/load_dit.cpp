#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {
namespace {

using internal::WeightReader;
namespace fs = std::filesystem;

constexpr const char* kDit = "DiT";
constexpr const char* kPatches = "x_embedder.proj.weight";  // names a reference file

at::Tensor patch_weight(const DitConfig& c, WeightReader& source, const std::string& name) {
  return source.weight(name, {c.hidden, c.channels, c.patch, c.patch}).view({c.hidden, -1});
}

Dit empty(const DitConfig& config) {
  Dit m;
  m.config = config;
  m.blocks.resize(static_cast<std::size_t>(config.depth));
  return m;
}

// facebookresearch/DiT's names, which are ours.
Dit read_reference(const DitConfig& config, WeightReader source, at::ScalarType type) {
  Dit m = empty(config);
  for (const ModelWeight& w : weights(m)) {
    *w.tensor = w.tensor == &m.patches.weight ? patch_weight(config, source, w.name)
                                              : source.weight(w.name, w.shape);
  }
  // After the weights: the file bears out the sizes that the table has.
  m.positions = source.has("pos_embed")
                    ? source.weight("pos_embed", {1, config.tokens(), config.hidden}).squeeze(0)
                    : dit_positions(config).to(type);
  source.expect_nothing_left();
  return m;
}

// diffusers' names.
class Diffusers {
 public:
  Diffusers(const DitConfig& config, const Safetensors& file, at::ScalarType type)
      : c_(config), file_(file), source_(file, type, kDit), type_(type) {}

  Dit read() {
    Dit m = empty(c_);
    m.patches = {patch_weight(c_, source_, "pos_embed.proj.weight"),
                 source_.weight("pos_embed.proj.bias", {c_.hidden})};
    const std::string embedders = block(0) + "norm1.emb.";
    m.time = {linear(embedders + "timestep_embedder.linear_1", c_.hidden, 256),
              linear(embedders + "timestep_embedder.linear_2", c_.hidden, c_.hidden)};
    m.labels = source_.weight(embedders + "class_embedder.embedding_table.weight",
                              {c_.classes + 1, c_.hidden});
    for (std::int64_t i = 0; i < c_.depth; ++i) {
      if (i > 0) expect_same_embedders(i);
      m.blocks[static_cast<std::size_t>(i)] = read_block(block(i));
    }
    m.head = {linear("proj_out_1", 2 * c_.hidden, c_.hidden),
              linear("proj_out_2", c_.patch * c_.patch * c_.out_channels(), c_.hidden)};
    m.positions = dit_positions(c_).to(type_);
    source_.expect_nothing_left();
    return m;
  }

 private:
  static std::string block(std::int64_t i) { return fmt::format("transformer_blocks.{}.", i); }

  Linear linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return {source_.weight(name + ".weight", {out, in}), source_.weight(name + ".bias", {out})};
  }

  DitBlock read_block(const std::string& name) {
    Linear qkv[3];
    for (int i = 0; i < 3; ++i) {
      qkv[i] = linear(name + "attn1.to_" + "qkv"[i], c_.hidden, c_.hidden);
    }
    return {.modulation = linear(name + "norm1.linear", 6 * c_.hidden, c_.hidden),
            .qkv = {at::cat({qkv[0].weight, qkv[1].weight, qkv[2].weight}),
                    at::cat({qkv[0].bias, qkv[1].bias, qkv[2].bias})},
            .out = linear(name + "attn1.to_out.0", c_.hidden, c_.hidden),
            .up = linear(name + "ff.net.0.proj", c_.mlp, c_.hidden),
            .down = linear(name + "ff.net.2", c_.hidden, c_.mlp)};
  }

  // Every block carries a copy of the time and label embedders.
  void expect_same_embedders(std::int64_t i) {
    for (const char* part : {"timestep_embedder.linear_1.weight", "timestep_embedder.linear_1.bias",
                             "timestep_embedder.linear_2.weight", "timestep_embedder.linear_2.bias",
                             "class_embedder.embedding_table.weight"}) {
      const std::string name = block(i) + "norm1.emb." + part;
      const TensorView *const first = file_.find(block(0) + "norm1.emb." + part), *const other =
                                                                                      file_.find(
                                                                                          name);
      if (other == nullptr || first == nullptr || other->shape != first->shape ||
          !std::equal(first->bytes.begin(), first->bytes.end(), other->bytes.begin(),
                      other->bytes.end())) {
        throw FormatError(fmt::format(
            "tensor {} is missing or differs from the first block's; all blocks share one",
            quote(name)));
      }
      source_.ignore(name);
    }
  }

  const DitConfig& c_;
  const Safetensors& file_;
  WeightReader source_;
  at::ScalarType type_;
};

std::int64_t size_of(const Safetensors& file, const char* name, std::size_t dimension,
                     std::size_t dimensions) {
  const TensorView* const t = file.find(name);
  if (t == nullptr || t->shape.size() != dimensions) {
    throw FormatError(
        fmt::format("tensor {} is missing or not of {} dimensions: this is no checkpoint of "
                    "facebookresearch/DiT",
                    quote(name), dimensions));
  }
  return t->shape[dimension];
}

// The network's config, derived from the tensors of a file. Heads are those of the published sizes.
DitConfig inferred(const Safetensors& file, DitConventions conventions) {
  DitConfig c;
  c.hidden = size_of(file, kPatches, 0, 4);
  c.channels = size_of(file, kPatches, 1, 4);
  c.patch = size_of(file, kPatches, 2, 4);
  c.classes = size_of(file, "y_embedder.embedding_table.weight", 0, 2) - 1;
  const auto tokens = static_cast<double>(size_of(file, "pos_embed", 1, 3));
  if (tokens > 1 << 16) throw FormatError("pos_embed has too many rows");
  if (c.patch > 1 << 16) throw FormatError(fmt::format("{} has too large patches", kPatches));
  c.input = static_cast<std::int64_t>(std::lround(std::sqrt(tokens))) * c.patch;
  c.mlp = size_of(file, "blocks.0.mlp.fc1.weight", 0, 2);
  c.heads = c.hidden == 1152 ? 16 : c.hidden / 64;
  c.depth = 0;
  while (c.depth < 1024 && file.find(fmt::format("blocks.{}.mlp.fc1.weight", c.depth))) ++c.depth;
  const std::int64_t out = size_of(file, "final_layer.linear.weight", 0, 2);
  c.learned_sigma = c.patch > 0 && c.patch < 256 && c.channels < 1024 &&
                    out == 2 * c.channels * c.patch * c.patch;
  if (conventions == DitConventions::kDiffusers) {
    c.time_divisor = 127.0;
    c.mlp_norm_eps = 1e-5;
  }
  try {
    check_dit_config(c);
  } catch (const std::invalid_argument& e) {
    throw FormatError(e.what());
  }
  return c;
}

Dit load_folder(const fs::path& folder, DitConventions conventions, at::ScalarType type) {
  const HfConfig file = load_hf_config(folder);
  const Result<DitConfig> config = parse_dit_config(file.config, conventions);
  if (!config) throw FormatError("config.json: " + config.error().message);
  if (!is_diffusers_dit(file.config)) {
    const Safetensors tensors = load_safetensors(folder);
    return read_reference(*config, WeightReader(tensors, type, kDit), type);
  }
  const char* const name = "diffusion_pytorch_model.safetensors";
  const fs::path index = folder / (std::string(name) + ".index.json");
  const Safetensors tensors = load_safetensors(fs::exists(index) ? index : folder / name);
  return Diffusers(*config, tensors, type).read();
}

// For a pipeline, the transformer's folder.
fs::path model_folder(const fs::path& path) {
  const bool pipeline = !fs::exists(path / "config.json") && fs::exists(path / "transformer");
  return pipeline ? path / "transformer" : path;
}

Dit load(const fs::path& path, DitConventions conventions, at::ScalarType type) {
  if (fs::is_directory(path)) return load_folder(model_folder(path), conventions, type);
  const Safetensors tensors = load_safetensors(path);
  return read_reference(inferred(tensors, conventions), WeightReader(tensors, type, kDit), type);
}

}  // namespace

bool holds_dit(const fs::path& path) noexcept {
  try {
    if (fs::is_directory(path)) return is_dit(load_hf_config(model_folder(path)).config);
    return path.extension() == ".safetensors" && load_safetensors(path).find(kPatches) != nullptr;
  } catch (const std::exception&) {
    return false;
  }
}

Dit load_dit(const fs::path& path, DitConventions conventions, at::ScalarType type) {
  try {
    return load(path, conventions, type);
  } catch (const FormatError& e) {
    const std::string why = e.what();
    throw FormatError(why.starts_with(path.string()) ? why : path.string() + ": " + why);
  }
}

void save_dit(const fs::path& folder, const Dit& model, const nlohmann::json& provenance) {
  const DitConfig& c = model.config;
  nlohmann::json described = dit_config_json(c);
  if (!provenance.is_null()) described["forerun"] = provenance;
  std::vector<internal::NamedTensor> tensors;
  Dit shared = model;  // the same tensors; only their names are asked for
  for (const ModelWeight& w : weights(shared)) {
    const bool patches = w.tensor == &shared.patches.weight;
    tensors.push_back(
        {w.name, patches ? w.tensor->view({c.hidden, c.channels, c.patch, c.patch}) : *w.tensor});
  }
  internal::save_model_folder(folder, tensors, described);
}

}  // namespace forerun
