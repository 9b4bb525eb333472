#include "forerun/image_decoder.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "forerun/api/pictures.h"

namespace forerun {

ImageDecoder::ImageDecoder(const ImageModel& model, const std::string& vae)
    : pictures_(std::make_shared<const Pictures>(PictureShape{model.channels(), model.side()},
                                                 model.path(), vae, true)) {}

std::int64_t ImageDecoder::side() const noexcept { return pictures_->side(); }

Image ImageDecoder::image(std::span<const float> values) const {
  if (values.size() != pictures_->values()) {
    throw UsageError(fmt::format("{} values, where an image of the model has {}", values.size(),
                                 pictures_->values()));
  }
  const c10::InferenceMode no_autograd;
  return pictures_->image(values);
}

}  // namespace forerun
