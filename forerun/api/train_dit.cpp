#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/image_impl.h"
#include "forerun/api/train_folder.h"
#include "forerun/api/train_images.h"
#include "forerun/api/train_on_ranks.h"
#include "forerun/formats/labelled_images.h"
#include "forerun/image.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/models/dit/init_dit.h"
#include "forerun/train.h"
#include "forerun/train/dit/dit_objective.h"
#include "forerun/train/free/free_objective.h"

namespace forerun {
namespace {

// The images' own side, up to a multiple of the patch.
std::int64_t side_of(const LabelledImages& images, const DitTraining& o) {
  if (o.side != 0) return o.side;
  const std::int64_t most = std::max(images.width, images.height);
  return (most + o.patch - 1) / o.patch * o.patch;
}

// What was loaded for inference cannot take part in training.
std::shared_ptr<const Dit> copy_of(const Dit& model) {
  auto out = std::make_shared<Dit>(model);
  for (const ModelWeight& w : weights(*out)) *w.tensor = w.tensor->clone();
  out->positions = out->positions.clone();
  return out;
}

DitConfig config_of(const DitTraining& o, const LabelledImages& images, std::int64_t side) {
  DitConfig c;
  c.depth = o.depth;
  c.hidden = o.hidden;
  c.heads = o.heads;
  c.patch = o.patch;
  c.input = side;
  c.channels = images.channels;
  c.classes = static_cast<std::int64_t>(images.classes.size());
  c.mlp = 4 * o.hidden;
  check_dit_config(c);
  constexpr std::int64_t kMostTokens = 4096;  // attention keeps their square for every image
  if (c.tokens() > kMostTokens) {
    throw UsageError(fmt::format(
        "{} patches an image: at most {} can be trained; choose a larger patch, or smaller images",
        c.tokens(), kMostTokens));
  }
  return c;
}

std::unique_ptr<Objective> objective_of(const std::string& data, const DitTraining& options,
                                        const TrainOptions& training) {
  if (!(options.drop >= 0.0 && options.drop <= 1.0)) throw UsageError("drop is a share: 0 to 1");
  if (options.patch < 1) throw UsageError("patch: 1 pixel or more");
  expect_own_folder(training.out, "dit", options.init);
  Result<LabelledImages> read = load_labelled_images(data, ImageSplit::kTrain);
  if (!read) throw FormatError(read.error().message);
  Dit model;
  std::int64_t side = 0;
  if (options.init.empty()) {
    side = side_of(*read, options);
    model = random_dit(config_of(options, *read, side), training.seed);
  } else {
    model = load_dit(options.init);
    side = model.config.input;
  }
  return std::make_unique<DitObjective>(std::make_shared<Dit>(std::move(model)),
                                        square_images(std::move(read), side),
                                        held_out_images(data, side), options);
}

std::unique_ptr<Objective> objective_of(const DiffusionModel& target, const std::string& data,
                                        const FreeTraining& options, const TrainOptions& training) {
  if (!(options.drop >= 0.0 && options.drop <= 1.0)) throw UsageError("drop is a share: 0 to 1");
  if (!(options.late >= 0.0 && options.late <= 1.0)) throw UsageError("late is a share: 0 to 1");
  if (!std::isfinite(options.guidance)) throw UsageError("guidance is a number, 1 for none");
  if (options.unroll < 1 || options.unroll > 64) throw UsageError("unroll: 1 to 64 steps");
  if (!(options.feature >= 0.0 && options.smooth >= 0.0 && options.overlap >= 0.0)) {
    throw UsageError("the parts of the loss count 0 or more");
  }
  expect_own_folder(training.out, "free", options.init);
  const std::shared_ptr<const Dit> dit = copy_of(*impl_of(target).dit);
  FreeNetwork network = options.init.empty() ? free_from(*dit, training.seed, options.frozen_image)
                                             : load_free(options.init, *dit);
  std::shared_ptr<const Bf16Dit> packed;
  if (training.bf16 && Bf16Stack::fits(dit->config)) packed = std::make_shared<Bf16Dit>(*dit);
  return std::make_unique<FreeObjective>(
      dit, std::make_shared<FreeNetwork>(std::move(network)),
      square_images(load_labelled_images(data, ImageSplit::kTrain), target.side()),
      held_out_images(data, target.side()), options, std::move(packed));
}

}  // namespace

TrainReport train_free(const std::function<DiffusionModel()>& target, const std::string& data,
                       const FreeTraining& options, const TrainOptions& training,
                       const TrainListener& listener) {
  return train_on_ranks(training, listener, [&](const Note&) {
    return objective_of(target(), data, options, training);
  });
}

TrainReport train_free(const DiffusionModel& target, const std::string& data,
                       const FreeTraining& options, const TrainOptions& training,
                       const TrainListener& listener) {
  return train_free([&] { return target; }, data, options, training, listener);
}

TrainReport train_dit(const std::string& data, const DitTraining& options,
                      const TrainOptions& training, const TrainListener& listener) {
  return train_on_ranks(training, listener,
                        [&](const Note&) { return objective_of(data, options, training); });
}

}  // namespace forerun
