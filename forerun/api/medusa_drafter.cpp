#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <filesystem>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_file.h"
#include "forerun/methods/medusa/medusa_source.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/models/medusa/medusa_config_json.h"
#include "forerun/models/medusa/medusa_file.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

struct MedusaMethod final : NetworkMethod<MedusaMethod> {
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    return std::make_shared<TreeDrafter>(
        make_sources(beside), std::make_unique<MedusaSource>(network), std::move(setup.control),
        setup.max_draft, setup.trees ? TreeDrafter::Shape::kTree : TreeDrafter::Shape::kChain);
  }
  std::shared_ptr<const MedusaPasses> network;
};

std::shared_ptr<const MedusaPasses> load_heads(const std::string& path, const Model& target,
                                               PrecisionRequest requested) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    throw UsageError(
        fmt::format("no drafter at '{}': give a folder of forerun train medusa (config.json and "
                    "model.safetensors)",
                    path));
  }
  const c10::InferenceMode no_autograd;
  Medusa network = load_medusa(path, with_embedding(target));
  const Precision precision = text_precision(path, requested, cpu_features()).precision;
  return MedusaPasses::make(std::move(network), precision);
}

}  // namespace

DrafterKind medusa_drafter() {
  return {.info = {.name = "medusa",
                   .argument = "FOLDER",
                   .help = "trained heads that predict the next tokens from the target's hidden "
                           "states at the last one"},
          .load =
              [](const DrafterLoad& load) {
                auto method = std::make_shared<MedusaMethod>();
                method->beside = load.beside;
                method->network = load_heads(load.argument, load.target, load.precision);
                return method;
              },
          .reads = describes_medusa};
}

}  // namespace forerun
