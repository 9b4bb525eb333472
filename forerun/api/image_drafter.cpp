#include <fmt/format.h>

#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/image_impl.h"
#include "forerun/methods/asd/asd_predictor.h"
#include "forerun/methods/diffusion/target_predictor.h"
#include "forerun/methods/free/free_predictor.h"
#include "forerun/methods/frozen/frozen_predictor.h"
#include "forerun/models/mar/mar_file.h"

namespace forerun {

ImageDrafter::ImageDrafter() : name_("none"), impl_(std::make_shared<const Impl>()) {}

ImageDrafter ImageDrafter::load(const std::string& name, const DiffusionModel& target) {
  using Made = std::shared_ptr<const StepPredictor>;
  const DitConfig& c = impl_of(target).dit->config;
  auto impl = std::make_shared<Impl>();
  ImageDrafter out;
  out.name_ = name;
  const std::string free = "free:";
  if (name == "asd") {
    impl->predictor = [](DitTarget& t) -> Made {
      return std::make_shared<AsdPredictor>(t.schedule());
    };
  } else if (name == "frozen") {
    impl->predictor = [](DitTarget& t) -> Made {
      return std::make_shared<FrozenPredictor>(t.schedule());
    };
  } else if (name == "self") {
    out.cost_ = 1.0;
    impl->predictor = [](DitTarget& t) -> Made { return std::make_shared<TargetPredictor>(t); };
  } else if (name.starts_with(free)) {
    const auto network = std::make_shared<const FreeNetwork>(
        load_free(name.substr(free.size()), *impl_of(target).dit));
    std::shared_ptr<const Bf16Free> packed;
    if (impl_of(target).packed) packed = std::make_shared<Bf16Free>(*network);
    out.cost_ = free_pass_work(c) / dit_pass_work(c);
    impl->predictor = [network, packed](DitTarget& t) -> Made {
      return std::make_shared<FreePredictor>(GuidedFree(network, packed), t);
    };
  } else if (name != "none") {
    throw UsageError(fmt::format(
        "no drafter of images is called '{}': none, asd, frozen, self or free:FOLDER", name));
  }
  out.impl_ = std::move(impl);
  return out;
}

namespace {

double token_work(const MarConfig& c, std::int64_t transitions) {
  const MarHeadWork head = mar_head_work(c);
  const double states = head.transition * static_cast<double>(transitions);
  return mar_backbone_work(c) / static_cast<double>(c.tokens()) + head.condition + states;
}

}  // namespace

ImageDrafter ImageDrafter::load(const std::string& name, const TokenImageModel& target) {
  constexpr std::int64_t kTransitions = 24;
  const MarConfig& c = impl_of(target).mar->config;
  const std::string cspd = "cspd:";
  ImageDrafter out;
  out.name_ = name;
  auto impl = std::make_shared<Impl>();
  if (name == "self") {
    impl->self = true;
    out.cost_ = 1.0;
  } else if (name.starts_with(cspd)) {
    const std::string folder = name.substr(cspd.size());
    const Mar draft = load_mar(folder);
    const std::string why = why_other_tokens(draft.config, c);
    if (!why.empty()) {
      throw UsageError(fmt::format("{} does not draft for {}: {}", folder, target.path(), why));
    }
    if (!draft.config.follows.empty() && draft.config.follows != target.digest()) {
      throw UsageError(
          fmt::format("{} was trained to draft for another target than {} (weights {} against {})",
                      folder, target.path(), draft.config.follows, target.digest()));
    }
    if (draft.config.form != MarForm::kCausal) {
      throw UsageError(fmt::format("{} is of the masked form; a drafter is causal", folder));
    }
    impl->network = std::make_shared<const MarNetwork>(draft, head_precision(target.precision()));
    out.cost_ = token_work(draft.config, kTransitions) / token_work(c, kTransitions);
  } else if (name != "none") {
    throw UsageError(
        fmt::format("no drafter of image tokens is called '{}': none, self or cspd:FOLDER", name));
  }
  out.impl_ = std::move(impl);
  return out;
}

}  // namespace forerun
