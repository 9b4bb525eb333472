#include "forerun/image_decoder.h"

#include <c10/core/InferenceMode.h>

#include "forerun/api/pictures.h"

namespace forerun {
namespace {

template <class AnyModel>
std::shared_ptr<const Pictures> pictures_of(const AnyModel& model, const std::string& vae) {
  return std::make_shared<const Pictures>(PictureShape{model.channels(), model.side()},
                                          model.path(), vae, true);
}

}  // namespace

ImageDecoder::ImageDecoder(const DiffusionModel& model, const std::string& vae)
    : pictures_(pictures_of(model, vae)) {}
ImageDecoder::ImageDecoder(const TokenImageModel& model, const std::string& vae)
    : pictures_(pictures_of(model, vae)) {}

std::int64_t ImageDecoder::side() const noexcept { return pictures_->side(); }

Image ImageDecoder::image(std::span<const float> values) const {
  const c10::InferenceMode no_autograd;
  return pictures_->image(values);
}

}  // namespace forerun
