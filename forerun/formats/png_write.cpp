#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "forerun/base/atomic_file.h"
#include "forerun/formats/internal/image_limits.h"
#include "forerun/formats/png.h"

namespace forerun {
namespace {

void check(const Image& image, const char* who) {
  if (!internal::fits_limits(image.width, image.height)) {
    throw std::invalid_argument(
        fmt::format("{}: {} x {} pixels; give 1 to {} a side and at most {} in all", who,
                    image.width, image.height, internal::kMaxImageSide, internal::kMaxImagePixels));
  }
  if (image.channels != 1 && image.channels != 3) {
    throw std::invalid_argument(
        fmt::format("{}: {} channels; give 1 (grey) or 3 (colour)", who, image.channels));
  }
  const std::int64_t samples = image.width * image.height * image.channels;
  if (std::cmp_not_equal(image.pixels.size(), samples)) {
    throw std::invalid_argument(fmt::format("{}: {} samples for {} x {} x {}; give {}", who,
                                            image.pixels.size(), image.height, image.width,
                                            image.channels, samples));
  }
}

}  // namespace

std::string encode_png(const Image& image) {
  check(image, "encode_png");
  // libpng's simplified interface, as it returns where the other one leaves by longjmp.
  png_image out{};
  out.version = PNG_IMAGE_VERSION;
  out.width = static_cast<png_uint_32>(image.width);
  out.height = static_cast<png_uint_32>(image.height);
  out.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(out);
  std::string file(size, '\0');
  if (png_image_write_to_memory(&out, file.data(), &size, 0, image.pixels.data(), 0, nullptr) ==
      0) {
    throw std::runtime_error(fmt::format("encode_png: {}", out.message));
  }
  file.resize(size);
  return file;
}

void write_png(const std::filesystem::path& path, const Image& image) {
  AtomicFile(path).commit(encode_png(image));
}

Image tile(std::span<const Image> images, std::int64_t columns, std::int64_t gap) {
  if (images.empty() || columns < 1 || gap < 0 || gap > internal::kMaxImageSide) {
    throw std::invalid_argument(
        fmt::format("tile: {} images, {} columns, a gap of {}; give at least 1, 1 and 0",
                    images.size(), columns, gap));
  }
  const Image& first = images.front();
  for (const Image& image : images) {
    check(image, "tile");
    if (image.width != first.width || image.height != first.height ||
        image.channels != first.channels) {
      throw std::invalid_argument(fmt::format(
          "tile: an image of {} x {} x {} beside one of {} x {} x {}; make them equal",
          image.height, image.width, image.channels, first.height, first.width, first.channels));
    }
  }
  const auto count = static_cast<std::int64_t>(images.size());
  columns = std::min(columns, count);
  const std::int64_t rows = (count + columns - 1) / columns;
  const std::int64_t step_x = first.width + gap, step_y = first.height + gap;
  Image out{.width = columns * step_x - gap,
            .height = rows * step_y - gap,
            .channels = first.channels,
            .pixels = {}};
  if (!internal::fits_limits(out.width, out.height)) {
    throw std::invalid_argument(fmt::format(
        "tile: a grid of {} x {} pixels is too large; give fewer images", out.width, out.height));
  }
  out.pixels.assign(static_cast<std::size_t>(out.width * out.height * out.channels), 255);
  const std::int64_t row = first.width * first.channels;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t left = i % columns * step_x, top = i / columns * step_y;
    for (std::int64_t y = 0; y < first.height; ++y) {
      const auto* from = images[static_cast<std::size_t>(i)].pixels.data() + y * row;
      std::copy_n(from, row, out.pixels.data() + ((top + y) * out.width + left) * out.channels);
    }
  }
  return out;
}

}  // namespace forerun
