#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "forerun/formats/labelled_images.h"
#include "forerun/train/options.h"
#include "forerun/train/ranks.h"

namespace forerun {

/// The images that were read, padded to `side` with their first pixel's value.
/// @throws FormatError  they could not be read
/// @throws UsageError   they are larger
LabelledImages square_images(Result<LabelledImages> read, std::int64_t side);

/// The test images of a folder, likewise; none where it has no test split.
/// @throws FormatError  it has one that cannot be read
/// @throws UsageError   as square_images
LabelledImages held_out_images(const std::string& data, std::int64_t side);

/// Runs `train` with the ranks and threads of the run.
/// @throws UsageError  what lower layers say of options and data by std::invalid_argument
TrainReport with_ranks(const TrainOptions& training,
                       const std::function<TrainReport(Ranks&)>& train);

}  // namespace forerun
