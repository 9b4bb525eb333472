#include "forerun/metrics/internal/features.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace forerun::internal {

at::Tensor checked_features(const at::Tensor& features, std::int64_t least) {
  if (features.dim() != 2 || features.size(1) < 1 || !features.is_floating_point()) {
    throw std::invalid_argument(
        fmt::format("features of shape [{}], expected a row of numbers for each image",
                    fmt::join(features.sizes(), ", ")));
  }
  if (features.size(0) < least) {
    throw std::invalid_argument(
        fmt::format("{} images: {} or more are needed", features.size(0), least));
  }
  const at::Tensor x = features.detach().to(at::kDouble);
  if (!x.isfinite().all().item<bool>()) {
    throw std::invalid_argument(
        "features hold values that are no numbers: the images, or what computed them, are broken");
  }
  return x;
}

}  // namespace forerun::internal
