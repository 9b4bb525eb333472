#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "forerun/api/pictures.h"
#include "forerun/api/train_folder.h"
#include "forerun/api/train_images.h"
#include "forerun/api/train_on_ranks.h"
#include "forerun/formats/labelled_images.h"
#include "forerun/models/mar/init_mar.h"
#include "forerun/models/mar/mar_file.h"
#include "forerun/models/vae/vae.h"
#include "forerun/train.h"
#include "forerun/train/mar/mar_objective.h"

namespace forerun {
namespace {

constexpr double kBounds = 4.0;  // x_0 beyond the pixels, in spreads of the added noise

void check_shares(double drop, std::int64_t draws) {
  if (!(drop >= 0.0 && drop <= 1.0)) throw UsageError("drop is a share: 0 to 1");
  if (draws < 1 || draws > 64) throw UsageError("draws: 1 to 64 of a token");
}

// The images of one split as the network's data.
MarImages data_of(LabelledImages images, const std::optional<VaeEncoder>& vae, bool flips,
                  const Note& note) {
  if (!vae || images.size() == 0) return images;
  note(fmt::format("encoding {} images of {} x {}", images.size(), images.width, images.height));
  return {images, *vae, flips};
}

std::optional<VaeEncoder> encoder_of(const std::string& folder) {
  if (folder.empty()) return std::nullopt;
  return load_vae_encoder(folder);
}

MarConfig config_of(const MarTraining& o, const MarImages& images) {
  const ImageShape shape = images.shape("data");
  MarConfig c;
  c.side = shape.side;
  c.channels = shape.channels;
  c.patch = o.patch;
  c.classes = shape.classes;
  c.hidden = o.hidden;
  c.heads = o.heads;
  c.mlp = 4 * o.hidden;
  c.depth = o.depth;
  c.head_width = o.head_width;
  c.head_blocks = o.head_blocks;
  c.modulation = o.joint ? MarModulation::kJoint : MarModulation::kSeparate;
  c.noise = o.noise;
  if (o.masked) {
    c.form = MarForm::kMasked;
    c.decoder_depth = o.decoder_depth > 0 ? o.decoder_depth : o.depth;
    c.buffer = o.buffer > 0 ? o.buffer : std::max<std::int64_t>(1, c.tokens() / 4);
  }
  const MarImages::Spread values = images.spread();
  c.mean = values.mean;
  c.scale = values.deviation;
  if (!images.latents()) {  // pixels have bounds
    c.x0_low = (-1.0 - c.mean) / c.scale - kBounds * o.noise;
    c.x0_high = (1.0 - c.mean) / c.scale + kBounds * o.noise;
  }
  check_mar_config(c);
  if (o.scattered) c.order = scattered_order(c.patches_per_side());
  return c;
}

std::unique_ptr<Objective> objective_of(const std::string& data, const MarTraining& o,
                                        const TrainOptions& training, const Note& note) {
  check_shares(o.drop, o.draws);
  if (o.patch < 1) throw UsageError("patch: 1 pixel or more");
  if (!(o.noise >= 0.0 && o.noise <= 10.0)) throw UsageError("noise: 0 to 10 spreads of a token");
  if (!o.masked && (o.decoder_depth != 0 || o.buffer != 0)) {
    throw UsageError("decoder_depth and buffer are of the masked form");
  }
  if (o.masked && o.scattered) {
    throw UsageError("scattered: the masked form draws its tokens in a random order anyway");
  }
  expect_own_folder(training.out, "mar", o.init);
  Result<LabelledImages> read = load_labelled_images(data, ImageSplit::kTrain);
  if (!read) throw FormatError(read.error().message);
  const std::optional<VaeEncoder> vae = encoder_of(o.vae);
  const std::int64_t scale = vae ? vae->config.scale() : 1;  // pixels a value
  Mar model;
  if (!o.init.empty()) model = load_mar(o.init);
  const std::int64_t most = std::max(read->width, read->height), piece = o.patch * scale,
                     own = (most + piece - 1) / piece * piece,
                     side = !o.init.empty() ? model.config.side * scale
                            : o.side != 0   ? o.side
                                            : own;
  MarImages images = data_of(square_images(std::move(read), side), vae, o.flip, note);
  if (o.init.empty()) model = random_mar(config_of(o, images), training.seed);
  return std::make_unique<MarObjective>(std::make_shared<Mar>(std::move(model)), std::move(images),
                                        data_of(held_out_images(data, side), vae, false, note),
                                        MarLoss{.draws = o.draws, .drop = o.drop, .flip = o.flip});
}

// The draft's network: the target's tokens, its own sizes.
Mar draft_of(const Mar& target, const CspdTraining& o, std::uint64_t seed) {
  if (!o.init.empty()) return load_mar(o.init);
  MarConfig c = target.config;
  c.hidden = o.hidden;
  c.heads = o.heads;
  c.mlp = 4 * o.hidden;
  c.depth = o.depth;
  c.head_width = o.head_width;
  c.head_blocks = o.head_blocks;
  c.modulation = MarModulation::kSeparate;
  return random_mar(c, seed);
}

std::unique_ptr<Objective> objective_of(const std::string& target_path, const std::string& data,
                                        const CspdTraining& o, const TrainOptions& training,
                                        const Note& note) {
  check_shares(o.drop, o.draws);
  if (!(o.distill >= 0.0 && o.distill <= 1.0)) throw UsageError("distill is a share: 0 to 1");
  expect_own_folder(training.out, "cspd", o.init);
  auto target = std::make_shared<const Mar>(load_mar(target_path));
  if (target->config.form != MarForm::kCausal) {
    throw UsageError(fmt::format(
        "{} is of the masked form, which takes no drafter; train a causal one", target_path));
  }
  Mar draft = draft_of(*target, o, training.seed);
  const std::optional<VaeEncoder> vae = encoder_of(o.vae);
  if (!vae && are_latents(target->config.channels)) {
    throw UsageError(
        fmt::format("the target makes latents of {} channels: give --vae FOLDER, the "
                    "autoencoder that it was trained with",
                    target->config.channels));
  }
  const std::int64_t side = target->config.side * (vae ? vae->config.scale() : 1);
  return std::make_unique<MarObjective>(
      std::make_shared<Mar>(std::move(draft)),
      data_of(square_images(load_labelled_images(data, ImageSplit::kTrain), side), vae, o.flip,
              note),
      data_of(held_out_images(data, side), vae, false, note),
      MarLoss{.draws = o.draws, .drop = o.drop, .flip = o.flip, .distill = o.distill},
      std::move(target));
}

}  // namespace

TrainReport train_mar(const std::string& data, const MarTraining& options,
                      const TrainOptions& training, const TrainListener& listener) {
  return train_on_ranks(training, listener, [&](const Note& note) {
    return objective_of(data, options, training, note);
  });
}

TrainReport train_cspd(const std::string& target, const std::string& data,
                       const CspdTraining& options, const TrainOptions& training,
                       const TrainListener& listener) {
  return train_on_ranks(training, listener, [&](const Note& note) {
    return objective_of(target, data, options, training, note);
  });
}

}  // namespace forerun
