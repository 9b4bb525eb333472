#include "forerun/train/classifier/augmented_images.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "forerun/core/rng_key.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

// Changes that the uniforms of an image select.
enum : std::uint32_t { kFlipDraw, kAcrossDraw, kDownDraw };

struct Move {
  bool flip = false;
  std::int64_t across = 0, down = 0;
};

Move move_of(std::size_t image, std::uint64_t seed, const AugmentOptions& o) {
  const RngKey key{.seed = seed, .request = static_cast<std::uint32_t>(image)};
  const auto offset = [&](std::uint32_t what) {
    const double choices = 2.0 * static_cast<double>(o.shift) + 1.0;
    return static_cast<std::int64_t>(key.uniform(Purpose::kTarget, what) * choices) - o.shift;
  };
  return {.flip = o.flip && key.uniform(Purpose::kTarget, kFlipDraw) < 0.5,
          .across = offset(kAcrossDraw),
          .down = offset(kDownDraw)};
}

void copy_plane(const std::uint8_t* from, std::int64_t height, std::int64_t width, const Move& m,
                float* to) {
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t row = std::clamp<std::int64_t>(y - m.down, 0, height - 1);
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t at = std::clamp<std::int64_t>(x - m.across, 0, width - 1);
      const std::int64_t column = m.flip ? width - 1 - at : at;
      to[y * width + x] = static_cast<float>(from[row * width + column]) / 127.5F - 1.0F;
    }
  }
}

}  // namespace

at::Tensor augmented_images(const LabelledImages& images, std::span<const std::size_t> which,
                            std::uint64_t seed, const AugmentOptions& options) {
  const auto n = static_cast<std::int64_t>(which.size());
  const std::int64_t plane = images.height * images.width;
  at::Tensor out = at::empty({n, images.channels, images.height, images.width}, at::kFloat);
  float* const to = out.data_ptr<float>();
  parallel_for(0, n, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::size_t image = which[static_cast<std::size_t>(i)];
      const Move move = move_of(image, seed, options);
      for (std::int64_t c = 0; c < images.channels; ++c) {
        const std::int64_t first = (static_cast<std::int64_t>(image) * images.channels + c) * plane;
        copy_plane(images.pixels.data() + first, images.height, images.width, move,
                   to + (i * images.channels + c) * plane);
      }
    }
  });
  return out;
}

at::Tensor labels_of(const LabelledImages& images, std::span<const std::size_t> which) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(which.size())}, at::kLong);
  std::int64_t* to = out.data_ptr<std::int64_t>();
  for (const std::size_t image : which) *to++ = images.labels[image];
  return out;
}

}  // namespace forerun
