#pragma once

#include <cstdint>

#include "forerun/formats/labelled_images.h"
#include "forerun/models/mar/mar.h"

namespace forerun {

/// Measures the squared error of the predicted x_0, held within the config's bounds, at the times
/// of 10, 25 and 50 sampling steps, with the tokens before each known. The same images and noise
/// at every call.
/// @param images  of the config's size; the first `count` at most are used
MarCalibration calibrate(const Mar& model, const LabelledImages& images, std::int64_t count = 64);

}  // namespace forerun
