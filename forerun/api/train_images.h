#pragma once

#include <cstdint>
#include <string>

#include "forerun/formats/labelled_images.h"

namespace forerun {

/// The images that were read, padded to `side` with their first pixel's value.
/// @throws FormatError  they could not be read
/// @throws UsageError   they are larger
LabelledImages square_images(Result<LabelledImages> read, std::int64_t side);

/// The test images of a folder, likewise; none where it has no test split.
/// @throws FormatError  it has one that cannot be read
/// @throws UsageError   as square_images
LabelledImages held_out_images(const std::string& data, std::int64_t side);

}  // namespace forerun
