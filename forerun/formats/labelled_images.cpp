#include "forerun/formats/labelled_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/idx.h"
#include "forerun/formats/internal/class_folders.h"
#include "forerun/formats/internal/image_limits.h"
#include "forerun/formats/internal/parse_file.h"

namespace forerun {
namespace {

using internal::error_in;
using internal::Listing;
namespace fs = std::filesystem;

constexpr int kDigits = 10;

/// The MNIST names of a split, without the .gz they may have.
struct MnistNames {
  std::string images, labels;
};

MnistNames mnist_names(ImageSplit split) {
  const std::string start = split == ImageSplit::kTrain ? "train" : "t10k";
  return {start + "-images-idx3-ubyte", start + "-labels-idx1-ubyte"};
}

std::optional<fs::path> find_idx(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* ending : {"", ".gz"}) {
    fs::path path = folder / (name + ending);
    if (fs::exists(path, ignored)) return path;
  }
  return std::nullopt;
}

Result<LabelledImages> load_mnist(const fs::path& folder, ImageSplit split) {
  const MnistNames names = mnist_names(split);
  const auto images = find_idx(folder, names.images);
  const auto labels = find_idx(folder, names.labels);
  if (!images || !labels) {
    return error_in(folder, fmt::format("has IDX files, but neither {0} nor {0}.gz; download it",
                                        images ? names.labels : names.images));
  }
  return load_labelled_idx(*images, *labels);
}

/// Whether sub-folder `name` is a split: it holds classes. A class of that name holds images.
Result<bool> is_split(const fs::path& folder, const Listing& listing, const char* name) {
  if (!std::binary_search(listing.folders.begin(), listing.folders.end(), name)) return false;
  const Result<Listing> inside = internal::list_folder(folder / name);
  if (!inside) return inside.error();
  return !inside->folders.empty();
}

/// The labels of two splits mean the same only if their classes are the same.
Result<LabelledImages> load_split(const fs::path& folder, ImageSplit split, bool has_other) {
  const char* name = split == ImageSplit::kTrain ? "train" : "test";
  const char* other = split == ImageSplit::kTrain ? "test" : "train";
  const Result<Listing> mine = internal::list_folder(folder / name);
  if (!mine) return mine.error();
  if (has_other) {
    const Result<Listing> theirs = internal::list_folder(folder / other);
    if (!theirs) return theirs.error();
    std::vector<std::string> lone;
    std::set_symmetric_difference(mine->folders.begin(), mine->folders.end(),
                                  theirs->folders.begin(), theirs->folders.end(),
                                  std::back_inserter(lone));
    if (!lone.empty()) {
      return error_in(folder, fmt::format("class {} is in one of train and test only; both need "
                                          "the same classes",
                                          quote(lone.front())));
    }
  }
  return internal::load_class_folders(folder / name, mine->folders);
}

Result<LabelledImages> load_pngs(const fs::path& folder, ImageSplit split) {
  const Result<Listing> listing = internal::list_folder(folder);
  if (!listing) return listing.error();
  if (listing->folders.empty()) {
    return error_in(folder,
                    "holds no data set; expected train-images-idx3-ubyte[.gz] and "
                    "train-labels-idx1-ubyte[.gz] as MNIST has them, or one sub-folder of .png "
                    "files for each class");
  }
  const Result<bool> train = is_split(folder, *listing, "train");
  if (!train) return train.error();
  const Result<bool> test = is_split(folder, *listing, "test");
  if (!test) return test.error();
  const bool wants_train = split == ImageSplit::kTrain;
  if (wants_train ? *train : *test) return load_split(folder, split, wants_train ? *test : *train);
  if (*train || *test || !wants_train) {
    return error_in(folder,
                    fmt::format("has no {0} images; expected {0}/CLASS/*.png beside "
                                "{1}/CLASS/*.png",
                                wants_train ? "train" : "test", wants_train ? "test" : "train"));
  }
  return internal::load_class_folders(folder, listing->folders);
}

bool has_any_idx(const fs::path& folder, ImageSplit split) {
  const MnistNames names = mnist_names(split);
  return find_idx(folder, names.images) || find_idx(folder, names.labels);
}

bool is_mnist(const fs::path& folder) {
  return has_any_idx(folder, ImageSplit::kTrain) || has_any_idx(folder, ImageSplit::kTest);
}

using Shape = std::vector<std::int64_t>;

std::string shape_text(const Shape& shape) { return fmt::format("{}", fmt::join(shape, " x ")); }

}  // namespace

Result<LabelledImages> load_labelled_idx(const fs::path& images_path, const fs::path& labels_path) {
  // The headers first: what they deny is not unpacked.
  const Result<Shape> images_shape = load_idx_shape(images_path);
  if (!images_shape) return images_shape.error();
  const Result<Shape> labels_shape = load_idx_shape(labels_path);
  if (!labels_shape) return labels_shape.error();
  const Shape& shape = *images_shape;
  if (shape.size() != 3 || std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return error_in(images_path, fmt::format("holds an array of {}; images are count x height x "
                                             "width, none of them 0: give a file of images",
                                             shape_text(shape)));
  }
  if (labels_shape->size() != 1) {
    return error_in(labels_path, fmt::format("holds an array of {}; labels are one row: give a "
                                             "file of labels",
                                             shape_text(*labels_shape)));
  }
  if (labels_shape->front() != shape[0]) {
    return error_in(labels_path,
                    fmt::format("{} labels for the {} images of {}; give two files "
                                "that belong together",
                                labels_shape->front(), shape[0], printable(images_path.string())));
  }
  const Result<IdxBytes> labels = load_idx(labels_path);
  if (!labels) return labels.error();
  const auto wrong = std::find_if(labels->values.begin(), labels->values.end(),
                                  [](std::uint8_t label) { return label >= kDigits; });
  if (wrong != labels->values.end()) {
    return error_in(labels_path, fmt::format("label {} of image {} is out of range; labels are 0 "
                                             "to {}: give a file of labels",
                                             *wrong, wrong - labels->values.begin(), kDigits - 1));
  }
  Result<IdxBytes> images = load_idx(images_path);
  if (!images) return images.error();
  LabelledImages out{.width = shape[2], .height = shape[1], .channels = 1};
  out.pixels = (*std::move(images)).values;
  out.labels.assign(labels->values.begin(), labels->values.end());
  for (int digit = 0; digit < kDigits; ++digit) out.classes.push_back(std::to_string(digit));
  return out;
}

Result<LabelledImages> load_labelled_images(const fs::path& folder, ImageSplit split) {
  return is_mnist(folder) ? load_mnist(folder, split) : load_pngs(folder, split);
}

Result<bool> has_test_images(const fs::path& folder) {
  if (is_mnist(folder)) return has_any_idx(folder, ImageSplit::kTest);
  const Result<Listing> listing = internal::list_folder(folder);
  if (!listing) return listing.error();
  return is_split(folder, *listing, "test");
}

LabelledImages padded(const LabelledImages& images, std::int64_t width, std::int64_t height,
                      std::uint8_t fill) {
  if (width < images.width || height < images.height || width > internal::kMaxImageSide ||
      height > internal::kMaxImageSide) {
    throw std::invalid_argument(
        fmt::format("padded: {} x {} pixels around images of {} x {}; give at least their size and "
                    "at most {} a side",
                    width, height, images.width, images.height, internal::kMaxImageSide));
  }
  LabelledImages out{.width = width,
                     .height = height,
                     .channels = images.channels,
                     .pixels = {},
                     .labels = images.labels,
                     .classes = images.classes};
  const std::int64_t planes = images.size() * images.channels;
  out.pixels.assign(static_cast<std::size_t>(planes * width * height), fill);
  const std::int64_t left = (width - images.width) / 2, top = (height - images.height) / 2;
  const std::uint8_t* from = images.pixels.data();
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    std::uint8_t* to = out.pixels.data() + (plane * height + top) * width + left;
    for (std::int64_t y = 0; y < images.height; ++y, from += images.width, to += width) {
      std::copy_n(from, images.width, to);
    }
  }
  return out;
}

}  // namespace forerun
