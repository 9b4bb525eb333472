#include <fmt/format.h>

#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/pictures.h"
#include "forerun/api/token_image_impl.h"
#include "forerun/base/format_error.h"
#include "forerun/models/mar/mar_file.h"
#include "forerun/token_image.h"

namespace forerun {

bool is_token_image_model(const std::string& path) noexcept { return holds_mar(path); }

namespace {

HeadPrecision head_precision(Precision p) {
  return p == Precision::kBF16 ? HeadPrecision::kBF16 : HeadPrecision::kF32;
}

}  // namespace

TokenImageModel TokenImageModel::load(const std::string& path, PrecisionRequest precision) {
  auto impl = std::make_shared<Impl>(
      Impl{.path = path, .precision = token_image_precision(path, precision, cpu_features())});
  impl->mar = std::make_shared<const Mar>(load_mar(path));
  if (impl->mar->config.form != MarForm::kCausal) {
    throw UsageError(
        fmt::format("{} is of the masked form, where a token sees later ones: no prefix can be "
                    "verified in one pass. Train a causal one with `forerun train mar`",
                    path));
  }
  impl->network =
      std::make_shared<const MarNetwork>(*impl->mar, head_precision(impl->precision.precision));
  return TokenImageModel(std::move(impl));
}

namespace {

const MarConfig& config_of(const TokenImageModel& model) { return impl_of(model).mar->config; }

double token_work(const MarConfig& c, std::int64_t transitions) {
  const MarHeadWork head = mar_head_work(c);
  const double states = head.transition * static_cast<double>(transitions);
  return mar_backbone_work(c) / static_cast<double>(c.tokens()) + head.condition + states;
}

}  // namespace

const std::string& TokenImageModel::path() const noexcept { return impl_->path; }
std::int64_t TokenImageModel::classes() const noexcept { return config_of(*this).classes; }
std::int64_t TokenImageModel::side() const noexcept { return config_of(*this).side; }
std::int64_t TokenImageModel::channels() const noexcept { return config_of(*this).channels; }
std::int64_t TokenImageModel::tokens() const noexcept { return config_of(*this).tokens(); }
std::int64_t TokenImageModel::dim() const noexcept { return config_of(*this).dim(); }
std::int64_t TokenImageModel::parameters() const noexcept {
  const MarSize size = size_of(config_of(*this));
  return size.backbone + size.head;
}
std::string TokenImageModel::digest() const { return digest_of(*impl_->mar); }
Precision TokenImageModel::precision() const noexcept { return impl_->precision.precision; }
const ChosenPrecision& TokenImageModel::chosen_precision() const noexcept {
  return impl_->precision;
}
bool TokenImageModel::latent() const noexcept { return are_latents(channels()); }

TokenImageDrafter TokenImageDrafter::load(const std::string& name, const TokenImageModel& target) {
  constexpr std::int64_t kTransitions = 24;
  const std::string cspd = "cspd:";
  TokenImageDrafter out;
  out.name_ = name;
  auto impl = std::make_shared<Impl>();
  if (name == "self") {
    impl->self = true;
    out.cost_ = 1.0;
  } else if (name.starts_with(cspd)) {
    const std::string folder = name.substr(cspd.size());
    const Mar draft = load_mar(folder);
    const std::string why = why_other_tokens(draft.config, config_of(target));
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
    out.cost_ =
        token_work(draft.config, kTransitions) / token_work(config_of(target), kTransitions);
  } else if (name != "none") {
    throw UsageError(
        fmt::format("no drafter of image tokens is called '{}': none, self or cspd:FOLDER", name));
  }
  out.impl_ = std::move(impl);
  return out;
}

}  // namespace forerun
