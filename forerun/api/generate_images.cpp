#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "forerun/api/image_sampling.h"
#include "forerun/api/pictures.h"

namespace forerun {

void check_labels(const ImageModel& model, std::span<const std::int64_t> labels,
                  const CommonImageOptions& o) {
  constexpr std::size_t kMostImages = 1U << 20;
  constexpr double kMostGuidance = 1000.0;
  if (labels.empty() || labels.size() > kMostImages) {
    throw UsageError(
        fmt::format("{} images: 1 to {} can be asked for", labels.size(), kMostImages));
  }
  for (const std::int64_t label : labels) {
    if (label >= 0 && label < model.classes()) continue;
    throw UsageError(fmt::format("class {}: the model has 0 to {}", label, model.classes() - 1));
  }
  if (o.first > std::numeric_limits<std::uint32_t>::max() - labels.size()) {
    throw UsageError("the places of images go to 2^32");
  }
  if (o.batch_size < 1) throw UsageError("samples: 1 or more images at a time");
  if (!(std::abs(o.guidance) <= kMostGuidance)) {
    throw UsageError(fmt::format("guidance {}: -1000 to 1000; 1 is none", o.guidance));
  }
}

struct ImageGeneration::Impl {
  virtual ~Impl() = default;
  virtual std::uint64_t outputs() const noexcept = 0;
  virtual bool advance(std::uint64_t outputs) = 0;
  virtual ImageRun finish() = 0;
};

namespace {

template <class Model>
class GenerationOf final : public ImageGeneration::Impl {
 public:
  using Options = typename Model::Options;
  GenerationOf(const Model& model, const ImageDrafter& drafter,
               std::span<const std::int64_t> labels, const Options& options,
               const ImageListener& listener)
      : model_(model),
        options_((check_images(model, drafter, labels, options), options)),
        listener_(listener),
        pictures_({model.channels(), model.side()}, model.path(), options.vae, options.pictures),
        traced_(options.trace && options.pictures),
        sampling_(model, drafter, labels, options,
                  {.keep = kTokens,
                   .previews = traced_ ? kPreviews : 0,
                   .each = [this](const auto& round) { observe(round); },
                   .on_event = [this](const Event& event) { receive(event); }}) {
    out_.exact = sampling_.runner().exact();
  }

  std::uint64_t outputs() const noexcept override { return sampling_.statistics().outputs; }

  bool advance(std::uint64_t outputs) override {
    if (!sampling_.run(listener_, outputs)) out_.interrupted = true;
    return !out_.interrupted && sampling_.runner().busy();
  }

  ImageRun finish() override {
    ImageRun out = std::move(out_);
    complete(sampling_.runner(), out);
    out.statistics = sampling_.statistics();
    out.seconds = sampling_.seconds();
    if (kTokens && traced_ && images_.contains(0)) {
      const auto whole = static_cast<std::uint32_t>(sampling_.runner().outputs());
      out.trace.previews.push_back({whole, images_[0]});
    }
    for (auto& [id, image] : finished_) {
      out.image_seconds.push_back(image.statistics.seconds.total());
      out.values.push_back(std::move(image.values));
    }
    for (auto& [id, image] : images_) out.images.push_back(std::move(image));
    return out;
  }

 private:
  // What a run tells of tokens is how they came about.
  static constexpr bool kTokens = std::is_same_v<Model, TokenImageModel>;
  static constexpr std::size_t kPreviews = 15;

  void observe(const typename ImageSampling<Model>::Round& round) {
    record(round, sampling_.runner(), options_, traced_, out_);
  }

  void receive(const Event& event) {
    if (const auto* seen = std::get_if<ImagePreview>(&event)) {
      out_.trace.previews.push_back(
          {static_cast<std::uint32_t>(seen->step), pictures_.image(seen->values)});
    } else if (const auto* done = std::get_if<ImageFinished>(&event)) {
      finished_.emplace(done->id, *done);
      if (!options_.pictures) return;
      const Image& image = images_.emplace(done->id, pictures_.image(done->values)).first->second;
      if (listener_.on_image) {
        listener_.on_image(options_.first + static_cast<std::uint32_t>(done->id), image);
      }
    }
  }

  Model model_;
  Options options_;
  ImageListener listener_;
  Pictures pictures_;
  bool traced_;
  ImageRun out_;
  std::map<RequestId, ImageFinished> finished_;
  std::map<RequestId, Image> images_;
  ImageSampling<Model> sampling_;
};

}  // namespace

ImageGeneration::ImageGeneration(const DiffusionModel& model, const ImageDrafter& drafter,
                                 std::span<const std::int64_t> labels, const ImageOptions& options,
                                 const ImageListener& listener)
    : impl_(std::make_unique<GenerationOf<DiffusionModel>>(model, drafter, labels, options,
                                                           listener)) {}
ImageGeneration::ImageGeneration(const TokenImageModel& model, const ImageDrafter& drafter,
                                 std::span<const std::int64_t> labels,
                                 const TokenImageOptions& options, const ImageListener& listener)
    : impl_(std::make_unique<GenerationOf<TokenImageModel>>(model, drafter, labels, options,
                                                            listener)) {}
ImageGeneration::~ImageGeneration() = default;
ImageGeneration::ImageGeneration(ImageGeneration&&) noexcept = default;
ImageGeneration& ImageGeneration::operator=(ImageGeneration&&) noexcept = default;

std::uint64_t ImageGeneration::outputs() const noexcept { return impl_->outputs(); }
bool ImageGeneration::advance(std::uint64_t outputs) { return impl_->advance(outputs); }
ImageRun ImageGeneration::finish() { return impl_->finish(); }

namespace {

ImageRun all_of(ImageGeneration images) {
  images.advance(UINT64_MAX);
  return images.finish();
}

}  // namespace

ImageRun generate_images(const DiffusionModel& model, const ImageDrafter& drafter,
                         std::span<const std::int64_t> labels, const ImageOptions& options,
                         const ImageListener& listener) {
  return all_of({model, drafter, labels, options, listener});
}

ImageRun generate_images(const TokenImageModel& model, const ImageDrafter& drafter,
                         std::span<const std::int64_t> labels, const TokenImageOptions& options,
                         const ImageListener& listener) {
  return all_of({model, drafter, labels, options, listener});
}

}  // namespace forerun
