#include "forerun/formats/internal/class_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <system_error>

#include "forerun/formats/internal/parse_file.h"
#include "forerun/formats/png.h"

namespace forerun::internal {
namespace {

namespace fs = std::filesystem;

// Left out in silence, such files would make a data set smaller than it looks.
constexpr std::array<std::string_view, 9> kOtherPictures{".jpg", ".jpeg", ".webp", ".bmp", ".gif",
                                                         ".tif", ".tiff", ".pgm",  ".ppm"};

std::string lower_case_extension(const std::string& name) {
  std::string out = fs::path(name).extension().string();
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));  // in the C locale: ASCII alone
  });
  return out;
}

Result<std::vector<fs::path>> pngs_of_class(const fs::path& folder) {
  const Result<Listing> listing = list_folder(folder);
  if (!listing) return listing.error();
  std::vector<fs::path> out;
  for (const std::string& name : listing->files) {
    const std::string extension = lower_case_extension(name);
    if (extension == ".png") out.push_back(folder / name);
    if (std::find(kOtherPictures.begin(), kOtherPictures.end(), extension) !=
        kOtherPictures.end()) {
      return error_in(folder / name, "pictures are read as PNG only; convert it to PNG");
    }
  }
  if (out.empty()) {
    return error_in(folder, "this class has no .png files; put its images there, or remove it");
  }
  return out;
}

/// Appends one image; the first one decides what the others must be.
std::optional<Error> append(LabelledImages& set, const Image& image, const fs::path& path,
                            const fs::path& first) {
  if (set.labels.empty()) {
    set.width = image.width;
    set.height = image.height;
    set.channels = image.channels;
  }
  if (image.width != set.width || image.height != set.height || image.channels != set.channels) {
    return error_in(
        path, fmt::format("is {} x {} with {} channels, but {} is {} x {} with {}; make all images "
                          "equal in size and channels",
                          image.width, image.height, image.channels, first.string(), set.width,
                          set.height, set.channels));
  }
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::size_t c = 0; c < channels; ++c) {  // from [height, width, channels], planes
    for (std::size_t at = c; at < image.pixels.size(); at += channels) {
      set.pixels.push_back(image.pixels[at]);
    }
  }
  return std::nullopt;
}

}  // namespace

Result<Listing> list_folder(const fs::path& folder) {
  Listing out;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code ignored;  // what cannot be looked at is no folder; opening it gives the reason
    (at->is_directory(ignored) ? out.folders : out.files).push_back(name);
  }
  if (failed) {
    return error_in(
        folder, fmt::format("cannot be read as a folder ({}); check the path", failed.message()));
  }
  std::sort(out.folders.begin(), out.folders.end());
  std::sort(out.files.begin(), out.files.end());
  return out;
}

Result<LabelledImages> load_class_folders(const fs::path& folder,
                                          const std::vector<std::string>& classes) {
  LabelledImages out;
  out.classes = classes;
  fs::path first;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const Result<std::vector<fs::path>> paths = pngs_of_class(folder / classes[label]);
    if (!paths) return paths.error();
    for (const fs::path& path : *paths) {
      const Result<Image> image = load_png(path);
      if (!image) return image.error();
      if (first.empty()) first = path;
      if (std::optional<Error> differs = append(out, *image, path, first)) {
        return *std::move(differs);
      }
      out.labels.push_back(static_cast<std::int32_t>(label));
    }
  }
  return out;
}

}  // namespace forerun::internal
