#include "forerun/methods/dflash/dflash_drafter.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/methods/dflash/dflash_lookup.h"
#include "forerun/methods/dflash/dflash_source.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/models/dflash/dflash_config_json.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

struct DFlashMethod final : NetworkMethod<DFlashMethod> {
  bool has_laws() const override { return true; }
  bool finds() const override { return !beside.empty(); }
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    if (!setup.samples && setup.trees) {
      return std::make_shared<TreeDrafter>(make_sources(beside),
                                           std::make_unique<DFlashSource>(network),
                                           std::move(setup.control), setup.max_draft);
    }
    DFlashDrafter block(network);
    // Of the sources beside it, sampled blocks take turns with lookup alone.
    const bool looks_up = std::any_of(beside.begin(), beside.end(),
                                      [](const FoundSource& s) { return s.name == "lookup"; });
    if (!looks_up) {
      return std::make_shared<ControlledDrafter<DFlashDrafter>>(
          std::move(block), std::move(setup.control), setup.max_draft);
    }
    return std::make_shared<ControlledDrafter<DFlashLookupDrafter>>(
        DFlashLookupDrafter(std::move(block)), std::move(setup.control), setup.max_draft);
  }
  std::shared_ptr<const DFlashPasses> network;
};

// The network, with the target's embedding and head, which int8 targets hold in another form.
std::shared_ptr<const DFlashPasses> load_network(const std::string& path, const Model& target,
                                                 PrecisionRequest requested) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format(
        "no drafter at '{}': give a folder with config.json and model.safetensors", path));
  }
  const c10::InferenceMode no_autograd;
  DFlash network = load_dflash(path, DFlashTarget(numbers_of(target, DecoderParts::kEnds)));
  const Precision precision = text_precision(path, requested, cpu_features()).precision;
  return DFlashPasses::make(std::move(network), precision);
}

}  // namespace

DrafterKind dflash_drafter() {
  return {.info = {.name = "dflash",
                   .argument = "FOLDER",
                   .help = "a trained network that reads the target's hidden states"},
          .load =
              [](const DrafterLoad& load) {
                auto method = std::make_shared<DFlashMethod>();
                method->beside = load.beside;
                method->network = load_network(load.argument, load.target, load.precision);
                return method;
              },
          .reads = describes_dflash};
}

}  // namespace forerun
