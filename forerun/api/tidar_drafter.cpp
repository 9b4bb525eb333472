#include "forerun/methods/tidar/tidar_drafter.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/api/access.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/api/tidar_options.h"
#include "forerun/formats/hf_config.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tidar/tidar_source.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/models/gated_lora/gated_lora_file.h"
#include "forerun/models/gated_lora/mask_model.h"
#include "forerun/models/gated_lora/peft_adapters.h"

namespace forerun {
namespace {

using nlohmann::json;

// Mask rows of the target itself, which was trained on them, and of no other weights.
GatedLora own_masks(const std::string& path, const Model& target) {
  GatedLora out = load_masks(path, impl_of(target).lm.config);
  out.config.target = target.hash();
  std::error_code ignored;
  if (std::filesystem::equivalent(path, target.path(), ignored)) return out;
  if (const std::string theirs = hash_of_weights(path); theirs != out.config.target) {
    throw FormatError(fmt::format(
        "{}: a model with rows of masks drafts for itself alone, and {} holds other weights: give "
        "it as the target too",
        path, target.path()));
  }
  return out;
}

// Fewer tokens than trained for: the first slots of a block do not need the later ones.
void shorten(GatedLora& lora, const TidarArgument& argument) {
  if (!argument.block) return;
  if (*argument.block > lora.config.block) {
    throw UsageError(fmt::format("tidar: block={}: {} was trained for blocks of {} at most",
                                 *argument.block, argument.folder, lora.config.block));
  }
  lora.config.block = *argument.block;
}

// Rows of a block of Nemotron-Labs-Diffusion, which may have any number: its config's block_size is
// meant for GPUs.
std::int64_t seeded_rows(const TidarArgument& argument, const json& config) {
  constexpr std::int64_t kMost = 16;
  if (argument.block) return *argument.block;
  const auto found = config.find("block_size");
  const bool named = found != config.end() && found->is_number_integer();
  return named ? std::clamp<std::int64_t>(found->get<std::int64_t>(), 3, kMost) : kMost;
}

// Mask rows of a target that reads a mask token, with the adapters that lie in `folder`, if any.
GatedLora seeded(const std::filesystem::path& folder, const TidarArgument& argument,
                 const Model& target) {
  const DecoderConfig& decoder = impl_of(target).lm.config;
  if (!decoder.mask_token) {
    throw UsageError(fmt::format(
        "{} holds adapters of PEFT, which draft for Nemotron-Labs-Diffusion models alone; {} is "
        "none: forerun train tidar makes adapters for it",
        folder.string(), target.path()));
  }
  const std::int64_t rows = seeded_rows(argument, load_hf_config(target.path()).config);
  if (rows < 3) throw UsageError("tidar: block=2 leaves no row for a draft: give 3 or more");
  return is_peft_folder(folder) ? load_peft_adapters(folder, decoder, rows)
                                : seeded_masks(decoder, rows);
}

GatedLora load_any(const std::string& folder, const TidarArgument& argument, const Model& target) {
  namespace fs = std::filesystem;
  const DecoderConfig& decoder = impl_of(target).lm.config;
  const fs::path beside = fs::path(folder) / "linear_spec_lora";
  if (is_peft_folder(folder)) return seeded(folder, argument, target);
  if (is_peft_folder(beside)) return seeded(beside, argument, target);
  std::error_code ignored;
  const bool own = fs::equivalent(folder, target.path(), ignored);
  const bool whole = is_mask_model(load_hf_config(folder).config);
  if (own && !whole && decoder.mask_token) return seeded(folder, argument, target);
  GatedLora out =
      own || whole ? own_masks(folder, target) : load_gated_lora(folder, decoder, target.hash());
  shorten(out, argument);
  return out;
}

// In the precision of the target, in whose passes they run.
std::shared_ptr<const GatedLora> load_adapters(const TidarArgument& argument, const Model& target) {
  const bool own = argument.folder == "self";
  const std::string& path = own ? target.path() : argument.folder;
  std::error_code ignored;
  if (own && !std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format(
        "tidar:self: {} is no folder of forerun train tidar --full: give one as the model", path));
  }
  if (!std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format(
        "no adapters at '{}': give a folder with config.json and model.safetensors", path));
  }
  const c10::InferenceMode no_autograd;
  return std::make_shared<const GatedLora>(
      in_precision(load_any(path, argument, target), impl_of(target).lm.precision));
}

struct TidarMethod final : NetworkMethod<TidarMethod> {
  bool has_laws() const override { return true; }
  bool finds() const override { return !beside.empty(); }
  bool keeps_law() const override { return mix.beta >= 1.0; }
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    if (!keeps_law()) {
      return std::make_shared<ControlledDrafter<TidarDrafter>>(
          TidarDrafter(lora, TidarForm::kFused, mix), std::move(setup.control), setup.max_draft);
    }
    if (setup.samples || !setup.trees) {
      // Sources beside it have no laws: they take no part in sampled drafts.
      return std::make_shared<ControlledDrafter<TidarDrafter>>(
          TidarDrafter(lora), std::move(setup.control), setup.max_draft);
    }
    std::vector<std::unique_ptr<TreeSource>> sources = make_sources(beside);
    sources.insert(sources.begin(), std::make_unique<TidarSource>(lora));
    return std::make_shared<TreeDrafter>(std::move(sources), nullptr, std::move(setup.control),
                                         setup.max_draft);
  }
  std::shared_ptr<const GatedLora> lora;
  TidarMix mix;
};

std::shared_ptr<const Drafter::Method> load_method(const DrafterLoad& load) {
  const TidarArgument argument = parse_tidar(load.argument);
  auto method = std::make_shared<TidarMethod>();
  method->lora = load_adapters(argument, load.target);
  method->beside = load.beside;
  method->mix = {.beta = argument.beta.value_or(1.0),
                 .context = impl_of(load.target).lm.config.context};
  if (method->keeps_law()) return method;
  if (!load.beside.empty()) {
    throw UsageError(fmt::format(
        "tidar: beta below 1 is a law of its own, for which +{} has no rows: leave it out",
        load.beside.front().name));
  }
  try {
    TidarDrafter(method->lora, TidarForm::kFused, method->mix);
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
  return method;
}

}  // namespace

DrafterKind tidar_drafter() {
  return {.info = {.name = "tidar",
                   .argument = "FOLDER[:block=N][:beta=B]",
                   .help = "mask rows in the target's own pass: adapters, or (FOLDER or self) a "
                           "target trained so"},
          .load = load_method,
          .reads = describes_gated_lora};
}

}  // namespace forerun
