#include "forerun/models/free/free_network.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/models/dit/init_dit.h"
#include "forerun/models/internal/hf_fields.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {
namespace {

constexpr const char* kFree = "free";

DitConfig config_for(const Dit& target) {
  DitConfig c = target.config;
  c.learned_sigma = false;
  return c;
}

void share(const Dit& target, FreeNetwork& n) {
  n.config = config_for(target);
  n.patches = target.patches;
  n.positions = target.positions;
  n.labels = target.labels;
}

// The rows of a head for the noise alone.
DitHead noise_head(const Dit& target) {
  const DitConfig& c = target.config;
  if (!c.learned_sigma) return target.head;
  const auto rows = [&](const at::Tensor& x) {
    const at::Tensor by_pixel = x.view({c.patch * c.patch, c.out_channels(), -1});
    return by_pixel.narrow(1, 0, c.channels).reshape({c.patch * c.patch * c.channels, -1});
  };
  return {target.head.modulation,
          {rows(target.head.out.weight), rows(target.head.out.bias).squeeze(1)}};
}

Linear copy(const Linear& l) { return {l.weight.clone(), l.bias.clone()}; }

nlohmann::json config_json(const Dit& target) {
  nlohmann::json out = dit_config_json(config_for(target));
  out["architecture"] = kFree;
  out["target"] = digest_of(target);
  return out;
}

void check(const nlohmann::json& config, const Dit& target) {
  const nlohmann::json expected = config_json(target);
  internal::Fields f(config, "FREE network");
  if (f.text("architecture", "") != kFree) {
    throw FormatError("config.json does not describe a FREE network");
  }
  for (const auto& [key, value] : expected.items()) {
    const nlohmann::json* const found = f.find(key.c_str());
    if (found != nullptr && *found == value) continue;
    if (key == "target") {
      // Of an earlier version: another hash, which cannot be compared. The sizes can.
      if (found != nullptr && found->is_string() &&
          found->get_ref<const std::string&>().find(':') == std::string::npos) {
        continue;
      }
      throw FormatError(
          "it was trained for another target of the same sizes: use the one it was trained with");
    }
    throw FormatError(fmt::format("it was made for a target with {} {}, this one has {}", key,
                                  found == nullptr ? "unknown" : printable(found->dump()),
                                  value.dump()));
  }
}

}  // namespace

std::vector<ModelWeight> weights(FreeNetwork& n) {
  const DitConfig& c = n.config;
  std::vector<ModelWeight> out;
  out.push_back({"fuse.weight", &n.fuse.weight, {c.hidden, 2 * c.hidden}});
  out.push_back({"fuse.bias", &n.fuse.bias, {c.hidden}});
  if (n.frozen_image) {
    out.push_back({"fresh.weight", &n.fresh, {c.hidden, c.channels * c.patch * c.patch}});
  }
  add_weights(n.time, c, "t_embedder.", out);
  add_weights(n.block, c, "block.", out);
  add_weights(n.head, c, c.channels, "final_layer.", out);
  return out;
}

FreeNetwork free_from(const Dit& target, std::uint64_t seed, bool frozen_image) {
  FreeNetwork n;
  n.frozen_image = frozen_image;
  share(target, n);
  const DitConfig& c = n.config;
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  n.fuse = {at::cat({at::zeros({c.hidden, c.hidden}), at::eye(c.hidden)}, 1),
            at::zeros({c.hidden})};
  n.block = random_block(c, generator);
  const DitHead head = noise_head(target);
  n.head = {copy(head.modulation), copy(head.out)};
  if (frozen_image) {
    n.fresh = xavier_linear(c.hidden, c.channels * c.patch * c.patch, generator).weight;
    n.head.out.weight.zero_();
    n.head.out.bias.zero_();
  }
  n.time = {copy(target.time.in), copy(target.time.out)};
  return n;
}

DitOutput run_free(const FreeNetwork& n, const at::Tensor& x, const at::Tensor& feature,
                   const at::Tensor& time, const at::Tensor& label, const at::Tensor& fresh) {
  const DitConfig& c = n.config;
  const at::Tensor embedded =
      embed_time(n.time, time, c.time_divisor) + n.labels.index_select(0, label);
  const at::Tensor condition = at::silu(embedded);
  const at::Tensor both = at::cat({embed_patches(n.patches, n.positions, c, x), feature}, 2);
  at::Tensor fused = at::linear(both, n.fuse.weight, n.fuse.bias).to(n.positions.scalar_type());
  if (n.frozen_image) {
    fused = fused + at::linear(patch_rows(c, fresh), n.fresh).to(fused.scalar_type());
  }
  const at::Tensor f = run_block(n.block, c, fused, condition);
  return {.noise = run_head(n.head, c, f, condition), .variance = {}, .feature = f};
}

double free_unit(const DdpmStep& step, const DitConfig& c) {
  return step.sigma > 0.0 ? 1.0 / (step.kappa * std::sqrt(static_cast<double>(c.values()))) : 0.0;
}

double free_pass_work(const DitConfig& c) {
  const auto d = static_cast<double>(c.hidden), n = static_cast<double>(c.tokens());
  const double patch = static_cast<double>(c.patch * c.patch * c.channels);
  return dit_block_work(c) + n * (2.0 * d * d + 3.0 * d * patch) + 3.0 * d * d + 256.0 * d;
}

FreeNetwork load_free(const std::filesystem::path& folder, const Dit& target) {
  const HfConfig file = load_hf_config(folder);
  const Safetensors tensors = load_safetensors(folder);
  try {
    check(file.config, target);
    FreeNetwork n;
    internal::Fields fields(file.config, "FREE network");
    n.frozen_image = fields.flag("frozen_image", false);
    if (!fields.error().empty()) throw FormatError("config.json: " + fields.error());
    share(target, n);
    internal::WeightReader source(tensors, at::kFloat, "FREE network");
    for (const ModelWeight& w : weights(n)) *w.tensor = source.weight(w.name, w.shape);
    source.expect_nothing_left();
    return n;
  } catch (const FormatError& e) {
    throw FormatError(folder.string() + ": " + e.what());
  }
}

void save_free(const std::filesystem::path& folder, const FreeNetwork& network, const Dit& target,
               const nlohmann::json& provenance) {
  nlohmann::json config = config_json(target);
  config["frozen_image"] = network.frozen_image;
  if (!provenance.is_null()) config["forerun"] = provenance;
  std::vector<internal::NamedTensor> tensors;
  FreeNetwork same = network;
  for (const ModelWeight& w : weights(same)) tensors.push_back({w.name, *w.tensor});
  internal::save_model_folder(folder, tensors, config);
}

}  // namespace forerun
