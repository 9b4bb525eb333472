#include "forerun/api/train_images.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "forerun/forerun.h"

namespace forerun {

LabelledImages square_images(Result<LabelledImages> read, std::int64_t side) {
  if (!read) throw FormatError(read.error().message);
  LabelledImages images = *std::move(read);
  if (images.width == side && images.height == side) return images;
  if (images.width > side || images.height > side) {
    throw UsageError(fmt::format("images of {} x {} are larger than a side of {}", images.width,
                                 images.height, side));
  }
  return padded(images, side, side, images.pixels.front());
}

LabelledImages held_out_images(const std::string& data, std::int64_t side) {
  const Result<bool> there = has_test_images(data);
  if (!there) throw FormatError(there.error().message);
  if (!*there) return {};
  return square_images(load_labelled_images(data, ImageSplit::kTest), side);
}

TrainReport with_ranks(const TrainOptions& training,
                       const std::function<TrainReport(Ranks&)>& train) {
  Ranks ranks = Ranks::join();
  set_threads(training.threads);
  try {
    return train(ranks);
  } catch (const UsageError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

}  // namespace forerun
