#include <fmt/format.h>

#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/diffusion_impl.h"
#include "forerun/formats/png.h"
#include "forerun/image.h"
#include "forerun/methods/asd/asd_predictor.h"
#include "forerun/methods/diffusion/target_predictor.h"
#include "forerun/methods/free/free_predictor.h"
#include "forerun/methods/frozen/frozen_predictor.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {

bool is_diffusion_model(const std::string& path) noexcept { return holds_dit(path); }

DiffusionModel DiffusionModel::load(const std::string& path, DitDialect dialect,
                                    PrecisionRequest precision) {
  const auto conventions =
      dialect == DitDialect::kDiffusers ? DitConventions::kDiffusers : DitConventions::kReference;
  auto impl = std::make_shared<Impl>(Impl{.path = path,
                                          .dialect = dialect,
                                          .dit = std::make_shared<Dit>(load_dit(path, conventions)),
                                          .packed = nullptr,
                                          .precision = {}});
  const bool fits = Bf16Stack::fits(impl->dit->config);
  impl->precision = image_precision(path, precision, cpu_features(), fits);
  if (impl->precision.precision == Precision::kBF16) {
    impl->packed = std::make_shared<Bf16Dit>(*impl->dit);
  }
  return DiffusionModel(std::move(impl));
}

Precision DiffusionModel::precision() const noexcept { return impl_->precision.precision; }
const ChosenPrecision& DiffusionModel::chosen_precision() const noexcept {
  return impl_->precision;
}

const std::string& DiffusionModel::path() const noexcept { return impl_->path; }
std::int64_t DiffusionModel::classes() const noexcept { return impl_->dit->config.classes; }
std::int64_t DiffusionModel::side() const noexcept { return impl_->dit->config.input; }
std::int64_t DiffusionModel::channels() const noexcept { return impl_->dit->config.channels; }
bool DiffusionModel::latent() const noexcept { return channels() != 1 && channels() != 3; }
std::int64_t DiffusionModel::parameters() const noexcept {
  Dit shared = *impl_->dit;
  std::int64_t out = 0;
  for (const ModelWeight& w : weights(shared)) out += w.tensor->numel();
  return out;
}

std::string DiffusionModel::digest() const { return digest_of(*impl_->dit); }

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

std::string png_grid(std::span<const Image> images, std::int64_t columns) {
  constexpr std::int64_t kGap = 2;
  return encode_png(tile(images, columns, images.size() > 1 ? kGap : 0));
}

}  // namespace forerun
