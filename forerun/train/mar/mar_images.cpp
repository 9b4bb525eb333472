#include "forerun/train/mar/mar_images.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "forerun/base/hash.h"

namespace forerun {
namespace {

// [1, 3, side, side] in [-1, 1]; grey in all three.
at::Tensor picture_of(const LabelledImages& images, std::int64_t image) {
  const std::int64_t values = images.channels * images.height * images.width;
  const at::Tensor bytes = at::empty({1, images.channels, images.height, images.width}, at::kByte);
  std::copy_n(images.pixels.data() + image * values, values,
              bytes.mutable_data_ptr<std::uint8_t>());
  return (bytes.to(at::kFloat) / 127.5 - 1.0).expand({1, 3, images.height, images.width});
}

std::string_view bytes_of(const at::Tensor& x) {
  return {static_cast<const char*>(x.const_data_ptr()), x.nbytes()};
}

}  // namespace

MarImages::MarImages(LabelledImages images)
    : side_(images.width),
      channels_(images.channels),
      classes_(static_cast<std::int64_t>(images.classes.size())),
      digest_(digest_of(images)) {
  if (images.width != images.height) throw std::invalid_argument("the images are not square");
  labels_ = std::move(images.labels);
  pixels_ = std::move(images.pixels);
}

MarImages::MarImages(const LabelledImages& images, const VaeEncoder& vae, bool flips)
    : side_(images.width / vae.config.scale()),
      channels_(vae.config.latent_channels),
      classes_(static_cast<std::int64_t>(images.classes.size())),
      labels_(images.labels) {
  if (images.width != images.height || images.width % vae.config.scale() != 0) {
    throw std::invalid_argument(
        fmt::format("images of {} x {} have no latents of this autoencoder: the side must be a "
                    "multiple of {}",
                    images.width, images.height, vae.config.scale()));
  }
  const c10::InferenceMode no_autograd;
  const std::int64_t n = size();
  mean_ = at::empty({flips ? 2 * n : n, channels_, side_, side_}, at::kFloat);
  deviation_ = at::empty_like(mean_);
  for (std::int64_t i = 0; i < mean_.size(0); ++i) {
    const at::Tensor picture = picture_of(images, i % n);
    const LatentLaw law = encode(vae, i < n ? picture : picture.flip(3));
    mean_[i].copy_(law.mean[0]);
    deviation_[i].copy_(law.deviation[0]);
  }
  digest_ = fmt::format("{} latents {}", digest_of(images),
                        Hash().add_all(bytes_of(mean_)).add_all(bytes_of(deviation_)).text());
}

std::vector<float> MarImages::values(std::size_t image, bool flip, const RngKey& key) const {
  const auto n = static_cast<std::size_t>(channels_ * side_ * side_);
  std::vector<float> out(n);
  if (!latents()) {
    const auto side = static_cast<std::size_t>(side_);
    const std::uint8_t* const from = pixels_.data() + image * n;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t x = i % side;
      out[i] = static_cast<float>(from[flip ? i - x + side - 1 - x : i]) / 127.5F - 1.0F;
    }
    return out;
  }
  const std::size_t row = image + (flip ? labels_.size() : 0);
  if (row >= static_cast<std::size_t>(mean_.size(0))) {
    throw std::invalid_argument("the latents of mirror images were not made");
  }
  key.fill_normal(Purpose::kResidual, out);
  const float *const mean = mean_.const_data_ptr<float>() + row * n,
                     *const deviation = deviation_.const_data_ptr<float>() + row * n;
  for (std::size_t i = 0; i < n; ++i) out[i] = mean[i] + deviation[i] * out[i];
  return out;
}

MarImages::Spread MarImages::spread() const {
  double sum = 0.0, squares = 0.0, n = 0.0;
  if (latents()) {
    const at::Tensor mean = mean_.to(at::kDouble);
    sum = mean.sum().item<double>();
    squares = (mean.square() + deviation_.to(at::kDouble).square()).sum().item<double>();
    n = static_cast<double>(mean.numel());
  } else {
    for (const std::uint8_t byte : pixels_) {
      const double x = static_cast<double>(byte) / 127.5 - 1.0;
      sum += x;
      squares += x * x;
    }
    n = static_cast<double>(pixels_.size());
  }
  const double mean = sum / n;
  return {mean, std::sqrt(std::max(squares / n - mean * mean, 1e-6))};
}

std::string MarImages::digest() const {
  return digest_.empty() ? digest_of(LabelledImages{}) : digest_;
}

}  // namespace forerun
