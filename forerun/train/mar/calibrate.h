#pragma once

#include <cstdint>

#include "forerun/models/mar/mar.h"
#include "forerun/train/mar/mar_images.h"

namespace forerun {

/// Measures the squared error of the predicted x_0, held within the config's bounds, at the times
/// of 10, 25 and 50 sampling steps, with the tokens before each known, or some (MarBatch). The same
/// images and noise at every call.
/// @param images  of the config's size; the first `count` at most are used
MarCalibration calibrate(const Mar& model, const MarImages& images, std::int64_t count = 64);

}  // namespace forerun
