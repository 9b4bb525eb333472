#include <fmt/format.h>

#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/image_impl.h"
#include "forerun/api/pictures.h"
#include "forerun/base/format_error.h"
#include "forerun/formats/png.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/models/mar/mar_file.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {

const std::string& ImageModel::path() const noexcept { return impl_->path; }
Precision ImageModel::precision() const noexcept { return impl_->precision.precision; }
const ChosenPrecision& ImageModel::chosen_precision() const noexcept { return impl_->precision; }
std::int64_t ImageModel::classes() const noexcept { return impl_->classes; }
std::int64_t ImageModel::side() const noexcept { return impl_->side; }
std::int64_t ImageModel::channels() const noexcept { return impl_->channels; }
std::int64_t ImageModel::parameters() const noexcept { return impl_->parameters; }
std::string ImageModel::digest() const { return impl_->digest(); }
bool ImageModel::latent() const noexcept { return are_latents(channels()); }

bool is_diffusion_model(const std::string& path) noexcept { return holds_dit(path); }

DiffusionModel::DiffusionModel(std::shared_ptr<const Impl> impl) : ImageModel(std::move(impl)) {}

std::string DiffusionModel::Impl::digest() const { return digest_of(*dit); }

DiffusionModel DiffusionModel::load(const std::string& path, DitDialect dialect,
                                    PrecisionRequest precision) {
  const auto conventions =
      dialect == DitDialect::kDiffusers ? DitConventions::kDiffusers : DitConventions::kReference;
  Dit dit = load_dit(path, conventions);
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  impl->precision = image_precision(path, precision, cpu_features(), Bf16Stack::fits(dit.config));
  impl->classes = dit.config.classes;
  impl->side = dit.config.input;
  impl->channels = dit.config.channels;
  for (const ModelWeight& w : weights(dit)) impl->parameters += w.tensor->numel();
  impl->dialect = dialect;
  impl->dit = std::make_shared<const Dit>(std::move(dit));
  if (impl->precision.precision == Precision::kBF16) {
    impl->packed = std::make_shared<Bf16Dit>(*impl->dit);
  }
  return DiffusionModel(std::move(impl));
}

bool is_token_image_model(const std::string& path) noexcept { return holds_mar(path); }

TokenImageModel::TokenImageModel(std::shared_ptr<const Impl> impl) : ImageModel(std::move(impl)) {}

std::string TokenImageModel::Impl::digest() const { return digest_of(*mar); }

TokenImageModel TokenImageModel::load(const std::string& path, PrecisionRequest precision) {
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  impl->precision = token_image_precision(path, precision, cpu_features());
  impl->mar = std::make_shared<const Mar>(load_mar(path));
  const MarConfig& c = impl->mar->config;
  const MarSize size = size_of(c);
  impl->classes = c.classes;
  impl->side = c.side;
  impl->channels = c.channels;
  impl->parameters = size.backbone + size.head;
  impl->network =
      std::make_shared<const MarNetwork>(*impl->mar, head_precision(impl->precision.precision));
  if (c.form == MarForm::kMasked) {
    impl->masked = std::make_shared<const MaskedNetwork>(*impl->mar);
  }
  return TokenImageModel(std::move(impl));
}

std::int64_t TokenImageModel::tokens() const noexcept {
  return impl_of(*this).mar->config.tokens();
}
bool TokenImageModel::masked() const noexcept {
  return impl_of(*this).mar->config.form == MarForm::kMasked;
}
std::int64_t TokenImageModel::dim() const noexcept { return impl_of(*this).mar->config.dim(); }

std::string png_grid(std::span<const Image> images, std::int64_t columns) {
  constexpr std::int64_t kGap = 2;
  return encode_png(tile(images, columns, images.size() > 1 ? kGap : 0));
}

}  // namespace forerun
