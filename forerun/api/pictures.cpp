#include "forerun/api/pictures.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>

#include "forerun/common.h"

namespace forerun {

Pictures::Pictures(PictureShape shape, const std::string& path, const std::string& vae, bool needed)
    : shape_(shape) {
  if (!are_latents(shape.channels) || !needed) return;
  std::string folder = vae;
  std::error_code ignored;
  const std::filesystem::path own = std::filesystem::path(path) / "vae";  // a pipeline's
  if (folder.empty() && std::filesystem::exists(own / "config.json", ignored)) {
    folder = own.string();
  }
  if (folder.empty()) {
    throw UsageError(
        fmt::format("the model's images are latents of {} channels: give --vae FOLDER to decode "
                    "them",
                    shape.channels));
  }
  vae_ = load_vae(folder);
  if (vae_->config.latent_channels != shape.channels) {
    throw UsageError(fmt::format("{} decodes latents of {} channels, the model's have {}", folder,
                                 vae_->config.latent_channels, shape.channels));
  }
}

std::int64_t Pictures::side() const noexcept {
  return shape_.side * (vae_ ? vae_->config.scale() : 1);
}

std::size_t Pictures::values() const noexcept {
  return static_cast<std::size_t>(shape_.channels * shape_.side * shape_.side);
}

Image Pictures::image(std::span<const float> values) const {
  at::Tensor x = at::empty({1, shape_.channels, shape_.side, shape_.side}, at::kFloat);
  std::copy(values.begin(), values.end(), x.mutable_data_ptr<float>());
  const at::Tensor bytes = image_bytes(vae_ ? decode(*vae_, x) : x)[0];
  const auto* const from = bytes.const_data_ptr<std::uint8_t>();
  return {.width = bytes.size(1),
          .height = bytes.size(0),
          .channels = bytes.size(2),
          .pixels = {from, from + bytes.numel()}};
}

}  // namespace forerun
