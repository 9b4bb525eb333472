#include "forerun/methods/tidar/tidar_drafter.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <filesystem>

#include "forerun/api/access.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/formats/hf_config.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tidar/tidar_source.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/models/gated_lora/gated_lora_file.h"
#include "forerun/models/gated_lora/mask_model.h"

namespace forerun {
namespace {

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

// In the precision of the target, in whose passes they run.
std::shared_ptr<const GatedLora> load_adapters(const std::string& argument, const Model& target) {
  const std::string& path = argument == "self" ? target.path() : argument;
  std::error_code ignored;
  if (argument == "self" && !std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format(
        "tidar:self: {} is no folder of forerun train tidar --full: give one as the model", path));
  }
  if (!std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format(
        "no adapters at '{}': give a folder with config.json and model.safetensors", path));
  }
  const c10::InferenceMode no_autograd;
  const DecoderLm& lm = impl_of(target).lm;
  const bool whole = argument == "self" || is_mask_model(load_hf_config(path).config);
  return std::make_shared<const GatedLora>(in_precision(
      whole ? own_masks(path, target) : load_gated_lora(path, lm.config, target.hash()),
      lm.precision));
}

struct TidarMethod final : Drafter::Method {
  bool has_laws() const override { return true; }
  bool finds() const override { return !beside.empty(); }
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
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
  std::vector<FoundSource> beside;
};

}  // namespace

DrafterKind tidar_drafter() {
  return {.info = {.name = "tidar",
                   .argument = "FOLDER",
                   .help = "mask rows in the target's own pass: adapters, or (FOLDER or self) a "
                           "target trained so"},
          .load = [](const DrafterLoad& load) {
            auto method = std::make_shared<TidarMethod>();
            method->lora = load_adapters(load.argument, load.target);
            method->beside = load.beside;
            return method;
          }};
}

}  // namespace forerun
