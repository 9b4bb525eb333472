#include <memory>
#include <string>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"
#include "forerun/image.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct TrainFreeFlags {
  std::string target, data;
  FreeTraining free;
  TrainingFlags training;
};

}  // namespace

void add_train_free(Command& train) {
  auto f = std::make_shared<TrainFreeFlags>();
  Command& app =
      train.add_command("free",
                        "One block that drafts for a Diffusion Transformer from its features "
                        "(arXiv:2511.20390)");
  app.add("-t,--target", f->target, "The Diffusion Transformer", {.required = true});
  bind_image_training(app, f->training, f->data, {.epochs = 10.0});
  app.add("--feature", f->free.feature, "Weight of the features' cosine distance");
  app.add("--smooth", f->free.smooth, "Weight of their Smooth-L1 distance");
  app.add("--overlap", f->free.overlap,
          "Weight of -log of the probability that a draft is kept (the paper: 0)");
  app.add("--no-frozen-image", f->free.frozen_image,
          "Predict the noise itself, as the paper, not how it differs from a frozen image's");
  app.add("--unroll", f->free.unroll, "Steps on its own feature, after the target's");
  app.add("--cfg", f->free.guidance,
          "Guidance that it will draft with, whose noise it learns; 1 = none (the paper)");
  app.add("--late", f->free.late,
          "Share of the images among the last 100 times, where drafts are rejected most; the "
          "others are uniform (the paper: 0)",
          {.least = 0.0, .most = 1.0});
  app.add("--drop", f->free.drop, "Share of the images whose class is dropped, without guidance");
  app.add("--no-flip", f->free.flip, "Without flipped images");
  app.add("--init", f->free.init, "Folder of a drafter to start from", {.shows = "FOLDER"});
  app.footer(R"(Examples:
  forerun train free --target dit --data /usr/share/datasets/fashion-mnist --out free
  forerun bench -m dit --drafters asd,frozen,free:free --drafts 3,7 --count 16)");
  app.runs([f, &app] {
    expect_no_design_beside_init(app, {"--no-frozen-image"});
    return run_training(
        app, f->training, "img", [&](const TrainOptions& options, const TrainListener& listener) {
          return train_free(
              [&] {
                return DiffusionModel::load(f->target, DitDialect::kReference, Precision::kF32);
              },
              f->data, f->free, options, listener);
        });
  });
}

}  // namespace forerun::cli
