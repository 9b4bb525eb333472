#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <filesystem>

#include "forerun/api/access.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_impl.h"
#include "forerun/methods/tidar/tidar_source.h"
#include "forerun/models/gated_lora/gated_lora_file.h"

namespace forerun {
namespace {

// In the precision of the target, in whose passes they run.
std::shared_ptr<const GatedLora> load_adapters(const std::string& path, const Model& target) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format(
        "no adapters at '{}': give a folder with config.json and model.safetensors", path));
  }
  const c10::InferenceMode no_autograd;
  const DecoderLm& lm = impl_of(target).lm;
  return std::make_shared<const GatedLora>(
      in_precision(load_gated_lora(path, lm.config, target.hash()), lm.precision));
}

}  // namespace

DrafterKind tidar_drafter() {
  return {.info = {.name = "tidar",
                   .argument = "FOLDER",
                   .help = "adapters on mask rows in the target's own pass"},
          .load = [](const DrafterLoad& load) {
            std::vector<FoundSource> sources = {
                {"tidar", [lora = load_adapters(load.argument, load.target)] {
                   return std::make_unique<TidarSource>(lora);
                 }}};
            sources.insert(sources.end(), load.beside.begin(), load.beside.end());
            return found_method(std::move(sources));
          }};
}

}  // namespace forerun
