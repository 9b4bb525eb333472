#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <filesystem>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/learned.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/formats/tokenizer/vocabulary.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/text.h"

namespace forerun {
namespace {

constexpr std::string_view kDraftModel = "draft-model:", kDFlash = "dflash:";
constexpr std::string_view kWithLookup = "+lookup";

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

Drafter::Drafter() : learned_(std::make_shared<Learned>()) {}

Drafter Drafter::fresh() const {
  Drafter out(*this);
  out.learned_ = std::make_shared<Learned>();
  return out;
}

Drafter Drafter::load(std::string_view name, const Model& target, PrecisionRequest precision) {
  Drafter out;
  out.name_ = std::string(name);
  if (name == "none" || name == "lookup") return out;
  if (name.starts_with(kDFlash)) {
    std::string path(name.substr(kDFlash.size()));
    const bool with_lookup = path.ends_with(kWithLookup);
    if (with_lookup) path.resize(path.size() - kWithLookup.size());
    out.block_ = std::make_shared<const Block>(
        Block{.network = load_network(path, target, precision), .with_lookup = with_lookup});
    return out;
  }
  if (!name.starts_with(kDraftModel) || name.size() == kDraftModel.size()) {
    throw UsageError(
        fmt::format("unknown drafter '{}': none, lookup, draft-model:PATH, dflash:PATH and "
                    "dflash:PATH+lookup are there",
                    name));
  }
  out.model_ = Model::load(std::string(name.substr(kDraftModel.size())), precision);
  const auto difference =
      vocabulary_difference(impl_of(target).tokenizer, impl_of(*out.model_).tokenizer);
  const bool same_scores = target.vocab() == out.model_->vocab();
  if (difference || !same_scores) {
    throw UsageError(fmt::format(
        "{} cannot draft for {}: {}; a drafting model must share the target's vocabulary",
        out.model_->path(), target.path(),
        difference.value_or(fmt::format("the one scores {} tokens, the other {}",
                                        out.model_->vocab(), target.vocab()))));
  }
  return out;
}

}  // namespace forerun
