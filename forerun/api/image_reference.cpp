#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "forerun/api/image_reference_impl.h"
#include "forerun/api/train_images.h"
#include "forerun/base/quote.h"
#include "forerun/evaluate.h"
#include "forerun/formats/png.h"
#include "forerun/models/classifier/classifier_file.h"
#include "forerun/train/classifier/classifier_objective.h"

namespace forerun {
namespace {

LabelledImages images_for(const Classifier& classifier, const std::string& data, ImageSplit split) {
  try {
    LabelledImages out = square_images(load_labelled_images(data, split), classifier.config.input);
    check_images(shape_of(classifier.config), out);
    return out;
  } catch (const UsageError& e) {
    throw UsageError(data + ": " + e.what());
  } catch (const std::invalid_argument& e) {
    throw UsageError(data + ": " + e.what());
  }
}

}  // namespace

Image load_image(const std::string& path) {
  Result<Image> out = load_png(path);
  if (!out) throw FormatError(out.error().message);
  return *std::move(out);
}

ImageReference ImageReference::load(const std::string& classifier, const std::string& data) {
  auto impl = std::make_shared<Impl>();
  impl->classifier = load_classifier(classifier);
  impl->digest = digest_of(impl->classifier);
  impl->test = images_for(impl->classifier, data, ImageSplit::kTest);
  impl->training = images_for(impl->classifier, data, ImageSplit::kTrain);
  return ImageReference(std::move(impl));
}

const std::vector<std::string>& ImageReference::classes() const noexcept {
  return impl_->test.classes;
}
std::int64_t ImageReference::side() const noexcept { return impl_->classifier.config.input; }
std::int64_t ImageReference::channels() const noexcept { return impl_->classifier.config.channels; }
std::int64_t ImageReference::images() const noexcept { return impl_->test.size(); }
const std::string& ImageReference::digest() const noexcept { return impl_->digest; }

ImageSet load_image_set(const std::string& folder, const ImageReference& reference) {
  const Result<LabelledImages> read = load_labelled_images(folder, ImageSplit::kTrain);
  if (!read) throw FormatError(read.error().message);
  const std::vector<std::string>& names = reference.classes();
  std::vector<std::int64_t> numbers;  // of the folder's classes
  for (const std::string& name : read->classes) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      throw UsageError(fmt::format("{}: there is no class {}; the data's are {}", folder,
                                   quote(name),
                                   printable(fmt::format("{}", fmt::join(names, ", ")))));
    }
    numbers.push_back(at - names.begin());
  }
  if (read->width != reference.side() || read->height != reference.side() ||
      read->channels != reference.channels()) {
    throw UsageError(
        fmt::format("{}: images of {} x {} with {} channels, the classifier reads {} x {} with {}",
                    folder, read->width, read->height, read->channels, reference.side(),
                    reference.side(), reference.channels()));
  }
  ImageSet out;
  const std::int64_t plane = read->width * read->height;
  for (std::int64_t i = 0; i < read->size(); ++i) {
    Image image{
        .width = read->width,
        .height = read->height,
        .channels = read->channels,
        .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(plane * read->channels))};
    const std::uint8_t* from = read->pixels.data() + i * plane * read->channels;
    for (std::int64_t c = 0; c < read->channels; ++c) {
      for (std::int64_t p = 0; p < plane; ++p) {
        image.pixels[static_cast<std::size_t>(p * read->channels + c)] = *from++;
      }
    }
    out.images.push_back(std::move(image));
    out.labels.push_back(
        numbers[static_cast<std::size_t>(read->labels[static_cast<std::size_t>(i)])]);
  }
  return out;
}

}  // namespace forerun
