#include "forerun/api/train_images.h"

#include <fmt/format.h>

#include <utility>

#include "forerun/common.h"

namespace forerun {

LabelledImages square_images(Result<LabelledImages> read, std::int64_t side) {
  if (!read) throw FormatError(read.error().message);
  LabelledImages images = *std::move(read);
  if (images.width == side && images.height == side) return images;
  if (images.width > side || images.height > side) {
    throw UsageError(fmt::format("images of {} x {} are larger than a side of {}", images.width,
                                 images.height, side));
  }
  return padded(images, side, side, images.pixels.front());
}

LabelledImages held_out_images(const std::string& data, std::int64_t side) {
  const Result<bool> there = has_test_images(data);
  if (!there) throw FormatError(there.error().message);
  if (!*there) return {};
  return square_images(load_labelled_images(data, ImageSplit::kTest), side);
}

}  // namespace forerun
