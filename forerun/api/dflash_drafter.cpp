#include "forerun/methods/dflash/dflash_drafter.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <filesystem>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/methods/dflash/dflash_lookup.h"
#include "forerun/methods/dflash/dflash_source.h"
#include "forerun/methods/lookup/lookup_source.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

constexpr std::string_view kWithLookup = "+lookup";

struct DFlashMethod final : Drafter::Method {
  bool has_laws() const override { return true; }
  bool finds() const override { return with_lookup; }
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    if (!setup.samples && setup.trees) {
      std::vector<std::unique_ptr<TreeSource>> found;
      if (with_lookup) found.push_back(std::make_unique<LookupSource>());
      return std::make_shared<TreeDrafter>(std::move(found),
                                           std::make_unique<DFlashSource>(network),
                                           std::move(setup.control), setup.max_draft);
    }
    DFlashDrafter block(network);
    if (!with_lookup) {
      return std::make_shared<ControlledDrafter<DFlashDrafter>>(
          std::move(block), std::move(setup.control), setup.max_draft);
    }
    return std::make_shared<ControlledDrafter<DFlashLookupDrafter>>(
        DFlashLookupDrafter(std::move(block)), std::move(setup.control), setup.max_draft);
  }
  std::shared_ptr<const DFlashPasses> network;
  bool with_lookup = false;
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
  return {{.name = "dflash",
           .argument = "FOLDER[+lookup]",
           .help = "a trained network that reads the target's hidden states; +lookup: also what "
                   "lookup finds"},
          [](const Model& target, const std::string& argument, PrecisionRequest precision) {
            std::string path = argument;
            auto method = std::make_shared<DFlashMethod>();
            method->with_lookup = path.ends_with(kWithLookup);
            if (method->with_lookup) path.resize(path.size() - kWithLookup.size());
            method->network = load_network(path, target, precision);
            return method;
          }};
}

}  // namespace forerun
