#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/internal/weight_reader.h"
#include "forerun/models/vae/vae.h"

namespace forerun {
namespace {

using internal::WeightReader;

constexpr const char* kFile = "diffusion_pytorch_model.safetensors";

// Names of the attention's products in older versions of diffusers, by their current names.
constexpr std::pair<const char*, const char*> kOlder[] = {{".to_q.", ".query."},
                                                          {".to_k.", ".key."},
                                                          {".to_v.", ".value."},
                                                          {".to_out.0.", ".proj_attn."}};

std::string name_in(const WeightReader& source, const std::string& name) {
  if (source.has(name)) return name;
  for (const auto& [today, before] : kOlder) {
    const std::size_t at = name.find(today);
    if (at == std::string::npos) continue;
    std::string older = name;
    older.replace(at, std::string_view(today).size(), before);
    if (source.has(older)) return older;
  }
  return name;  // missing: reported under the current name
}

// What the two halves are called, and what their tensors begin with.
template <class Half>
struct Names;
template <>
struct Names<VaeDecoder> {
  static constexpr const char *kHalf = "decoder", *kModel = "image decoder";
  static constexpr std::array<std::string_view, 2> kPrefixes = {"decoder.", "post_quant_conv."};
};
template <>
struct Names<VaeEncoder> {
  static constexpr const char *kHalf = "encoder", *kModel = "image encoder";
  static constexpr std::array<std::string_view, 2> kPrefixes = {"encoder.", "quant_conv."};
};

template <class Half>
Half read(const VaeConfig& config, WeightReader source, at::Device device) {
  Half vae;
  vae.config = config;
  for (const ModelWeight& w : weights(vae)) {
    *w.tensor = source.weight(name_in(source, w.name), w.shape).to(device);
  }
  for (const std::string& name : source.left()) {
    if (std::ranges::any_of(Names<Half>::kPrefixes, [&](auto p) { return name.starts_with(p); })) {
      throw FormatError(
          fmt::format("tensor {} has no place in the {} that config.json describes; the two do not "
                      "belong together, or it has parts that are not supported",
                      quote(name), Names<Half>::kHalf));
    }
  }
  return vae;
}

template <class Half>
Half load_half(const std::filesystem::path& path, at::ScalarType type, at::Device device) {
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16) {
    throw std::invalid_argument(fmt::format(
        "load_vae: {} is not supported; take float32, float64 or bfloat16", c10::toString(type)));
  }
  std::error_code ignored;
  const bool pipeline = std::filesystem::exists(path / "model_index.json", ignored);
  const std::filesystem::path folder = pipeline ? path / "vae" : path;
  const HfConfig file = load_hf_config(folder);
  const auto fail = [&](const std::string& why) {
    throw FormatError(folder.string() + ": " + why);
  };
  const Result<VaeConfig> config = parse_vae_config(file.config);
  if (!config) fail(config.error().message);
  if (std::is_same_v<Half, VaeEncoder> && !config->other_down_block.empty()) {
    fail(
        fmt::format("a level of the encoder of type {} is not supported; DownEncoderBlock2D and "
                    "AttnDownEncoderBlock2D are",
                    config->other_down_block));
  }
  const Safetensors tensors = load_safetensors(folder / kFile);
  try {
    return read<Half>(*config, WeightReader(tensors, type, Names<Half>::kModel), device);
  } catch (const FormatError& e) {
    fail(e.what());
  }
  return {};
}

}  // namespace

VaeDecoder load_vae(const std::filesystem::path& path, at::ScalarType type, at::Device device) {
  return load_half<VaeDecoder>(path, type, device);
}

VaeEncoder load_vae_encoder(const std::filesystem::path& path, at::ScalarType type,
                            at::Device device) {
  return load_half<VaeEncoder>(path, type, device);
}

}  // namespace forerun
