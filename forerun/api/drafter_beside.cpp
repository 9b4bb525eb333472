#include "forerun/api/drafter_beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/api/access.h"
#include "forerun/api/beside_model.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_impl.h"
#include "forerun/formats/hf_config.h"

namespace forerun {
namespace {

constexpr const char* kSettings = "config.json";

const DrafterKind& kind_of(std::span<const DrafterKind> kinds, const std::string& folder) {
  const nlohmann::json config = load_json_object(std::filesystem::path(folder) / kSettings);
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const DrafterKind& k) { return k.reads && k.reads(config); });
  if (kind == kinds.end()) {
    throw FormatError(fmt::format("{}: it describes no drafter that forerun reads", kSettings));
  }
  return *kind;
}

// Found drafters only save time: one that cannot be used is left out.
// @throws UsageError  it cannot be had in the precision that is asked for
NetworkBeside load_beside(std::span<const DrafterKind> kinds, const Model& target,
                          const std::string& folder, PrecisionRequest precision) {
  const auto left_out = [&](const std::string& why) {
    const bool named = why.find(folder) != std::string::npos;
    return NetworkBeside{.name = {}, .network = {}, .left_out = named ? why : folder + ": " + why};
  };
  if (target.precision() == Precision::kFile) {
    return left_out("weights stay in their file, and a network would hold some of them in memory");
  }
  try {
    const DrafterKind& kind = kind_of(kinds, folder);
    return {.name = kind.info.name + ":" + folder,
            .network = kind.load({target, folder, {}, precision}),
            .left_out = {}};
  } catch (const FormatError& e) {
    return left_out(e.what());
  } catch (const UsageError& e) {
    if (precision) throw;
    return left_out(e.what());
  }
}

}  // namespace

DrafterBeside::DrafterBeside(const std::string& model_path)
    : folder(beside_model(model_path, ".drafter")) {}

NetworkBeside network_beside(std::span<const DrafterKind> kinds, const Model& target,
                             PrecisionRequest precision) {
  DrafterBeside& beside = *impl_of(target).drafter;
  const std::scoped_lock lock(beside.mutex);
  std::string state = state_of_folder(beside.folder, kSettings);
  if (!state.empty()) state += precision ? name_of(*precision) : "auto";
  if (state != beside.state) {
    beside.state.clear();
    beside.found = {};
    if (!state.empty()) beside.found = load_beside(kinds, target, beside.folder, precision);
    beside.state = state;
  }
  return beside.found;
}

std::string drafter_folder(const Model& model) { return impl_of(model).drafter->folder; }

}  // namespace forerun
