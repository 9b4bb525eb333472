#include "forerun/train/images/image_batch.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "forerun/base/hash.h"
#include "forerun/core/rng_key.h"
#include "forerun/models/ddpm_schedule.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

// Changes that the uniforms of an image select.
enum : std::uint32_t { kTime, kLabel, kFlip };

// One image, rows flipped on request, from bytes to [-1, 1].
void copy_image(const std::uint8_t* from, std::int64_t rows, std::int64_t side, bool flip,
                float* to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t x = 0; x < side; ++x) {
      const std::int64_t source = flip ? side - 1 - x : x;
      to[r * side + x] = static_cast<float>(from[r * side + source]) / 127.5F - 1.0F;
    }
  }
}

std::int64_t time_of(double uniform, const NoiseOptions& o) {
  constexpr std::int64_t kLate = 100;
  const std::int64_t all = DdpmSchedule::kTrained - o.first_time, some = std::min(kLate, all);
  const bool late = uniform < o.late;
  const double u = late ? uniform / o.late : (uniform - o.late) / (1.0 - o.late);
  return o.first_time + static_cast<std::int64_t>(u * static_cast<double>(late ? some : all));
}

}  // namespace

NoisyImages noisy_images(const LabelledImages& images, std::span<const std::size_t> which,
                         std::uint64_t seed, const NoiseOptions& options) {
  const auto n = static_cast<std::int64_t>(which.size());
  const std::int64_t side = images.width, rows = images.channels * images.height;
  NoisyImages out;
  out.clean = at::empty({n, images.channels, images.height, side}, at::kFloat);
  out.noise = at::empty_like(out.clean);
  out.noisy = at::empty_like(out.clean);
  out.time = at::empty({n}, at::kLong);
  out.label = at::empty({n}, at::kLong);
  const std::int64_t values = rows * side;
  parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::size_t image = which[static_cast<std::size_t>(i)];
      const RngKey key{.seed = seed, .request = static_cast<std::uint32_t>(image)};
      const auto uniform = [&](std::uint32_t what) { return key.uniform(Purpose::kTarget, what); };
      float *const clean = out.clean.data_ptr<float>() + i * values,
                   *const noise = out.noise.data_ptr<float>() + i * values,
                   *const noisy = out.noisy.data_ptr<float>() + i * values;
      copy_image(images.pixels.data() + static_cast<std::int64_t>(image) * values, rows, side,
                 options.flip && uniform(kFlip) < 0.5, clean);
      key.fill_normal(Purpose::kDraft, {noise, static_cast<std::size_t>(values)});
      const std::int64_t time = time_of(uniform(kTime), options);
      const double bar = ddpm_alpha_bar(time);
      const auto signal = static_cast<float>(std::sqrt(bar)),
                 spread = static_cast<float>(std::sqrt(1.0 - bar));
      for (std::int64_t j = 0; j < values; ++j) noisy[j] = signal * clean[j] + spread * noise[j];
      out.time.data_ptr<std::int64_t>()[i] = time;
      out.label.data_ptr<std::int64_t>()[i] = uniform(kLabel) < options.drop
                                                  ? static_cast<std::int64_t>(images.classes.size())
                                                  : images.labels[image];
    }
  });
  return out;
}

void check_images(const ImageShape& s, const ImageShape& images) {
  if (images.side == s.side && images.channels == s.channels && images.classes == s.classes) return;
  throw std::invalid_argument(fmt::format(
      "images of {} x {} with {} channels in {} classes, for a {} of {} x {} with {} in {}",
      images.side, images.side, images.channels, images.classes, s.network, s.side, s.side,
      s.channels, s.classes));
}

void check_images(const ImageShape& s, const LabelledImages& images) {
  if (images.size() == 0) return;
  if (images.width != images.height) {
    throw std::invalid_argument(
        fmt::format("images of {} x {} are not square", images.width, images.height));
  }
  const auto classes = static_cast<std::int64_t>(images.classes.size());
  check_images(s, ImageShape{images.width, images.channels, classes});
}

void check_images(const ImageShape& shape, const LabelledImages& training,
                  const LabelledImages& held_out) {
  check_images(shape, training);
  check_images(shape, held_out);
  if (training.size() == 0) throw std::invalid_argument("there is no image to learn from");
}

std::string digest_of(const LabelledImages& images) {
  return fmt::format("{} images {}", images.size(),
                     Hash().add_all(images.pixels).add_all(images.labels).text());
}

}  // namespace forerun
