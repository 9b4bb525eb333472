#include <algorithm>
#include <memory>
#include <utility>

#include "forerun/api/train_folder.h"
#include "forerun/api/train_images.h"
#include "forerun/api/train_on_ranks.h"
#include "forerun/train.h"
#include "forerun/train/classifier/classifier_objective.h"

namespace forerun {
namespace {

void check(const ClassifierTraining& o) {
  if (!(o.smoothing >= 0.0 && o.smoothing < 1.0)) {
    throw UsageError("label smoothing is a share: 0 or more, below 1");
  }
  if (o.shift < 0 || o.shift > 256) throw UsageError("shift: 0 to 256 pixels");
  if (o.side < 0) throw UsageError("side: 0 (the images' own) or more pixels");
}

std::unique_ptr<Objective> objective_of(const std::string& data, const ClassifierTraining& o,
                                        const TrainOptions& training) {
  check(o);
  expect_own_folder(training.out, "classifier");
  Result<LabelledImages> read = load_labelled_images(data, ImageSplit::kTrain);
  if (!read) throw FormatError(read.error().message);
  const std::int64_t side = o.side != 0 ? o.side : std::max(read->width, read->height);
  const ClassifierConfig config{.input = side,
                                .channels = read->channels,
                                .classes = static_cast<std::int64_t>(read->classes.size()),
                                .width = o.width,
                                .features = o.features};
  auto model = std::make_shared<Classifier>(random_classifier(config, training.seed));
  return std::make_unique<ClassifierObjective>(
      std::move(model), square_images(std::move(read), side), held_out_images(data, side), o);
}

}  // namespace

TrainReport train_classifier(const std::string& data, const ClassifierTraining& options,
                             const TrainOptions& training, const TrainListener& listener) {
  return train_on_ranks(training, listener,
                        [&](const Note&) { return objective_of(data, options, training); });
}

}  // namespace forerun
